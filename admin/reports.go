//go:build !small

package admin

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/report"
	"shuultuur/text"
)

// maxReport is how long a report may take to read the record.
const maxReport = 30 * time.Second

// reportRoutes returns the route of reports.
//
//	GET /reports   span=day|today|week|7d&group=…&person=…, format=json, csv or
//	               pdf; HTML for browsers, else JSON
func reportRoutes(p *Parts) []route {
	if p.Events == nil {
		return nil
	}
	page := pageOf("reports.html", p.Pause.notice)
	one := make(chan struct{}, 1) // one report at a time, because it reads days of events
	return []route{{"GET", "/reports", helper, func(w http.ResponseWriter, r *http.Request) {
		select {
		case one <- struct{}{}:
			defer func() { <-one }()
			p.report(w, r, page)
		default:
			http.Error(w, "somebody else is asking for a report; try again in a moment", http.StatusServiceUnavailable)
		}
	}}}
}

func (p *Parts) report(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	q := r.URL.Query()
	form := q.Get("format")
	if form == "" && !isPage(r) {
		form = "json"
	}
	x, status, err := p.buildReport(r.Context(), p.Texts.For(r.Header.Get("Accept-Language")), q.Get("span"), strings.TrimSpace(q.Get("group")), strings.TrimSpace(q.Get("person")))
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
			Spans                            []span
			Tables                           []report.Table
		}{Report: x, Span: q.Get("span"), Group: q.Get("group"), Person: q.Get("person"), Spans: []span{{"day", text.Mark("yesterday")}, {"today", text.Mark("today")}, {"week", text.Mark("last week")}, {"7d", text.Mark("last 7 days")}}}
		if err != nil {
			d.Error = err.Error()
		} else {
			d.Tables = x.Tables()
		}
		q.Del("format")
		d.Link = "/reports?" + q.Encode() // whole, as templates escape what stands behind a question mark
		writePage(w, page, status, d)
		return
	case "json":
		writeJSON(w, http.StatusOK, x)
		return
	case "csv":
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
func (p *Parts) buildReport(ctx context.Context, t *text.Texts, of, group, person string) (*report.Report, int, error) {
	since, until, err := report.Span(of, time.Now())
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if who := account.Of(ctx); who != nil && p.Audit != nil {
		err := p.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, Action: "look", Details: strings.Join(strings.Fields("report of "+since.Format(time.DateOnly)+" "+group+" "+person), " ")})
		if err != nil {
			return nil, http.StatusServiceUnavailable, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxReport)
	defer cancel()
	x, err := report.Build(ctx, p.Events, report.Question{Since: since, Until: until, Group: group, Person: person, Groups: p.Groups, Texts: t})
	switch {
	case errors.Is(err, ErrTwoPeople):
		return nil, http.StatusForbidden, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, http.StatusServiceUnavailable, errors.New("the record is too long to be read in 30 seconds; ask for a day, a group or a person")
	case err != nil:
		return nil, http.StatusServiceUnavailable, err
	}
	return x, http.StatusOK, nil
}
