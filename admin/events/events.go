// Package events has the pages of the record: rows that match a filter, the sums over them, one row
// with its why, saved searches, and new rows as they arrive. A form becomes an [event.Filter], which
// the reader of the site limits to what the user may see. One reader (tail.go) serves all who
// follow the record.
package events

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/lists"
	"shuultuur/admin/search"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// Events queries the record of transactions for the admin address.
type Events struct {
	*web.Record
	// Lists can be changed by buttons beside events; nil: there are none.
	Lists *lists.Lists
	// Explain says what would be decided now; nil: nothing does.
	Explain why.Explain
	// CanRule says that sites can be opened and blocked.
	CanRule bool
	// Rules returns the names of a policy's rules in order. Nil: they are not known.
	Rules func(policy string) []string
	// Groups returns the groups of a user at an address. Nil: users have none.
	Groups func(addr netip.Addr, user string) []string
	// Searches are saved searches; nil: they cannot be saved.
	Searches *search.Book
}

const (
	MaxRows = 200 // rows of one page
	maxTop  = 10  // rows of one table of the statistics
)

var spans = []web.Choice{{Value: "1h", Text: text.Mark("last hour")}, {Value: "1d", Text: text.Mark("last day")}, {Value: "7d", Text: text.Mark("last week")}, {Value: "", Text: text.Mark("all")}}

// An eventQuery has the parameters of a page of events.
type eventQuery struct {
	Filter string // in the language of event.ParseFilter
	Last   string // how long to look back
	Before int64  // only rows older than the one at this place in the record
	// Searches are those of the user; nil: none can be saved.
	Searches *savedSearches
}

func (a eventQuery) filter(now time.Time) (f event.Filter, err error) {
	if f, err = event.ParseFilter(a.Filter, now); err != nil || a.Last == "" || !f.Since.IsZero() {
		return f, err
	}
	var last setting.Duration
	if err := last.UnmarshalText([]byte(a.Last)); err != nil || last.Off() {
		return f, fmt.Errorf("last=%q is not a time to look back: write 1h or 7d", a.Last)
	}
	f.Since = now.Add(-last.Or(0))
	return f, nil
}

