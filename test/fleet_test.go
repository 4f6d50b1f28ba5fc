package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/admin/clients"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/gateway"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

// A fleet is a number of gateways in front of one origin, which share their state.
type fleet struct {
	t       *testing.T
	origin  *httptest.Server
	served  atomic.Int64 // whole pages, of /page
	stored  atomic.Int64 // fetches of storable objects
	list    atomic.Value // content of the fetched list
	fetched atomic.Int64
	nodes   []*gateway.Gateway
	files   []string // their settings
}

const fleetSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
state:
  redis: %s
cache: {memory: 2MiB, admission: always}
lists:
  ads: {url: "%s/ads.txt", format: domains}
  play: {path: play.txt, category: games}
  salty: {path: salty.txt}
checks:
  category: {lists: [ads, play, salty]}
  phrase: {weighted: [weighted]}
policies:
  - name: all
    learn: 1h
    quotas: [{category: games, bytes: 1000}]
    rules:
      - {name: ads, action: block, category: [ads]}
      - {name: salty, action: warn, category: [salty]}
      - {name: words, action: block, category: [phrase], over: 50}
proxy: {private: [127.0.0.0/8], parent: "http://%s"}
`

// newFleet starts n gateways that share their state in Redis; redis is the YAML of that
// setting.
func newFleet(t *testing.T, n int, redis string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	f.list.Store("ads.example\n")
	f.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/ads.txt":
			f.fetched.Add(1)
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, f.list.Load().(string))
		case r.URL.Path == "/rude":
			f.served.Add(1)
			_, _ = io.WriteString(w, "<p>Blimey, said he.")
		case r.URL.Path == "/stored":
			w.Header().Set("Cache-Control", "max-age=3600")
			fmt.Fprintf(w, "<p>Version %d.", f.stored.Add(1))
		case r.URL.Host == "play.example":
			_, _ = io.WriteString(w, strings.Repeat("x", 400))
		default:
			fmt.Fprintf(w, "<p>A page at %s.", r.URL)
		}
	}))
	t.Cleanup(f.origin.Close)
	for range n {
		f.start(redis)
	}
	return f
}

func (f *fleet) start(redis string) {
	t := f.t
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"shuultuur.yaml": fmt.Sprintf(fleetSettings, redis, f.origin.URL, f.origin.Listener.Addr()),
		"weighted":       "<blimey><60>\n",
		"play.txt":       "play.example\n",
		"salty.txt":      "salty.example\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A token that one node signs is valid on the others.
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "data"), 0o755),
		os.WriteFile(filepath.Join(dir, "data", "secret.key"), []byte("thirty-two letters of one fleet."), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g, err := gateway.New(ctx, filepath.Join(dir, "shuultuur.yaml"), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("a gateway ended with: %v", err)
		}
	})
	f.nodes, f.files = append(f.nodes, g), append(f.files, filepath.Join(dir, "shuultuur.yaml"))
}

func (f *fleet) status(node int, url string) int {
	f.t.Helper()
	client := through(f.nodes[node].ProxyAddr())
	defer client.CloseIdleConnections() // callers ask many times
	status, _, err := get(client, url)
	if err != nil {
		f.t.Fatal(err)
	}
	return status
}

// learned reports whether a node has used its learned verdict about a page of host.
func (f *fleet) learned(node int, host string) bool {
	f.t.Helper()
	want, err := event.ParseFilter("learned:yes host:"+host, time.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, err := range f.nodes[node].Store().Query(f.t.Context(), want, event.Page{Newest: true}) {
		if err != nil {
			f.t.Fatal(err)
		}
		return true
	}
	return false
}

func (f *fleet) health(node int) (h struct{ State string }) {
	f.t.Helper()
	_, text, err := get(http.DefaultClient, "http://"+f.nodes[node].AdminAddr()+"/health")
	if err == nil {
		err = json.Unmarshal([]byte(text), &h)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return h
}

// clicksThrough passes a warn page by its link, which is valid once, on any node.
func (f *fleet) clicksThrough() {
	t := f.t
	t.Helper()
	const url = "http://salty.example/tale"
	browsers := make([]*http.Client, len(f.nodes))
	jar, err := cookiejar.New(nil) // of one browser, whose proxy changes
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range f.nodes {
		browsers[i] = through(g.ProxyAddr())
		browsers[i].Jar = jar
	}
	ask := func(who *http.Client, url string) (status int, link string) {
		t.Helper()
		who.CheckRedirect = nil // as a browser does
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/json")
		res, err := who.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var answer struct {
			Continue string `json:"continue"`
		}
		if res.StatusCode == 403 {
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
		}
		return res.StatusCode, answer.Continue
	}
	_, link := ask(browsers[0], url)
	if status, _ := ask(browsers[0], link); status != 200 {
		t.Errorf("following the link of the warn page: status %d, want 200", status)
	}
	if status, _ := ask(browsers[1], url); status != 200 {
		t.Errorf("the same client on the other node, after the click: status %d, want 200", status)
	}
	for i, g := range f.nodes {
		if status, again := ask(through(g.ProxyAddr()), link); status != 403 || again == link {
			t.Errorf("following the link once more, on node %d: status %d with the link %q; want the warn page with a new link", i, status, again)
		}
	}
}

// saysWhatIsLeft checks that every node reports in every way that the quota is used up.
func (f *fleet) saysWhatIsLeft() {
	t := f.t
	t.Helper()
	for i, g := range f.nodes {
		var answer clients.Quotas
		for name, ask := range map[string]func() (string, error){
			"the client's page": func() (string, error) {
				r, err := http.NewRequestWithContext(t.Context(), "GET", "http://shuultuur.internal/", nil)
				if err != nil {
					return "", err
				}
				r.Header.Set("Accept", "application/json")
				res, err := through(g.ProxyAddr()).Do(r)
				if err != nil {
					return "", err
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				return string(b), err
			},
			"the admin address": func() (string, error) {
				_, b, err := get(http.DefaultClient, "http://"+g.AdminAddr()+"/quotas?client=127.0.0.1")
				return b, err
			},
		} {
			text, err := ask()
			if err == nil {
				err = json.Unmarshal([]byte(text), &answer)
			}
			if err != nil || answer.Policy != "all" || len(answer.Quotas) != 1 || answer.Quotas[0].Text != "0 bytes left of 1 kB" || answer.Quotas[0].Used < 1000 {
				t.Errorf("node %d, quota by %s: %s, %v; want 0 bytes left of 1 kB", i, name, text, err)
			}
		}
	}
	// "why" asks the running gateway.
	text, err := os.ReadFile(f.files[0])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(f.files[0]), "why.yaml")
	if err := os.WriteFile(file, bytes.Replace(text, []byte("admin: 127.0.0.1:0"), []byte("admin: "+f.nodes[0].AdminAddr()), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	e, done, err := engine.Explain(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	left, err := e.Balances(t.Context(), "all", &filter.Client{Addr: netip.MustParseAddr("127.0.0.1")})
	if err != nil || len(left) != 1 || left[0].Text != "0 bytes left of 1 kB" {
		t.Errorf("why reports the quota %+v, %v", left, err)
	}
}

// rests pauses filtering on one node. All nodes pause until one resumes.
func (f *fleet) rests() {
	f.t.Helper()
	for i, what := range []struct {
		length string
		status int
	}{{"5m", 200}, {"0s", 403}} {
		res, err := http.PostForm("http://"+f.nodes[i%2].AdminAddr()+"/pause", url.Values{"for": {what.length}})
		if err != nil {
			f.t.Fatal(err)
		}
		res.Body.Close()
		for node := range f.nodes {
			waittest.Until(f.t, fmt.Sprintf("node %d has heard of the pause of %s", node, what.length), func() bool { return f.status(node, "http://ads.example/") == what.status })
		}
	}
}

// obeys adds an entry to a list on one node and removes it on another. All nodes follow, even
// one that starts later.
func (f *fleet) obeys(redis string) {
	f.t.Helper()
	const page = "http://own.example/"
	change := func(node int, text string) {
		f.t.Helper()
		res, err := http.Post("http://"+f.nodes[node].AdminAddr()+"/lists/ads", "application/json", strings.NewReader(text))
		if err != nil {
			f.t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 200 {
			f.t.Fatalf("POST %s to the list: %s, want 200", text, res.Status)
		}
	}
	reaches := func(what string, status int) {
		f.t.Helper()
		for node := range f.nodes {
			waittest.Until(f.t, fmt.Sprintf("%s on node %d", what, node), func() bool { return f.status(node, page) == status })
		}
	}
	change(0, `[{"entry": "own.example"}]`)
	reaches("the entry is in use", 403)
	f.start(redis)
	reaches("a node that comes later has the entry", 403)
	change(len(f.nodes)-1, `[{"entry": "own.example", "remove": true}]`)
	reaches("the entry is gone", 200)
}

// purges purges on one node objects that the others have stored, too.
func (f *fleet) purges() {
	f.t.Helper()
	const page = "http://news.example/stored"
	asks := func(node int) int64 {
		f.t.Helper()
		was := f.stored.Load()
		if s := f.status(node, page); s != 200 {
			f.t.Fatalf("%s on node %d: status %d, want 200", page, node, s)
		}
		return f.stored.Load() - was
	}
	for node := range f.nodes {
		waittest.Until(f.t, fmt.Sprintf("node %d has stored the page", node), func() bool { return asks(node) == 0 })
	}
	res, err := http.PostForm("http://"+f.nodes[0].AdminAddr()+"/cache/purge", url.Values{"kind": {"host"}, "value": {"news.example"}})
	if err != nil {
		f.t.Fatal(err)
	}
	res.Body.Close()
	for node := range f.nodes {
		waittest.Until(f.t, fmt.Sprintf("node %d asks anew for what was purged", node), func() bool { return asks(node) == 1 })
	}
}

func TestAFleetRemembersTogether(t *testing.T) {
	for name, redis := range map[string]func(t *testing.T) string{
		"one Redis": func(t *testing.T) string {
			return fmt.Sprintf("{addresses: [%q], wait: 500ms}", redistest.Start(t).Addr)
		},
		"a cluster of three": func(t *testing.T) string {
			return fmt.Sprintf("{addresses: [%q], cluster: true, wait: 500ms}", redistest.StartCluster(t, 3)[0].Addr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := redis(t)
			f := newFleet(t, 2, at)
			for i := range f.nodes {
				if s := f.health(i).State; s != "shared" {
					t.Fatalf("node %d says its state is %q, want shared", i, s)
				}
				waittest.Until(t, "the list is fetched", func() bool { return f.status(i, "http://ads.example/") == 403 })
			}

			// What one node learns both know, as long as the page is the same.
			if s := f.status(0, "http://rude.example/rude"); s != 403 {
				t.Fatalf("a page with rude words: status %d, want 403", s)
			}
			waittest.Until(t, "the other knows", func() bool {
				return f.status(1, "http://rude.example/rude") == 403 && f.learned(1, "rude.example")
			})

			// Each node fetches a new list in its turn; "list update" has it fetched at once.
			f.list.Store("ads.example\nmore.example\n")
			if s := f.status(1, "http://more.example/"); s != 200 {
				t.Fatalf("a host that is in no list: status %d, want 200", s)
			}
			for _, file := range f.files {
				lists, err := configuration.ReadLists(file)
				if err != nil {
					t.Fatal(err)
				}
				if c, err := lists.Store.Update(t.Context(), "ads", lists.Fetched["ads"]); err != nil || !c.Updated {
					t.Fatalf("updating the list: %+v, %v", c, err)
				}
			}
			for i := range f.nodes {
				waittest.Until(t, "the new list is in use", func() bool { return f.status(i, "http://more.example/") == 403 })
			}

			// Verdicts learned with the old list are void on all nodes.
			was := f.served.Load()
			if s := f.status(1, "http://rude.example/rude"); s != 403 || f.served.Load() != was+1 {
				t.Errorf("the rude page after the list changed: status %d, fetched %d times; want 403 and one fetch", s, f.served.Load()-was)
			}

			f.clicksThrough()

			// Both spend one quota: three pages of 400 bytes reach its 1000 bytes.
			var ok int
			for i := range 10 {
				switch s := f.status(i%2, fmt.Sprintf("http://play.example/%d", i)); s {
				case 200:
					ok++
				case 429:
				default:
					t.Errorf("page %d of the quota: status %d, want 200 or 429", i, s)
				}
				time.Sleep(300 * time.Millisecond) // time for the counts to reach the other node
			}
			if ok != 3 {
				t.Errorf("%d pages of 400 bytes passed with a quota of 1000 bytes, want 3", ok)
			}
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://play.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", "application/json")
			res, err := through(f.nodes[1].ProxyAddr()).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			var answer struct {
				Reason string `json:"reason"`
				After  int    `json:"retry_after"`
			}
			if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.Header.Get("Retry-After") != fmt.Sprint(answer.After) || answer.After < 1 || !strings.Contains(answer.Reason, "games are used up") {
				t.Errorf("request beyond the quota: %s, Retry-After %q, %+v, %v", res.Status, res.Header.Get("Retry-After"), answer, err)
			}
			f.saysWhatIsLeft()
			f.rests()
			f.purges()
			f.obeys(at)
		})
	}
}
