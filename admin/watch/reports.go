//go:build !small

package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
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
	Events *web.Record
	today  today
}

// Routes returns the routes of reports, and of today.
//
//	GET /reports   span=day|today|week|7d|30d|365d or from=DAY&to=DAY, group=…&person=…, format=json,
//	               csv or pdf; HTML for browsers, else JSON
func (p *Reports) Routes() []web.Route {
	page := p.Site.Page("reports.html")
	one := make(chan struct{}, 1) // one report at a time, because it reads days of events
	return []web.Route{p.dayRoute(), {Method: "GET", Path: "/reports", Role: web.Viewer,
		Link: web.LinkIn(web.Activity, text.Mark("Reports")),
		Does: "a day, a week or any other time summed up", Gives: "application/json text/html text/csv application/pdf", Query: []web.Field{web.Optional("span", "day | today | week | 7d | 30d | 365d"), web.Optional("from", "the first day, instead of span"), web.Optional("to", "the last day; today without it"), web.Optional("by", "category | host | rule"), web.Optional("more", "yes | no"), web.Optional("group", "only these people"), web.Optional("person", "only this user or address"), web.Optional("format", "json | csv | pdf"), web.Optional("byte-order-mark", "yes | no")},
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
	if form == "" && web.IsPage(r) {
		p.show(w, r, page)
		return
	}
	of, status, err := p.question(r, "")
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	x, status, err := p.buildReport(r.Context(), of)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	var b bytes.Buffer
	switch form {
	case "", "json":
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
	w.Header().Set("Content-Disposition", `attachment; filename="report-`+x.Since.Format(time.DateOnly)+"."+form+`"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // it fails if the client has gone away
}

// show draws the page.
func (p *Reports) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	q := r.URL.Query()
	d := &reportPage{Span: cmp.Or(q.Get("span"), "7d"), From: q.Get("from"), To: q.Get("to"), Group: strings.TrimSpace(q.Get("group")), Person: strings.TrimSpace(q.Get("person")),
		By: event.Category.String(), Spans: reportSpans, Bys: reportBys, texts: web.TextsOf(w)}
	for _, by := range reportBys {
		if by.Value == q.Get("by") {
			d.By = by.Value
		}
	}
	by, _ := event.FieldNamed(d.By)
	of, status, err := p.question(r, d.Span)
	if err == nil {
		of.Texts = d.texts
		ctx, cancel := context.WithTimeout(r.Context(), maxReport)
		defer cancel()
		d.Overview, err = report.Look(ctx, p.Events, of, by, time.Now())
		if status = http.StatusOK; err != nil {
			status, err = failed(ctx, err)
		}
	}
	if err == nil && q.Get("more") == "yes" {
		d.Report, status, err = p.buildReport(r.Context(), of)
	}
	switch {
	case err != nil:
		d.Overview, d.Title, d.Error = nil, d.texts.Say("Activity"), err.Error()
	default:
		d.call(r.Context(), p.Events)
		d.Bars, d.Areas = d.Overview.Bars(), d.Overview.Areas()
		d.titled()
		link := url.Values{"span": {d.Span}, "from": {d.From}, "to": {d.To}, "group": {d.Group}, "person": {d.Person}}
		d.Link = "/reports?" + link.Encode() // whole, as templates escape what stands behind a question mark
	}
	web.WritePage(w, page, status, d)
}

// call adds the names of devices.
func (d *reportPage) call(ctx context.Context, r *web.Record) {
	var all []event.Tally
	for _, c := range d.Overview.People {
		all = append(all, event.Tally{Name: c.Name})
	}
	r.Call(ctx, all)
	for i, t := range all {
		d.Overview.People[i].Called = t.Called
	}
}

// question reads what a report is wanted of, and records the look.
func (p *Reports) question(r *http.Request, span string) (report.Question, int, error) {
	q := r.URL.Query()
	of := report.Question{Group: strings.TrimSpace(q.Get("group")), Person: strings.TrimSpace(q.Get("person")), Groups: p.Site.Groups, Texts: p.Site.Texts.For(r.Header.Get("Accept-Language"))}
	var err error
	if from := q.Get("from"); from != "" {
		of.Since, of.Until, err = report.Days(from, q.Get("to"), time.Now())
	} else {
		of.Since, of.Until, err = report.Span(cmp.Or(q.Get("span"), span), time.Now())
	}
	if err != nil {
		return of, http.StatusBadRequest, err
	}
	if who := account.Of(r.Context()); who != nil && p.Site.Audit != nil {
		err := p.Site.Audit.Add(account.Entry{By: who.Name, Role: who.Role, Via: who.Via, Action: "look", Details: strings.Join(strings.Fields("report of "+of.Since.Format(time.DateOnly)+" "+of.Group+" "+of.Person), " ")})
		if err != nil {
			return of, http.StatusServiceUnavailable, err
		}
	}
	return of, http.StatusOK, nil
}

// buildReport makes a report from the rows that the user may see.
func (p *Reports) buildReport(ctx context.Context, of report.Question) (*report.Report, int, error) {
	ctx, cancel := context.WithTimeout(ctx, maxReport)
	defer cancel()
	x, err := report.Build(ctx, p.Events, of)
	if err != nil {
		status, err := failed(ctx, err)
		return nil, status, err
	}
	return x, http.StatusOK, nil
}

// failed says why the record was not read.
func failed(ctx context.Context, err error) (int, error) {
	switch {
	case errors.Is(err, web.ErrTwoPeople):
		return http.StatusForbidden, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return http.StatusServiceUnavailable, errors.New("the record is too long to be read in 30 seconds; ask for a day, a group or a person")
	}
	return http.StatusServiceUnavailable, err
}
