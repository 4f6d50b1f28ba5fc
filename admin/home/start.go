// Package home has the start page, and the page that leads through the first settings. The gateway
// adds each transaction to [Live], whose last hour the start page draws.
package home

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/report"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/text"
)

const (
	// keepHome is how long counts for one viewer are reused for others, so that
	// many open pages cost as much as one.
	keepHome = 5 * time.Second
	topHome  = 8
	// mostTasks are on the page; the inbox has all.
	mostTasks = 4
	// mostDevices are counted.
	mostDevices = 10000
)

// home makes the start page.
type home struct {
	*Start
	site *web.Site

	mu    sync.Mutex
	tops  []homeTop // guarded by mu
	err   error     // guarded by mu
	until time.Time // guarded by mu
}

type homeTop struct {
	Title, Colour string
	Rows          []web.Bar
	All           int  // how many there are, of devices
	kinds         bool // its rows are categories
}

// Start has what the start page shows.
type Start struct {
	Health  func() system.Health
	Live    *Live           // nil: the page has no graph
	Remarks func() []Remark // nil: there are none
	Events  *web.Record     // nil: no record can be asked
	// Index lists the paths there are, for programs.
	Index http.HandlerFunc
}

// Routes returns the routes of the start page.
//
//	GET /                 HTML for browsers, else the paths there are, as text
//	GET /overview         the last hour by verdict, as JSON
func (p *Start) Routes(site *web.Site) []web.Route {
	h := &home{Start: p, site: site}
	page := site.Page("home.html")
	return []web.Route{
		{Method: "GET", Path: "/{$}", Role: web.Viewer,
			Link: web.LinkIn(web.Home, text.Mark("Home")),
			Does: "the start page; for programs the paths there are", Gives: web.AnyText + " text/html",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				if web.IsPage(r) {
					h.show(w, r, page)
					return
				}
				p.Index(w, r)
			}},
		{Method: "GET", Path: "/overview", Role: web.Viewer,
			Does: "the last hour by verdict, and how long things took",
			Handler: func(w http.ResponseWriter, r *http.Request) {
				if p.Live == nil {
					http.NotFound(w, r)
					return
				}
				web.WriteJSON(w, http.StatusOK, p.Live.Recent(time.Now()))
			}},
	}
}

func (h *home) show(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	now := time.Now()
	d := struct {
		Health   system.Health
		Problems []web.Task
		Tasks    []web.Task
		Inbox    bool // there is more than the page shows
		Paused   string
		MayPause bool
		Reports  bool
		Day      bool // today can be shown
		Devices  int  // of the last day
		Recent   *Recent
		Blocked  int64
		Share    float64
		Hour     hourChart
		Tops     []homeTop
		Remarks  []Remark
		Error    string
	}{Health: h.Health(), Recent: &Recent{}, Tasks: h.site.TasksFor(w, r), Paused: h.site.Notice(web.TextsOf(w))}
	d.Day = h.Events != nil && h.site.May(w, "/day")
	d.Inbox, d.Reports = h.site.May(w, "/inbox"), h.site.May(w, "/reports")
	d.MayPause = web.UserOf(r).Role > account.Helper && h.site.May(w, "/pause")      // helpers pause for their groups
	d.Tasks = slices.DeleteFunc(d.Tasks, func(t web.Task) bool { return t.Trouble }) // the page says all problems
	d.Tasks = d.Tasks[:min(len(d.Tasks), mostTasks)]
	d.Problems = system.TasksOf(&d.Health, web.TextsOf(w), func(path string) bool { return h.site.May(w, path) })
	if h.Live != nil {
		d.Recent = h.Live.Recent(now)
	}
	d.Hour = d.Recent.chart()
	d.Blocked = d.Recent.Actions[filter.Block.String()]
	if all := d.Recent.Requests + d.Recent.Queries; all > 0 {
		d.Share = 100 * float64(d.Blocked) / float64(all)
	}
	if h.Remarks != nil {
		d.Remarks = h.Remarks()
	}
	if h.Events != nil {
		var err error
		if d.Tops, err = h.topOfDay(r.Context(), now); err != nil {
			d.Error = err.Error()
		}
		for _, t := range d.Tops {
			d.Devices = max(d.Devices, t.All)
		}
		d.Tops = inWords(web.TextsOf(w), d.Tops)
	}
	web.WritePage(w, page, http.StatusOK, d)
}

// topOfDay counts the events of the last day; the answer is cached for a moment.
// For a user with limited rights it counts again.
func (h *home) topOfDay(ctx context.Context, now time.Time) ([]homeTop, error) {
	if who := account.Of(ctx); who != nil && !h.site.Bounds(who).CoverAll() {
		ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
		defer cancel()
		tops, err := h.count(ctx, now)
		if err != nil {
			err = web.TooLong(ctx, err)
		}
		return tops, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		return h.tops, h.err
	}
	// Others wait for this answer: it does not end with the one who asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), web.MaxAsk)
	defer cancel()
	h.tops, h.err = h.count(ctx, now)
	if h.err != nil {
		h.err = web.TooLong(ctx, h.err)
	}
	h.until = time.Now().Add(keepHome)
	return h.tops, h.err
}

// inWords returns the tables with the names of categories as people say them, in the language of t.
func inWords(t *text.Texts, all []homeTop) []homeTop {
	all = slices.Clone(all) // they are kept for readers of other languages
	for i := range all {
		if !all[i].kinds {
			continue
		}
		all[i].Rows = slices.Clone(all[i].Rows)
		for j := range all[i].Rows {
			all[i].Rows[j].Name = report.KindName(t, all[i].Rows[j].Name)
		}
	}
	return all
}

func (h *home) count(ctx context.Context, now time.Time) ([]homeTop, error) {
	all := event.Filter{Since: now.Add(-24 * time.Hour)}
	blocked := all
	if err := blocked.And(event.Action, false, filter.Block.String()); err != nil {
		return nil, err
	}
	what := []struct {
		title, colour, before string
		event.Question
	}{
		{text.Mark("Blocked most"), "block", "action:block host:", event.Question{Filter: blocked, By: event.Host, Top: topHome}},
		{text.Mark("Devices"), "pass", "client:", event.Question{Filter: all, By: event.Client, Top: mostDevices}},
		{text.Mark("Kinds"), "warn", "category:", event.Question{Filter: all, By: event.Category, Top: topHome}},
		{text.Mark("Asked for most"), "allow", "host:", event.Question{Filter: all, By: event.Host, Top: topHome}},
	}
	var questions []event.Question
	for _, q := range what {
		questions = append(questions, q.Question)
	}
	tallies, err := h.Events.Count(ctx, questions...)
	if err != nil {
		return nil, err
	}
	devices := len(tallies[1])
	tallies[1] = tallies[1][:min(devices, topHome)]
	h.Events.Call(ctx, tallies[1])
	var tops []homeTop
	for i, q := range what {
		t := homeTop{Title: q.title, Colour: q.colour, kinds: q.By == event.Category}
		if i == 1 {
			t.All = devices
		}
		for _, x := range tallies[i] {
			t.Rows = append(t.Rows, web.Bar{Name: x.Name, Called: x.Called, N: x.Events, Filter: q.before + web.Quoted(x.Name),
				Width: 100 * float64(x.Events) / float64(max(1, tallies[i][0].Events))})
		}
		tops = append(tops, t)
	}
	return tops, nil
}

// A Remark says what is low on the machine, why that matters, and which commands raise it.
type Remark struct {
	About, Found, Wanted, Why string
	Mend                      []string
}
