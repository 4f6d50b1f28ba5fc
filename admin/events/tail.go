package events

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/event/jsonl"
)

const (
	maxTails  = 500              // concurrent viewers
	tailBeat  = time.Second      // between two messages to a viewer
	tailRows  = 100              // most rows in a message, more than a person reads; others are skipped and counted
	tailLooks = 40               // at rows beyond those in one beat: then the count is of so many at least
	tailForms = 4                // forms of a row for those who see different things of it
	tailAlive = 20 * time.Second // time after which a comment breaks the silence, for the sake of proxies in between
	tailTime  = 5 * time.Minute  // time after which a page connects again
)

// A tail sends viewers new rows of the record. It reads the record once for all of them, and
// only while there are viewers.
type tail struct {
	events event.Reader
	page   web.PageTemplate // that has the template "row"
	site   *web.Site

	mu      sync.Mutex
	viewers map[*watcher]bool // guarded by mu
	stop    func()            // guarded by mu: ends the reading
	ended   chan struct{}     // guarded by mu: closed when the reading has ended
}

type watcher struct {
	filter  event.Filter
	sees    func(*event.Row) bool // guarded by the tail's mu: removes the parts that this person may not see
	rows    chan *delivery
	failed  chan error
	skipped int // guarded by the tail's mu
	looks   int // guarded by the tail's mu: number of rows for which there was no room
}

// A delivery is a row that is rendered once for all streams that show the same parts of it.
type delivery struct {
	event.Row
	mu       sync.Mutex
	rendered map[*template.Template][]byte // by the page, nil for JSON; guarded by mu
}

// render returns the event for a stream: for a page in some language, or as JSON.
func (t *delivery) render(page *template.Template, times int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, ok := t.rendered[page]; ok && times == 1 {
		return b
	}
	var line, b bytes.Buffer
	if page == nil {
		line.Write(bytes.TrimRight(jsonl.AppendLine(nil, &t.Row), "\n"))
	} else if err := page.ExecuteTemplate(&line, "row", web.EventRow{Row: &t.Row, New: true, Times: times}); err != nil {
		return nil
	}
	fmt.Fprintf(&b, "id: %d\ndata: %s\n\n", t.Seq, bytes.ReplaceAll(bytes.TrimSpace(line.Bytes()), []byte("\n"), []byte("\ndata: ")))
	if times > 1 {
		return b.Bytes() // how often depends on the stream
	}
	if t.rendered == nil {
		t.rendered = map[*template.Template][]byte{}
	}
	t.rendered[page] = b.Bytes()
	return b.Bytes()
}

// join adds a viewer. The first one starts the reading.
func (t *tail) join(f event.Filter, sees func(*event.Row) bool) (*watcher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.viewers) >= maxTails {
		return nil, fmt.Errorf("%d pages are live already; close one", maxTails)
	}
	v := &watcher{filter: f, sees: sees, rows: make(chan *delivery, tailRows), failed: make(chan error, 1)}
	if t.viewers == nil {
		t.viewers = map[*watcher]bool{}
	}
	t.viewers[v] = true
	if len(t.viewers) == 1 {
		before := t.ended
		if t.stop != nil {
			t.stop()
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan struct{})
		t.stop, t.ended = stop, ended
		go func() {
			defer close(ended)
			if before != nil {
				<-before
			}
			t.read(ctx)
		}()
	}
	return v, nil
}

// leave removes a viewer. The last one ends the reading, and waits for its end.
func (t *tail) leave(v *watcher) {
	if ended := t.remove(v); ended != nil {
		<-ended
	}
}

// remove removes a viewer. It returns what the last one has to wait for.
func (t *tail) remove(v *watcher) (ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.viewers, v)
	if len(t.viewers) > 0 || t.stop == nil {
		return nil
	}
	t.stop()
	t.stop = nil
	return t.ended
}

func (t *tail) read(ctx context.Context) {
	for row, err := range event.Tail(ctx, t.events, event.Filter{}) {
		switch {
		case ctx.Err() != nil: // another goroutine reads now, or none needs to
			return
		case err != nil:
			t.fail(err)
		default:
			t.publish(&row)
		}
	}
}

