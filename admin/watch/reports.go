//go:build !small

package watch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/report"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/lib/sheet"
	"shuultuur/text"
)

// maxReport is how long a report may take to read the record.
const maxReport = 30 * time.Second

// Reports are the pages of reports.
type Reports struct {
	Site   *web.Site
	Events event.Reader
}

// Routes returns the route of reports.
//
//	GET /reports   span=day|today|week|7d&group=…&person=…, format=json, csv or
//	               pdf; HTML for browsers, else JSON
func (p *Reports) Routes() []web.Route {
	page := p.Site.Page("reports.html")
	one := make(chan struct{}, 1) // one report at a time, because it reads days of events
	return []web.Route{{Method: "GET", Path: "/reports", Role: web.Helper,
		Link: web.LinkIn(web.Activity, text.Mark("Reports")),
		Does: "a day or a week summed up", Gives: "application/json text/html text/csv application/pdf", Query: []web.Field{web.Optional("span", "day | today | week | 7d"), web.Optional("group", "only these people"), web.Optional("person", "only this user or address"), web.Optional("format", "json | csv | pdf"), web.Optional("byte-order-mark", "yes | no")},
		Handler: func(w http.ResponseWriter, r *http.Request) {
			select {
			case one <- struct{}{}:
				defer func() { <-one }()
				p.report(w, r, page)
			default:
				http.Error(w, "somebody else is asking for a report; try again in a moment", http.StatusServiceUnavailable)
			}
		}}}
}

func (p *Reports) report(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	q := r.URL.Query()
	form := q.Get("format")
	if form == "" && !web.IsPage(r) {
		form = "json"
	}
	x, status, err := p.buildReport(r.Context(), p.Site.Texts.For(r.Header.Get("Accept-Language")), q.Get("span"), strings.TrimSpace(q.Get("group")), strings.TrimSpace(q.Get("person")))
	if err != nil && form != "" {
		http.Error(w, err.Error(), status)
		return
	}
	name := "report"
	if x != nil {
		name += "-" + x.Since.Format(time.DateOnly)
	}
	var b bytes.Buffer
	switch form {
	case "":
		d := struct {
			*report.Report
			Span, Group, Person, Error, Link string
			Spans                            []web.Choice
			Tables                           []report.Table
		}{Report: x, Span: q.Get("span"), Group: q.Get("group"), Person: q.Get("person"), Spans: []web.Choice{{Value: "day", Text: text.Mark("yesterday")}, {Value: "today", Text: text.Mark("today")}, {Value: "week", Text: text.Mark("last week")}, {Value: "7d", Text: text.Mark("last 7 days")}}}
		if err != nil {
			d.Error = err.Error()
		} else {
			d.Tables = x.Tables()
		}
		q.Del("format")
		d.Link = "/reports?" + q.Encode() // whole, as templates escape what stands behind a question mark
		web.WritePage(w, page, status, d)
		return
	case "json":
		web.WriteJSON(w, http.StatusOK, x)
		return
	case "csv":
		if q.Get("byte-order-mark") == "yes" {
			b.WriteString(sheet.Mark)
		}
		err = x.CSV(&b)
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	case "pdf":
		err = x.PDF(&b)
		w.Header().Set("Content-Type", "application/pdf")
	default:
		err = errors.New("format is json, csv or pdf")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+"."+form+`"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // it fails if the client has gone away
}

// buildReport makes a report from the rows that the user may see. It is recorded as a look.
func (p *Reports) buildReport(ctx context.Context, t *text.Texts, of, group, person string) (*report.Report, int, error) {
	since, until, err := report.Span(of, time.Now())
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if who := account.Of(ctx); who != nil && p.Site.Audit != nil {
		err := p.Site.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, Action: "look", Details: strings.Join(strings.Fields("report of "+since.Format(time.DateOnly)+" "+group+" "+person), " ")})
		if err != nil {
			return nil, http.StatusServiceUnavailable, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxReport)
	defer cancel()
	x, err := report.Build(ctx, p.Events, report.Question{Since: since, Until: until, Group: group, Person: person, Groups: p.Site.Groups, Texts: t})
	switch {
	case errors.Is(err, web.ErrTwoPeople):
		return nil, http.StatusForbidden, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, http.StatusServiceUnavailable, errors.New("the record is too long to be read in 30 seconds; ask for a day, a group or a person")
	case err != nil:
		return nil, http.StatusServiceUnavailable, err
	}
	return x, http.StatusOK, nil
}
