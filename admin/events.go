package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"shuultuur/admin/search"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/setting"
	"shuultuur/text"
)

// Events queries the record of transactions for the admin address.
type Events struct {
	event.Reader
	// Names returns the names of the devices at some addresses; nil if there is no
	// source of names.
	Names func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string
	// Searches are saved searches; nil: they cannot be saved.
	Searches *search.Book
}

const (
	maxRows = 200              // rows of one page
	maxTop  = 10               // rows of one table of the statistics
	maxAsk  = 10 * time.Second // time for all queries of a request to the record
	maxWhat = 300              // bytes of a URL that are shown
)

// A span is a time that the page can look back.
type span struct{ Value, Text string }

var spans = []span{{"1h", text.Mark("last hour")}, {"1d", text.Mark("last day")}, {"7d", text.Mark("last week")}, {"", text.Mark("all")}}

// An eventRow is a row as it is shown.
type eventRow struct {
	*event.Row
	Listed bool   // a list has its category, so that an exception may help
	Name   string // of the client's device, "" when it is not known

	Again    string // the page that shows it; "" for a page without buttons
	CanBlock bool   // there is a list
	New      bool   // it has just been recorded
}

func (s eventRow) client() string {
	if s.Name == s.User {
		return s.Who()
	}
	return event.WithDeviceName(s.Who(), s.Name)
}

func (s eventRow) refused() bool { return s.Action == filter.Block || s.Action == filter.Warn }

func (s eventRow) label() string {
	what := s.What()
	if len(what) > maxWhat {
		what = strings.ToValidUTF8(what[:maxWhat], "") + "…"
	}
	return what
}

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

