//go:build !small

package watch

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/report"
	"shuultuur/admin/web"
	"shuultuur/event"
)

// keepDay is how long the day of everyone is reused, so that many open start pages cost as much as one.
const keepDay = time.Minute

// mostDays are the people whose day the page offers.
const mostDays = 5

// A today is the day of everyone as it was counted last.
type today struct {
	mu    sync.Mutex
	o     *report.Overview // guarded by mu
	err   error            // guarded by mu
	until time.Time        // guarded by mu
}

// A dayPage is today beside yesterday: of everyone, or of a person.
type dayPage struct {
	*reportPage
	Whose []web.Choice
}

// dayRoute returns the route of today, which the start page shows.
//
//	GET /day   person=NAME: requests by hour beside those of yesterday, and new sites; HTML or JSON
func (p *Reports) dayRoute() web.Route {
	page := p.Site.Page("day.html")
	return web.Route{Method: "GET", Path: "/day", Role: web.Viewer,
		Does: "today by hour beside yesterday, and new sites", Gives: web.PageOrJSON, Query: []web.Field{web.Optional("person", "only this user or address")},
		Handler: func(w http.ResponseWriter, r *http.Request) { p.day(w, r, page) }}
}

func (p *Reports) day(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	d := dayPage{reportPage: &reportPage{Span: "today", Person: strings.TrimSpace(r.URL.Query().Get("person")), By: event.Category.String(), texts: web.TextsOf(w)}}
	now, status := time.Now(), http.StatusOK
	all, err := p.everyone(r.Context(), now)
	if d.Overview = all; err == nil && d.Person != "" {
		var of report.Question
		if of, status, err = p.question(r, d.Span); err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
			defer cancel()
			if d.Overview, err = report.Look(ctx, p.Events, of, event.Category, now); err != nil {
				err = web.TooLong(ctx, err)
			}
			status = http.StatusOK
		}
	}
	if err != nil && status == http.StatusOK {
		status = web.StatusOfRecord(err)
	}
	switch {
	case !web.IsPage(r) && err != nil:
		http.Error(w, err.Error(), status)
		return
	case !web.IsPage(r):
		o := d.Overview
		web.WriteJSON(w, status, struct {
			Since          time.Time         `json:"since"`
			Requests       int               `json:"requests"`
			Blocked        int               `json:"blocked"`
			RequestsBefore int               `json:"requests_before"` // until the same time of yesterday
			BlockedBefore  int               `json:"blocked_before"`
			Steps          []report.Step     `json:"steps"`
			Known          bool              `json:"known"` // the record reaches so far back that new sites can be told
			NewSites       int               `json:"new_sites"`
			New            []report.Compared `json:"new"`
		}{o.Since, o.Requests, o.Blocked, o.RequestsBefore, o.BlockedBefore, o.Steps, o.Known, o.NewSites, append([]report.Compared{}, o.New...)}) // JSON then has [], not null
		return
	case err != nil:
		d.Overview, d.Error = nil, err.Error()
	default:
		d.Bars = d.Overview.Bars()
		d.Whose = d.whose(all)
	}
	web.WritePage(w, page, status, d)
}

// whose returns those whose day the page offers: who asked most, and who is shown.
func (d *dayPage) whose(all *report.Overview) []web.Choice {
	found := []web.Choice{{Text: d.texts.Say("everyone")}}
	shown := d.Person == ""
	for _, c := range all.People[:min(len(all.People), mostDays)] {
		name := c.Called
		if name == "" {
			name = c.Name
		}
		found = append(found, web.Choice{Value: c.Name, Text: name})
		shown = shown || c.Name == d.Person
	}
	if !shown {
		found = append(found, web.Choice{Value: d.Person, Text: d.Person})
	}
	return found
}

// everyone counts the day of everyone whom the user may see. The answer is reused for a moment, but for
// users with limited rights.
func (p *Reports) everyone(ctx context.Context, now time.Time) (*report.Overview, error) {
	look := func(ctx context.Context) (*report.Overview, error) {
		ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
		defer cancel()
		var of report.Question
		var err error
		if of.Since, of.Until, err = report.Span("today", now); err != nil {
			return nil, err
		}
		o, err := report.Look(ctx, p.Events, of, event.Category, now)
		if err != nil {
			return nil, web.TooLong(ctx, err)
		}
		(&reportPage{Overview: o}).call(ctx, p.Events)
		return o, nil
	}
	if who := account.Of(ctx); who != nil && !p.Site.Bounds(who).CoverAll() {
		return look(ctx)
	}
	t := &p.today
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.After(t.until) {
		// Others wait for this answer: it does not end with the one who asked.
		t.o, t.err = look(context.WithoutCancel(ctx))
		t.until = time.Now().Add(keepDay)
	}
	return t.o, t.err
}
