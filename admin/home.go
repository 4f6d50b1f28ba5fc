package admin

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/text"
)

const (
	// keepHome is how long counts for one viewer are reused for others, so that
	// many open pages cost as much as one.
	keepHome = 5 * time.Second
	topHome  = 8
)

// home makes the start page.
type home struct {
	p *Parts

	mu    sync.Mutex
	tops  []homeTop // guarded by mu
	err   error     // guarded by mu
	until time.Time // guarded by mu
}

type homeTop struct {
	Title, Colour string
	Rows          []homeRow
}

type homeRow struct {
	Name, Called, Filter string
	N                    int
	Width                float64 // in percent of the longest
}

// routes returns the start page.
//
//	GET /                 HTML for browsers, else the paths there are, as text
//	GET /overview         the last hour by verdict, as JSON
func (p *Parts) home() []route {
	h := &home{p: p}
	page := pageOf("home.html", p.Pause.notice)
	return []route{
		{"GET", "/{$}", viewer, func(w http.ResponseWriter, r *http.Request) {
			if isPage(r) {
				h.show(w, r, page)
				return
			}
			p.index(w, r)
		}},
		{"GET", "/overview", viewer, func(w http.ResponseWriter, r *http.Request) {
			if p.Live == nil {
				http.NotFound(w, r)
				return
			}
			writeJSON(w, http.StatusOK, p.Live.Recent(time.Now()))
		}},
	}
}

func (h *home) show(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	now := time.Now()
	d := struct {
		Health     Health
		Recent     *Recent
		Blocked    int64
		Share      float64
		Half, Slow string
		Verdicts   graph
		Latency    graph
		Keys       []string
		Tops       []homeTop
		Remarks    []Remark
		Error      string
	}{Health: h.p.Health(), Recent: &Recent{}}
	if h.p.Live != nil {
		d.Recent = h.p.Live.Recent(now)
	}
	d.Verdicts, d.Latency = d.Recent.graphs()
	for _, a := range stacked {
		if d.Recent.Actions[a.String()] > 0 {
			d.Keys = append(d.Keys, a.String())
		}
	}
	d.Blocked = d.Recent.Actions[filter.Block.String()]
	if all := d.Recent.Requests + d.Recent.Queries; all > 0 {
		d.Share = 100 * float64(d.Blocked) / float64(all)
	}
	d.Half, d.Slow = briefTime(d.Recent.Half), briefTime(d.Recent.Slow)
	if h.p.Remarks != nil {
		d.Remarks = h.p.Remarks()
	}
	if h.p.Events != nil {
		var err error
		if d.Tops, err = h.topOfDay(r.Context(), now); err != nil {
			d.Error = err.Error()
		}
	}
	writePage(w, page, http.StatusOK, d)
}

// briefTime writes a time as a figure.
func briefTime(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

// topOfDay counts the events of the last day; the answer is cached for a moment.
// For a user with limited rights it counts again.
func (h *home) topOfDay(ctx context.Context, now time.Time) ([]homeTop, error) {
	if d, ok := h.p.Events.Reader.(*reader); ok {
		if who := account.Of(ctx); who != nil && !d.bounds(who).coverAll() {
			ctx, cancel := context.WithTimeout(ctx, maxAsk)
			defer cancel()
			tops, err := h.count(ctx, now)
			if err != nil {
				err = tooLong(ctx, err)
			}
			return tops, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		return h.tops, h.err
	}
	// Others wait for this answer: it does not end with the one who asked.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAsk)
	defer cancel()
	h.tops, h.err = h.count(ctx, now)
	if h.err != nil {
		h.err = tooLong(ctx, h.err)
	}
	h.until = time.Now().Add(keepHome)
	return h.tops, h.err
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
		{text.Mark("Blocked most, last day"), "block", "action:block host:", event.Question{Filter: blocked, By: event.Host, Top: topHome}},
		{text.Mark("Clients"), "pass", "client:", event.Question{Filter: all, By: event.Client, Top: topHome}},
		{text.Mark("Categories"), "warn", "category:", event.Question{Filter: all, By: event.Category, Top: topHome}},
		{text.Mark("Asked for most"), "allow", "host:", event.Question{Filter: all, By: event.Host, Top: topHome}},
	}
	var questions []event.Question
	for _, q := range what {
		questions = append(questions, q.Question)
	}
	tallies, err := h.p.Events.Count(ctx, questions...)
	if err != nil {
		return nil, err
	}
	h.p.Events.call(ctx, tallies[1])
	var tops []homeTop
	for i, q := range what {
		t := homeTop{Title: q.title, Colour: q.colour}
		for _, x := range tallies[i] {
			t.Rows = append(t.Rows, homeRow{Name: x.Name, Called: x.Called, N: x.Events, Filter: q.before + quoted(x.Name),
				Width: 100 * float64(x.Events) / float64(max(1, tallies[i][0].Events))})
		}
		tops = append(tops, t)
	}
	return tops, nil
}