// Routes returns the routes of events.
//
//	GET /events?filter=FILTER&last=TIME&before=PLACE&fold=no
//	                      the newest; HTML, folded without fold=no, for browsers, else JSON lines, with
//	                      the address of the next page in a Link header.
//	                      order=oldest&after=PLACE: the oldest, as JSON lines; the
//	                      Link is there on the last page, too.
//	                      by=FIELD&top=N: sums by that field instead, as JSON
//	                      form=csv: a table for spreadsheets, at most maxSheet rows
//	POST /events          a host is blocked or allowed: the buttons of the page
//	POST /events/searches  name, filter, last: keeps a search for the user; an empty
//	                      filter removes it
//	GET /events/live?filter=FILTER
//	                      what is recorded from now on, as server-sent events:
//	                      HTML for the page, or JSON with form=json
//	GET /events/{id}      one transaction in full
//	GET /statistics       sums of the last hour and day; HTML or JSON
//
// Without a store that can be asked (e is nil) they say so.
func (e *Events) Routes(site *web.Site) []web.Route {
	if e == nil {
		none := func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no store that can be asked keeps events: name a file at events.sqlite or events.jsonl in the settings", http.StatusNotFound)
		}
		return []web.Route{{Method: "GET", Path: "/events", Role: web.Viewer,
			Link: web.LinkIn(web.Activity, text.Mark("Log")),
			Does: "transactions on record, the newest first, 200 at once; the Link header has the next page", Gives: "application/x-ndjson text/csv text/html", Query: []web.Field{web.Optional("filter", "words and fields, such as host:example.com action:block"), web.Optional("last", "how long to look back: 1h, 7d"), web.Optional("before", "only those older than the one at this place"), web.Optional("order", "oldest: the oldest first"), web.Optional("after", "of these, only those after the one at this place"), web.Optional("by", "count by this field instead"), web.Optional("top", "how many sums, 10 without it"), web.Optional("fold", "fold=no for every row of the page"), web.Optional("form", "csv for a table")},
			Handler: none}, {Method: "POST", Path: "/events/searches", Role: web.Viewer,
			Does: "keep a search of the record for who asks, or remove it", Gives: web.PageOrJSON, Form: []web.Field{web.Required("name", "what it is called"), web.Optional("filter", "as in GET /events; without it the search is removed"), web.Optional("last", "how long to look back: 1h, 7d")},
			Effect:  web.OfAlerts,
			Handler: none}, {Method: "GET", Path: "/events/live", Role: web.Viewer,
			Does: "what is recorded from now on, as server-sent events", Gives: "text/event-stream", Query: []web.Field{web.Optional("filter", "words and fields, such as host:example.com action:block"), web.Optional("form", "json for JSON in the events; else they are rows of the page"), web.Optional("fold", "fold=no for every row of the page")},
			Handler: none}, {Method: "GET", Path: "/events/{id}", Role: web.Viewer,
			Does: "one transaction in full; the page says what would be decided now", Gives: web.PageOrJSON,
			Handler: none}, {Method: "GET", Path: "/statistics", Role: web.Viewer,
			Does: "sums of the last hour and day", Gives: web.PageOrJSON,
			Handler: none}}
	}
	in := e.Lists
	page, sums := site.Page("events.html"), site.Page("statistics.html")
	tail := &tail{events: e.Reader, page: page, site: site}
	one := &onePage{events: e, page: site.Page("event.html")}
	var counting sync.Mutex // one at a time: it reads a day of events
	sum := web.Route{Method: "GET", Path: "/statistics", Role: web.Viewer,
		Does: "sums of the last hour and day", Gives: web.PageOrJSON,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			if web.IsPage(r) && !release.Small {
				http.Redirect(w, r, "/reports?span=today", http.StatusSeeOther)
				return
			}
			if !counting.TryLock() {
				http.Error(w, "somebody else is asking for the statistics; try again in a moment", http.StatusServiceUnavailable)
				return
			}
			defer counting.Unlock()
			e.statistics(w, r, sums)
		}}
	if release.Small { // the reports have a page
		sum.Link = web.LinkIn(web.Activity, text.Mark("Statistics"))
	}
	return []web.Route{
		{Method: "GET", Path: "/events", Role: web.Viewer,
			Link: web.LinkIn(web.Activity, text.Mark("Log")),
			Does: "transactions on record, the newest first, 200 at once; the Link header has the next page", Gives: "application/x-ndjson text/csv text/html", Query: []web.Field{web.Optional("filter", "words and fields, such as host:example.com action:block"), web.Optional("last", "how long to look back: 1h, 7d"), web.Optional("before", "only those older than the one at this place"), web.Optional("order", "oldest: the oldest first"), web.Optional("after", "of these, only those after the one at this place"), web.Optional("by", "count by this field instead"), web.Optional("top", "how many sums, 10 without it"), web.Optional("fold", "fold=no for every row of the page"), web.Optional("form", "csv for a table")},
			Handler: func(w http.ResponseWriter, r *http.Request) { e.show(w, r, page, in, "", nil) }},
		{Method: "POST", Path: "/events", Role: web.Operator,
			Does: "block or allow the host of a transaction", Gives: "application/x-ndjson text/html", Form: []web.Field{web.Required("what", "block | allow | unblock | unallow"), web.Required("entry", "host name"), web.Optional("category", "category of the list"), web.Optional("list", "list that a block goes into"), web.OnTrial},
			Effect: web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) {
				if in == nil {
					http.NotFound(w, r)
					return
				}
				r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
				if err := r.ParseForm(); err != nil {
					http.Error(w, err.Error(), http.StatusBadRequest)
					return
				}
				changes, done, err := in.ButtonChanges(r.PostForm)
				if err == nil {
					var shown bool
					if shown, err = site.ShowEffect(w, r, web.PendingChange{What: done, Back: web.WithoutDryRun(r.URL), Trial: web.Trial{Lists: changes}}); shown {
						return
					}
				}
				if err == nil {
					err = in.Change(r.Context(), changes)
				}
				e.show(w, r, page, in, done, err)
			}},
		{Method: "POST", Path: "/events/searches", Role: web.Viewer,
			Does: "keep a search of the record for who asks, or remove it", Gives: web.PageOrJSON, Form: []web.Field{web.Required("name", "what it is called"), web.Optional("filter", "as in GET /events; without it the search is removed"), web.Optional("last", "how long to look back: 1h, 7d")},
			Effect:  web.OfAlerts,
			Handler: e.save},
		{Method: "GET", Path: web.LivePath, Role: web.Viewer,
			Does: "what is recorded from now on, as server-sent events", Gives: "text/event-stream", Query: []web.Field{web.Optional("filter", "words and fields, such as host:example.com action:block"), web.Optional("form", "json for JSON in the events; else they are rows of the page"), web.Optional("fold", "fold=no for every row of the page")},
			Handler: tail.serve},
		{Method: "GET", Path: "/events/{id}", Role: web.Viewer,
			Does: "one transaction in full; the page says what would be decided now", Gives: web.PageOrJSON,
			Handler: one.show},
		sum,
	}
}