// fail ends all streams; the next page starts it again.
func (t *tail) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.viewers {
		v.failed <- err // a viewer that was removed to make room
		delete(t.viewers, v)
	}
}

// publish passes a row to the viewers who want it and may see it. A viewer whose room is full
// is asked only a few times until the next message, so that many open pages take little time
// from filtering.
func (t *tail) publish(row *event.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*delivery
	var shown event.Row
	for v := range t.viewers {
		full := len(v.rows) == tailRows
		if full && v.looks == tailLooks {
			continue
		}
		shown = *row
		if full {
			v.looks++
		}
		if !v.sees(&shown) || !v.filter.Match(&shown) { // filters apply to the visible row, so that they reveal nothing more
			continue
		}
		if full {
			v.skipped++
			continue
		}
		i := slices.IndexFunc(all, func(x *delivery) bool { return x.Row == shown })
		if i < 0 {
			i = len(all)
			if all = append(all, &delivery{Row: shown}); len(all) > tailForms { // not one of each viewer's own to compare with
				i, all = 0, all[tailForms:]
			}
		}
		v.rows <- all[i]
	}
}

// takeSkipped returns how many rows were skipped since it was asked last.
func (t *tail) takeSkipped(v *watcher) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := v.skipped
	v.skipped, v.looks = 0, 0
	return n
}

// serve sends rows until the client goes away.
func (t *tail) serve(w http.ResponseWriter, r *http.Request) {
	f, err := event.ParseFilter(r.URL.Query().Get("filter"), time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sees := func(*event.Row) bool { return true }
	who := account.Of(r.Context())
	if who != nil {
		b := t.site.Bounds(who)
		if err := t.site.RecordLook(b, &f); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		sees = b.Redact
	}
	v, err := t.join(f, sees)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer t.leave(v)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	var page *template.Template // nil for JSON
	if r.URL.Query().Get("form") != "json" {
		page = t.page.In(t.site.Texts.For(r.Header.Get("Accept-Language")))
	}
	var fold liveFold
	fold.whole = page == nil || r.URL.Query().Get("fold") == "no"
	var b bytes.Buffer
	b.WriteString(": the record from now on\n\n")
	alive, beat := time.NewTicker(tailAlive), time.NewTicker(tailBeat)
	defer alive.Stop()
	defer beat.Stop()
	end := time.After(tailTime)
	for {
		if b.Len() > 0 {
			if _, err := w.Write(b.Bytes()); err != nil || out.Flush() != nil {
				return
			}
			b.Reset()
		}
		select {
		case <-r.Context().Done():
			return
		case <-web.Closing(r.Context()):
			return
		case <-end:
			return
		case err := <-v.failed:
			fmt.Fprintf(&b, "event: failed\ndata: %s\n\n", strings.ReplaceAll(err.Error(), "\n", " "))
			_, _ = w.Write(b.Bytes()) // the last message, if the client can still get it
			return
		case <-alive.C:
			b.WriteString(": still here\n\n")
		case <-beat.C:
			if who != nil && !t.renew(v, r) {
				return
			}
			var some []*delivery
			for len(v.rows) > 0 && len(some) < tailRows {
				some = append(some, <-v.rows)
			}
			for _, row := range fold.next(some) {
				b.Write(row.render(page, row.times))
			}
			if n := t.takeSkipped(v); n > 0 {
				fmt.Fprintf(&b, "event: skipped\ndata: %d\n\n", n)
			}
		}
	}
}

// renew determines again what a viewer may see. It returns false if the session has ended, or
// the user may no longer look.
func (t *tail) renew(v *watcher, r *http.Request) bool {
	who := t.site.StillAllowed(r)
	if who == nil {
		return false
	}
	b := t.site.Bounds(who)
	if t.site.MayNot(b, web.NamesIn(&v.filter)) != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v.sees = b.Redact
	return true
}
