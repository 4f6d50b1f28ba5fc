package admin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"shuultuur/admin/account"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/text"
)

const (
	maxTails  = 500              // viewers at once
	tailRows  = 256              // that wait for one viewer; more are skipped and counted
	tailAlive = 20 * time.Second // after which silence is broken, for proxies between
	tailTime  = 5 * time.Minute  // after which a page asks again, and what it may see is looked up
)

// A tail tells viewers what is recorded. The record is read once for all of
// them, and only while somebody looks.
type tail struct {
	events event.Reader
	page   pageTemplate // that has the template "row"
	texts  text.Choice

	mu      sync.Mutex
	viewers map[*watcher]bool // guarded by mu
	stop    func()            // guarded by mu: ends the reading
}

type watcher struct {
	filter  event.Filter
	sees    func(*event.Row) bool // takes out what this person does not see
	rows    chan event.Row
	failed  chan error
	skipped int // guarded by mu of the tail
}

// join adds a viewer; the first one begins the reading.
func (t *tail) join(f event.Filter, sees func(*event.Row) bool) (*watcher, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.viewers) >= maxTails {
		return nil, fmt.Errorf("%d pages are live already; close one", maxTails)
	}
	v := &watcher{filter: f, sees: sees, rows: make(chan event.Row, tailRows), failed: make(chan error, 1)}
	if t.viewers == nil {
		t.viewers = map[*watcher]bool{}
	}
	t.viewers[v] = true
	if len(t.viewers) == 1 {
		if t.stop != nil {
			t.stop()
		}
		ctx, stop := context.WithCancel(context.Background())
		t.stop = stop
		go t.read(ctx)
	}
	return v, nil
}

// leave takes a viewer out; the last one ends the reading.
func (t *tail) leave(v *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.viewers, v)
	if len(t.viewers) == 0 && t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

func (t *tail) read(ctx context.Context) {
	for row, err := range event.Tail(ctx, t.events, event.Filter{}) {
		switch {
		case ctx.Err() != nil: // somebody else reads by now, or nobody is to
			return
		case err != nil:
			t.fail(err)
		default:
			t.tell(&row)
		}
	}
}

// fail ends all streams; the next page to come begins anew.
func (t *tail) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.viewers {
		v.failed <- err // of one that is taken out, so that there is room
		delete(t.viewers, v)
	}
}

// tell gives a row to those who want it and may see it.
func (t *tail) tell(row *event.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for v := range t.viewers {
		shown := *row
		if !v.sees(&shown) || !v.filter.Match(&shown) { // asked of what is seen, so that no filter tells more
			continue
		}
		select {
		case v.rows <- shown:
		default:
			v.skipped++
		}
	}
}

// lost returns how many rows were skipped since it was asked last.
func (t *tail) lost(v *watcher) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := v.skipped
	v.skipped = 0
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
	if d, ok := t.events.(*reader); ok {
		if who := account.Of(r.Context()); who != nil {
			b := d.bounds(who)
			if err := d.look(b, &f); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
			sees = b.sees
		}
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
	asJSON := r.URL.Query().Get("form") == "json"
	page := t.page.In(t.texts.For(r.Header.Get("Accept-Language")))
	var b bytes.Buffer
	b.WriteString(": the record from now on\n\n")
	alive := time.NewTicker(tailAlive)
	defer alive.Stop()
	end := time.After(tailTime)
	for {
		if _, err := w.Write(b.Bytes()); err != nil || out.Flush() != nil {
			return
		}
		b.Reset()
		select {
		case <-r.Context().Done():
			return
		case <-closing(r.Context()):
			return
		case <-end:
			return
		case err := <-v.failed:
			fmt.Fprintf(&b, "event: failed\ndata: %s\n\n", strings.ReplaceAll(err.Error(), "\n", " "))
			_, _ = w.Write(b.Bytes()) // the last word, if it can be heard
			return
		case <-alive.C:
			b.WriteString(": still here\n\n")
		case row := <-v.rows:
			t.write(&b, page, row, asJSON)
			for len(v.rows) > 0 && b.Len() < 64<<10 {
				t.write(&b, page, <-v.rows, asJSON)
			}
		}
		if n := t.lost(v); n > 0 {
			fmt.Fprintf(&b, "event: skipped\ndata: %d\n\n", n)
		}
	}
}

// write adds one row as an event.
func (t *tail) write(b *bytes.Buffer, page *template.Template, row event.Row, asJSON bool) {
	var line bytes.Buffer
	if asJSON {
		line.Write(bytes.TrimRight(jsonl.AppendLine(nil, &row), "\n"))
	} else if err := page.ExecuteTemplate(&line, "row", seen{Row: &row}); err != nil {
		return
	}
	fmt.Fprintf(b, "id: %d\ndata: %s\n\n", row.Seq, bytes.ReplaceAll(bytes.TrimSpace(line.Bytes()), []byte("\n"), []byte("\ndata: ")))
}

type closingKey struct{}

// closing is closed when the server is about to stop, so that streams end before
// it waits for requests in flight.
func closing(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(closingKey{}).(chan struct{})
	return c
}

// quoted writes a value so that [event.ParseFilter] reads it as one.
func quoted(v string) string {
	if strings.ContainsAny(v, " \t\r\n,\"") {
		return `"` + strings.ReplaceAll(v, `"`, "") + `"`
	}
	return v
}