// maxTops is the most sums in one answer.
const maxTops = 10_000

// tops answers with the most frequent values of a field.
func (e *Events) tops(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, err := eventQuery{Filter: q.Get("filter"), Last: q.Get("last")}.filter(time.Now())
	by, ok := event.FieldNamed(q.Get("by"))
	n := 10
	if err == nil && q.Has("top") {
		n, err = strconv.Atoi(q.Get("top"))
	}
	switch {
	case err != nil:
	case !ok || by == event.Text:
		err = fmt.Errorf("by=%q is not a field: write client, host, category, rule or user", q.Get("by"))
	case n < 0 || n > maxTops:
		err = fmt.Errorf("top=%d is not a number from 1 to %d, or 0 for so many", n, maxTops)
	default:
		err = event.Countable(by)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
	defer cancel()
	all, err := e.Count(ctx, event.Question{Filter: f, By: by, Top: cmp.Or(n, maxTops)})
	if err != nil {
		http.Error(w, web.TooLong(ctx, err).Error(), web.StatusOfRecord(err))
		return
	}
	if by == event.Client {
		e.Call(ctx, all[0])
	}
	web.WriteJSON(w, http.StatusOK, append([]event.Tally{}, all[0]...))
}

// stream returns where new rows of a page come from, "" on older pages and where that is switched
// off, and the page with that switched on or off.
func (q eventQuery) stream(page string, off bool) (live, toggle string) {
	switch {
	case q.Before != 0:
		return "", ""
	case off:
		return "", page
	}
	return "/events/live?" + url.Values{"filter": {q.Filter}}.Encode(), page + "&live=off"
}

func (e *Events) show(w http.ResponseWriter, r *http.Request, t web.PageTemplate, in *lists.Lists, done string, failed error) {
	q := r.URL.Query()
	html := strings.Contains(r.Header.Get("Accept"), "text/html")
	if !html && q.Has("by") && r.Method == http.MethodGet {
		e.tops(w, r)
		return
	}
	if q.Get("form") == "csv" && r.Method == http.MethodGet {
		e.sheet(w, r)
		return
	}
	order := event.Page{Newest: html || q.Get("order") != "oldest", Limit: MaxRows}
	place := map[bool]string{true: "before", false: "after"}[order.Newest]
	d := struct {
		eventQuery
		Spans       []web.Choice
		Lists       []lists.List
		Again       string // this page
		Older       string // the next page of older events, or ""
		Rows        []web.EventRow
		Done, Error string
		Live        string // where new rows come from, "" on older pages and where that is switched off
		Toggle      string // the page with new rows switched on or off, "" on older pages
		Undo        url.Values
		Chips       []chip
		Terms       []chip // of the filter, and what it may be narrowed to
		Sheet       string // the same rows as a table
	}{eventQuery: eventQuery{Filter: strings.TrimSpace(q.Get("filter")), Last: q.Get("last"), Searches: e.loadSearches(r)}, Spans: spans, Done: done}
	if done != "" && failed == nil {
		d.Undo = undo(r.PostForm)
	}
	d.Before, _ = strconv.ParseInt(q.Get(place), 10, 64)
	order.After = d.Before
	if html && !q.Has("last") {
		d.Last = "1d" // so that the first page does not read a year of events
	}
	page := url.Values{"filter": {d.Filter}, "last": {d.Last}}
	if q.Get("fold") == "no" {
		page.Set("fold", "no")
	}
	d.Again = "/events?" + page.Encode()
	d.Live, d.Toggle = d.stream(d.Again, q.Get("live") == "off")
	if d.Live != "" && q.Get("fold") == "no" {
		d.Live += "&fold=no"
	}
	categories := map[string]bool{}
	d.Lists = in.WithCategories(categories)
	status := http.StatusOK
	if failed != nil {
		d.Done, d.Error, status = "", failed.Error(), web.StatusOf(failed)
	}
	f, err := d.filter(time.Now())
	if err != nil {
		d.Error, status = err.Error(), http.StatusBadRequest
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
		defer cancel()
		for row, err := range e.Query(ctx, f, order) {
			if err != nil {
				d.Error, status = web.TooLong(ctx, err).Error(), web.StatusOfRecord(err)
				break
			}
			d.Rows = append(d.Rows, web.EventRow{Row: &row, Listed: categories[strings.ToLower(row.Category)], Again: d.Again, CanBlock: len(d.Lists) > 0})
		}
	}
	if html {
		e.name(r.Context(), d.Rows)
		d.Chips = chips("/events", d.eventQuery, q.Get("fold") != "no")
		d.Terms = termChips("/events", d.eventQuery, d.Rows, q.Get("fold") != "no")
		d.Sheet = "/events?" + url.Values{"filter": {d.Filter}, "last": {d.Last}, "form": {"csv"}}.Encode()
	}
	if n := len(d.Rows); n == MaxRows || n > 0 && !order.Newest {
		page.Set(place, strconv.FormatInt(d.Rows[n-1].Seq, 10))
		if !order.Newest {
			page.Set("order", "oldest")
		}
		d.Older = "/events?" + page.Encode()
		w.Header().Set("Link", "<"+d.Older+`>; rel="next"`)
	}
	if html && q.Get("fold") != "no" {
		d.Rows = fold(d.Rows)
	}
	switch {
	case html:
		web.WritePage(w, t, status, d)
	case d.Error != "":
		http.Error(w, d.Error, status)
	default:
		var b []byte
		for _, s := range d.Rows {
			b = jsonl.AppendLine(b, s.Row)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(b) // it fails if the client has gone away
	}
}

// name adds the names of devices.
func (e *Events) name(ctx context.Context, rows []web.EventRow) {
	if e.Names == nil {
		return
	}
	addrs := make([]netip.Addr, len(rows))
	for i := range rows {
		addrs[i] = rows[i].Row.Client
	}
	names := e.Names(ctx, addrs)
	for i := range rows {
		rows[i].Name = names[addrs[i]]
	}
}

// undo returns the form that undoes another one, or nil if that is itself an
// undo.
func undo(form url.Values) url.Values {
	back := map[string]string{"block": "unblock", "allow": "unallow"}[form.Get("what")]
	if back == "" {
		return nil
	}
	return url.Values{"what": {back}, "entry": {form.Get("entry")}, "list": {form.Get("list")}, "category": {form.Get("category")}}
}

// A summary has the sums of a span of time.
type summary struct {
	Last string      `json:"last"`
	All  event.Tally `json:"all"`
	Tops []top       `json:"tops"`
}

type top struct {
	Title string        `json:"title"`
	Top   []event.Tally `json:"top"`
}

func (e *Events) statistics(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	ctx, cancel := context.WithTimeout(r.Context(), web.MaxAsk)
	defer cancel()
	sums, err := e.sums(ctx, time.Now())
	if err != nil {
		http.Error(w, web.TooLong(ctx, err).Error(), http.StatusServiceUnavailable)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		web.WriteJSON(w, http.StatusOK, sums)
		return
	}
	web.WritePage(w, page, http.StatusOK, sums)
}

// sums queries the sums of the last hour and day together.
func (e *Events) sums(ctx context.Context, now time.Time) ([]summary, error) {
	var questions []event.Question
	lasts := []struct {
		name string
		long time.Duration
	}{{"hour", time.Hour}, {"day", 24 * time.Hour}}
	for _, last := range lasts {
		f := event.Filter{Since: now.Add(-last.long)}
		blocked := f
		if err := blocked.And(event.Action, false, filter.Block.String()); err != nil {
			return nil, err
		}
		questions = append(questions, event.Question{Filter: f}, event.Question{Filter: f, By: event.Client, Top: maxTop},
			event.Question{Filter: blocked, By: event.Host, Top: maxTop}, event.Question{Filter: f, By: event.Category, Top: maxTop})
	}
	tallies, err := e.Count(ctx, questions...)
	if err != nil {
		return nil, err
	}
	var sums []summary
	for i, last := range lasts {
		t := tallies[4*i:]
		e.Call(ctx, t[1])
		sums = append(sums, summary{last.name, t[0][0], []top{{text.Mark("Client"), t[1]}, {text.Mark("Host, blocked"), t[2]}, {text.Mark("Category"), t[3]}}})
	}
	return sums, nil
}