// routes returns the routes of events.
//
//	GET /events?filter=FILTER&last=TIME&before=PLACE
//	                      the newest; HTML for browsers, else JSON lines, with
//	                      the address of the next page in a Link header.
//	                      order=oldest&after=PLACE: the oldest, as JSON lines; the
//	                      Link is there on the last page, too.
//	                      by=FIELD&top=N: sums by that field instead, as JSON
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
func (e *Events) routes(p *Parts) []route {
	lists, notice := p.Lists, p.Pause.notice
	if e == nil {
		none := func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no store that can be asked keeps events: name a file at events.sqlite or events.jsonl in the settings", http.StatusNotFound)
		}
		return []route{{"GET", "/events", viewer, none}, {"POST", "/events/searches", viewer, none}, {"GET", "/events/live", viewer, none}, {"GET", "/events/{id}", viewer, none}, {"GET", "/statistics", viewer, none}}
	}
	page, sums := pageOf("events.html", notice), pageOf("statistics.html", notice)
	tail := &tail{events: e.Reader, page: page, texts: p.Texts}
	one := &onePage{events: e, parts: p, page: pageOf("event.html", notice)}
	var counting sync.Mutex // one at a time: it reads a day of events
	return []route{
		{"GET", "/events", viewer, func(w http.ResponseWriter, r *http.Request) { e.show(w, r, page, lists, "", nil) }},
		{"POST", "/events", operator, func(w http.ResponseWriter, r *http.Request) {
			if lists == nil {
				http.NotFound(w, r)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
			if err := r.ParseForm(); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			changes, done, err := lists.buttonChanges(r.PostForm)
			if err == nil {
				var shown bool
				if shown, err = p.showEffect(w, r, pendingChange{What: done, Back: withoutDryRun(r.URL), Trial: Trial{Lists: changes}}); shown {
					return
				}
			}
			if err == nil {
				err = lists.Change(r.Context(), changes)
			}
			e.show(w, r, page, lists, done, err)
		}},
		{"POST", "/events/searches", viewer, e.save},
		{"GET", livePath, viewer, tail.serve},
		{"GET", "/events/{id}", viewer, one.show},
		{"GET", "/statistics", viewer, func(w http.ResponseWriter, r *http.Request) {
			if !counting.TryLock() {
				http.Error(w, "somebody else is asking for the statistics; try again in a moment", http.StatusServiceUnavailable)
				return
			}
			defer counting.Unlock()
			e.statistics(w, r, sums)
		}},
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
	ctx, cancel := context.WithTimeout(r.Context(), maxAsk)
	defer cancel()
	all, err := e.Count(ctx, event.Question{Filter: f, By: by, Top: cmp.Or(n, maxTops)})
	if err != nil {
		http.Error(w, tooLong(ctx, err).Error(), statusOfRecord(err))
		return
	}
	if by == event.Client {
		e.call(ctx, all[0])
	}
	writeJSON(w, http.StatusOK, append([]event.Tally{}, all[0]...))
}

// statusOfRecord returns the status for an error of the record.
func statusOfRecord(err error) int {
	if errors.Is(err, ErrTwoPeople) {
		return http.StatusForbidden
	}
	return http.StatusServiceUnavailable
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

func (e *Events) show(w http.ResponseWriter, r *http.Request, t pageTemplate, lists *Lists, done string, failed error) {
	q := r.URL.Query()
	html := strings.Contains(r.Header.Get("Accept"), "text/html")
	if !html && q.Has("by") && r.Method == http.MethodGet {
		e.tops(w, r)
		return
	}
	order := event.Page{Newest: html || q.Get("order") != "oldest", Limit: maxRows}
	place := map[bool]string{true: "before", false: "after"}[order.Newest]
	d := struct {
		eventQuery
		Spans       []span
		Lists       []List
		Again       string // this page
		Older       string // the next page of older events, or ""
		Rows        []eventRow
		Done, Error string
		Live        string // where new rows come from, "" on older pages and where that is switched off
		Toggle      string // the page with new rows switched on or off, "" on older pages
		Undo        url.Values
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
	d.Again = "/events?" + page.Encode()
	d.Live, d.Toggle = d.stream(d.Again, q.Get("live") == "off")
	categories := map[string]bool{}
	d.Lists = lists.withCategories(categories)
	status := http.StatusOK
	if failed != nil {
		d.Done, d.Error, status = "", failed.Error(), statusOf(failed)
	}
	f, err := d.filter(time.Now())
	if err != nil {
		d.Error, status = err.Error(), http.StatusBadRequest
	} else {
		ctx, cancel := context.WithTimeout(r.Context(), maxAsk)
		defer cancel()
		for row, err := range e.Query(ctx, f, order) {
			if err != nil {
				d.Error, status = tooLong(ctx, err).Error(), statusOfRecord(err)
				break
			}
			d.Rows = append(d.Rows, eventRow{Row: &row, Listed: categories[strings.ToLower(row.Category)], Again: d.Again, CanBlock: len(d.Lists) > 0})
		}
	}
	if html {
		e.name(r.Context(), d.Rows)
	}
	if n := len(d.Rows); n == maxRows || n > 0 && !order.Newest {
		page.Set(place, strconv.FormatInt(d.Rows[n-1].Seq, 10))
		if !order.Newest {
			page.Set("order", "oldest")
		}
		d.Older = "/events?" + page.Encode()
		w.Header().Set("Link", "<"+d.Older+`>; rel="next"`)
	}
	switch {
	case html:
		writePage(w, t, status, d)
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

// withCategories returns all lists, and adds their categories to categories, in lower case.
func (l *Lists) withCategories(categories map[string]bool) []List {
	if l == nil {
		return nil
	}
	all := l.All()
	for i := range all {
		for c := range all[i].Categories {
			categories[strings.ToLower(c)] = true
		}
	}
	return all
}

// name adds the names of devices.
func (e *Events) name(ctx context.Context, rows []eventRow) {
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

// tooLong returns advice for a query that the record did not answer in time.
func tooLong(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the record is too long to be read in %v; ask for less, or with shuultuur events", maxAsk)
	}
	return err
}

// buttonChanges has the changes that a button beside an event makes, with the message that follows
// each.
func (l *Lists) buttonChanges(form url.Values) (changes map[string][]list.Change, done string, err error) {
	host, category := form.Get("entry"), form.Get("category")
	what := form.Get("what")
	switch name := form.Get("list"); what {
	case "block":
		return map[string][]list.Change{name: {{Entry: host, Category: category}}}, name + ": added " + host, nil
	case "unblock":
		return map[string][]list.Change{name: {{Entry: host, Category: category, Remove: true}}}, name + ": took back " + host, nil
	case "allow", "unallow":
	default:
		return nil, "", &BadChange{fmt.Errorf("what=%q is neither allow nor block, nor takes one back", what)}
	}
	hits, err := l.Search(host)
	if err != nil {
		return nil, "", &BadChange{err}
	}
	back := what == "unallow" // the exceptions that "allow" made
	changes = map[string][]list.Change{}
	for _, h := range hits {
		c := list.Change{Entry: host, Category: h.Category, Exception: true, Remove: back}
		if h.Exception == back && strings.EqualFold(h.Category, category) && !slices.Contains(changes[h.List], c) {
			changes[h.List] = append(changes[h.List], c)
		}
	}
	names := strings.Join(slices.Sorted(maps.Keys(changes)), ", ")
	switch {
	case len(changes) == 0 && back:
		return nil, "", &BadChange{fmt.Errorf("no list excepts %q from %q", host, category)}
	case len(changes) == 0:
		return nil, "", &BadChange{fmt.Errorf("no list has %q as %q: something else decided; add the host to a list that a rule allows", host, category)}
	case back:
		return changes, fmt.Sprintf("%s: %s is %s again", names, host, category), nil
	}
	return changes, fmt.Sprintf("%s: %s is no longer %s", names, host, category), nil
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

func (e *Events) statistics(w http.ResponseWriter, r *http.Request, page pageTemplate) {
	ctx, cancel := context.WithTimeout(r.Context(), maxAsk)
	defer cancel()
	sums, err := e.sums(ctx, time.Now())
	if err != nil {
		http.Error(w, tooLong(ctx, err).Error(), http.StatusServiceUnavailable)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		writeJSON(w, http.StatusOK, sums)
		return
	}
	writePage(w, page, http.StatusOK, sums)
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
		e.call(ctx, t[1])
		sums = append(sums, summary{last.name, t[0][0], []top{{text.Mark("Client"), t[1]}, {text.Mark("Host, blocked"), t[2]}, {text.Mark("Category"), t[3]}}})
	}
	return sums, nil
}

// call adds the names of clients.
func (e *Events) call(ctx context.Context, clients []event.Tally) {
	if e.Names == nil {
		return
	}
	addrs := make([]netip.Addr, len(clients))
	for i := range clients {
		addrs[i], _ = netip.ParseAddr(clients[i].Name) // the zero Addr has no name
	}
	names := e.Names(ctx, addrs)
	for i := range clients {
		clients[i].Called = names[addrs[i]]
	}
}

// pageOf prepares a page. All pages have the same style, link to one another, and show the
// notice.
func pageOf(name string, notice noticeFunc) pageTemplate {
	var source []byte
	for _, name := range []string{name, "head.html"} {
		b, err := readPacked(name)
		if err != nil {
			panic(err) // a test makes all pages
		}
		source = append(source, b...)
	}
	return text.NewPage(string(source), func(t *text.Texts, source string) *template.Template {
		return template.Must(template.New("page").Funcs(pageFuncs(t, notice)).Parse(source))
	})
}

// pagePolicy lets a page load files of static and send forms here, but run no
// inline scripts.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// respond answers browsers with a page, and programs with the JSON of value, or with mistake
// unless it is "".
func respond(w http.ResponseWriter, r *http.Request, page pageTemplate, status int, data, value any, wrong string) {
	switch {
	case isPage(r):
		writePage(w, page, status, data)
	case wrong != "":
		http.Error(w, wrong, status)
	default:
		writeJSON(w, status, value)
	}
}

// writePage answers with a page that may hold forms and no script of its own.
func writePage(w http.ResponseWriter, page pageTemplate, status int, data any) {
	var b bytes.Buffer
	if err := page.In(textsOf(w)).Execute(&b, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	w.WriteHeader(status)
	_, _ = w.Write(insertLinks(w, b.Bytes())) // it fails if the client has gone away
}
