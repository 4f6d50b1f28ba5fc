package test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/gateway"
)

// house is a gateway with an origin behind it that answers for every name.
type house struct {
	t      *testing.T
	g      *gateway.Gateway
	file   string // settings
	origin *httptest.Server
	ended  chan error
	stop   func()
}

const houseSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks:
  category: {lists: [own]}
  phrase: {weighted: [weighted], naughtynesslimit: 50}
pages: {contact: "the librarian, desk 3"}
policies:
  - name: readers
    rules:
      - {name: betting, action: block, category: [gambling]}
      - {name: bad words, action: block, category: [phrase], over: 100}
      - {name: some words, action: warn, category: [phrase], over: 50}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

func newHouse(t *testing.T, pages map[string]string) *house {
	t.Helper()
	h := &house{t: t, ended: make(chan error, 1)}
	h.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Host+r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, body)
	}))
	t.Cleanup(h.origin.Close)
	dir := t.TempDir()
	h.file = filepath.Join(dir, "shuultuur.yaml")
	h.write("shuultuur.yaml", fmt.Sprintf(houseSettings, h.origin.Listener.Addr()))
	h.write("own.txt", "bet.example\n")
	h.write("weighted", "#listcategory: \"Swearing\"\n<blimey><60>\n<crikey><60>\n")

	h.start()
	t.Cleanup(func() { h.end() })
	return h
}

// start starts the gateway.
func (h *house) start() {
	t := h.t
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, h.file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	h.g, h.stop = g, stop
	go func() { h.ended <- g.Run(ctx) }()
}

// end ends the gateway, unless it did not start.
func (h *house) end() {
	if h.stop == nil {
		return
	}
	h.stop()
	h.stop = nil
	if err := <-h.ended; err != nil {
		h.t.Errorf("the gateway ended with: %v", err)
	}
}

// restart starts the gateway again, as settings of the proxy want it.
func (h *house) restart() {
	h.t.Helper()
	h.end()
	h.start()
}

// status returns the status of the answer for a client of the gateway.
func (h *house) status(url string) int {
	h.t.Helper()
	code, _, err := get(through(h.g.ProxyAddr()), url)
	if err != nil {
		h.t.Fatal(err)
	}
	return code
}

func (h *house) write(name, text string) {
	h.t.Helper()
	file := filepath.Join(filepath.Dir(h.file), name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

// of reports whether a row is of a URL: browsers also ask for a site's icon.
func of(url string) func(event.Row) bool {
	return func(r event.Row) bool { return r.URL == url }
}

// recorded waits for the newest recorded row that matches the filter and, unless it is nil, the
// function is.
func (h *house) recorded(filter string, is ...func(event.Row) bool) event.Row {
	h.t.Helper()
	f, err := event.ParseFilter(filter, time.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for row, err := range h.g.Store().Query(h.t.Context(), f, event.Page{Newest: true}) {
			if err != nil {
				h.t.Fatal(err)
			}
			if len(is) == 0 || is[0](row) {
				return row
			}
		}
	}
	h.t.Fatalf("nothing on record for %q", filter)
	return event.Row{}
}

func TestBrowserSeesWhatThePolicySays(t *testing.T) {
	t.Parallel()
	h := newHouse(t, map[string]string{
		"news.example/":  `<!doctype html><title>News</title><h1>Good morning</h1><p>The ferry sails at nine.</p>`,
		"rude.example/":  `<!doctype html><title>Rude</title><p>Blimey, said he. <b>Cri</b>key, said she.</p>`,
		"salty.example/": `<!doctype html><title>Salty</title><h1>A salty tale</h1><p>Blimey, said the captain. <img src="/parrot.png"></p>`,
	})
	b := newBrowser(t, h.g.ProxyAddr())

	b.open("http://news.example/")
	b.shows("The ferry sails at nine.")
	b.picture("passing")
	if row := h.recorded("host:news.example news.example/"); row.Action.String() != "pass" {
		t.Errorf("a page that passes has the action %s on record, want pass", row.Action)
	}

	b.open("http://www.bet.example/odds")
	b.shows("is closed here")
	b.unfold()
	for _, want := range []string{"www.bet.example", "gambling", "readers", "the librarian, desk 3"} {
		b.shows(want)
	}
	b.picture("category-block")
	row := h.recorded("host:bet.example action:block", of("http://www.bet.example/odds"))
	if row.Rule != "betting" || row.Category != "gambling" || row.Status != http.StatusForbidden {
		t.Errorf("on record: rule %q, category %q, status %d; want betting, gambling, 403", row.Rule, row.Category, row.Status)
	}
	if !strings.Contains(row.Evidence, "own.txt:1") {
		t.Errorf("the evidence %q does not name the list's file and line", row.Evidence)
	}
	b.shows(row.ID)

	b.open("http://rude.example/")
	b.shows("its content counts as Swearing (score 120)")
	b.unfold()
	b.shows("bad words")
	b.picture("phrase-block")
	row = h.recorded("host:rude.example action:block", of("http://rude.example/"))
	if row.Score != 120 || !strings.Contains(row.Evidence, "weighted:3") {
		t.Errorf("on record: score %d, evidence %q; want 120 and weighted:3", row.Score, row.Evidence)
	}
	b.shows(row.ID)

	b.open("http://salty.example/")
	b.shows("Do you want to go on to salty.example?")
	b.picture("warn")
	h.recorded("host:salty.example action:warn")
	b.click("a.button")
	b.shows("A salty tale")
	b.picture("warned-and-entered")
	if url := b.script("return location.href"); url != "http://salty.example/" {
		t.Errorf("after clicking through, the address is %s", url)
	}
	row = h.recorded("host:salty.example action:pass", func(r event.Row) bool { return r.URL == "http://salty.example/" && r.Status == 200 })
	if !strings.Contains(row.Findings, "accepted") {
		t.Errorf("the record of the page entered after a warning does not say so: %s", row.Findings)
	}
}
