package source

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
)

// refresherOf starts a refresher of lists at addresses, and returns what it puts into use.
func refresherOf(t *testing.T, client *http.Client, urls map[string]string) (r *Refresher, used chan string) {
	t.Helper()
	store, items := newStore(t), Items{}
	if client != nil {
		store.Client = client
	}
	for name, url := range urls {
		items[name] = Item{Source: resolve(t, Config{URL: []string{url}}), Try: TryList(name, domains)}
	}
	used = make(chan string, 100)
	r = NewRefresher(func() (*Store, Items) { return store, items }, func(_ context.Context, why string) { used <- why }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return r, used
}

// TestASlowSourceDelaysNoOther: its neighbours are in use while it is still coming.
func TestASlowSourceDelaysNoOther(t *testing.T) {
	rest := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			_, _ = io.WriteString(w, "first.example\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-rest:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, lines(10))
	}))
	defer server.Close()
	r, used := refresherOf(t, nil, map[string]string{"a": server.URL + "/slow", "b": server.URL + "/b", "c": server.URL + "/c"})
	inUse := ""
	for !strings.Contains(inUse, "b") || !strings.Contains(inUse, "c") {
		inUse += strings.TrimPrefix(<-used, "fetched: ")
	}
	if strings.Contains(inUse, "a") {
		t.Errorf("in use are %q", inUse)
	}
	if p := r.Progress(); len(p) != 1 || p[0].Name != "a" {
		t.Errorf("still coming: %+v", p)
	}
	close(rest)
	if got := <-used; got != "fetched: a" {
		t.Errorf("at last %q is in use", got)
	}
}

// A scriptedServer answers over connections in memory, so that a bubble of synctest has its time.
type scriptedServer struct {
	asked  atomic.Int64
	answer func(n int64, w io.Writer) // the n-th request
}

func (s *scriptedServer) client() *http.Client {
	return NewClient(nil, never, func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			for {
				head := make([]byte, 4096)
				if _, err := there.Read(head); err != nil {
					return
				}
				s.answer(s.asked.Add(1), there)
			}
		}()
		return here, nil
	})
}

const plainHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"

// TestABodyMayBeSlowAndNotSilent: 1 KB a second completes, a byte every two seconds and silence do not.
func TestABodyMayBeSlowAndNotSilent(t *testing.T) {
	body := lines(6000) // about 100 KB
	for name, tt := range map[string]struct {
		piece  int
		every  time.Duration
		stop   int // bytes after which nothing comes; 0 for never
		want   string
		within time.Duration
	}{
		"1 KB a second":           {1000, time.Second, 0, "", 10 * time.Minute},
		"a byte every 2 s":        {1, 2 * time.Second, 0, "too slow", 2 * time.Minute},
		"silence":                 {1000, time.Second, 5000, "nothing has come for 30s", 2 * time.Minute},
		"silence after the head":  {1000, time.Second, -1, "nothing has come for 30s", 2 * time.Minute},
		"a pause of 20 s, twice":  {60_000, 20 * time.Second, 0, "", 2 * time.Minute},
		"fast, then a byte a 2 s": {0, 2 * time.Second, 0, "too slow", 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{answer: func(_ int64, w io.Writer) {
					fmt.Fprintf(w, "%sContent-Length: %d\r\n\r\n", plainHead, len(body))
					rest, piece := body, tt.piece
					if piece == 0 {
						_, _ = io.WriteString(w, rest[:50_000])
						rest, piece = rest[50_000:], 1
					}
					for rest != "" {
						if tt.stop < 0 || tt.stop > 0 && len(body)-len(rest) >= tt.stop {
							time.Sleep(time.Hour)
							return
						}
						n := min(piece, len(rest))
						if _, err := io.WriteString(w, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
						time.Sleep(tt.every)
					}
				}}
				store := &Store{Dir: dir, Client: s.client(), wait: time.Second}
				begin := time.Now()
				c, err := store.Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{"http://lists.example/own"}}), Try: TryList("own", domains)})
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && c.Entries != 6000 {
					t.Errorf("%d entries, %v; want %q", c.Entries, err, tt.want)
				}
				if took := time.Since(begin); took > tt.within {
					t.Errorf("it took %v", took)
				}
				store.Client.CloseIdleConnections()
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestServersThatWantToBeAskedLaterAre: not at once again, and not before their time.
func TestServersThatWantToBeAskedLaterAre(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		field  string
		asked  int64
		later  time.Duration
	}{
		"429":                 {429, "600", 1, 10 * time.Minute},
		"503":                 {503, "600", 1, 10 * time.Minute},
		"more than a day":     {429, "99999999", 1, pauseAtMost},
		"429 without a field": {429, "", attempts, 0},
		"500 with a field":    {500, "600", attempts, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				if tt.field != "" {
					w.Header().Set("Retry-After", tt.field)
				}
				w.WriteHeader(tt.status)
			}))
			defer server.Close()
			store := newStore(t)
			it := Item{Source: resolve(t, Config{URL: []string{server.URL}}), Try: TryList("own", domains)}
			if _, err := store.Update(t.Context(), "own", it); err == nil || asked.Load() != tt.asked {
				t.Errorf("asked %d times, %v; want %d", asked.Load(), err, tt.asked)
			}
			st, err := store.State("own")
			if err != nil || st.Failures != 1 || (st.Later.IsZero() != (tt.later == 0)) || tt.later > 0 && st.Later.Sub(st.Checked) != tt.later {
				t.Errorf("the state is %+v, %v", st, err)
			}
			if tt.later > 0 && (st.Due(it.Source, 0, st.Checked.Add(tt.later-time.Second)) || !st.Due(it.Source, 0, st.Checked.Add(tt.later))) {
				t.Error("it is not due when the server wants to be asked")
			}
		})
	}
}

// TestAServerThatAlwaysSaysUnchangedIsAskedForAllOnceAWeek: its word may be wrong.
func TestAServerThatAlwaysSaysUnchangedIsAskedForAllOnceAWeek(t *testing.T) {
	content := lines(10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"always"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, content)
	}))
	defer server.Close()
	store := newStore(t)
	it := Item{Source: resolve(t, Config{URL: []string{server.URL}}), Try: TryList("own", domains)}
	update := func(want bool) {
		t.Helper()
		if c, err := store.Update(t.Context(), "own", it); err != nil || c.Updated != want {
			t.Fatalf("updated %v, %v; want %v", c.Updated, err, want)
		}
	}
	update(true)
	content = lines(12)
	update(false)
	st, err := store.State("own")
	if err != nil {
		t.Fatal(err)
	}
	st.Whole = st.Whole.Add(-wholeAfter - time.Minute)
	if err := store.save("own", st); err != nil {
		t.Fatal(err)
	}
	update(true)
}

// TestKeysInAddressesStayHere: they are not in the state, in errors, or in what another server sees.
func TestKeysInAddressesStayHere(t *testing.T) {
	const key = "k3yThatNobodySees"
	referer := ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		referer += r.Header.Get("Referer")
		_, _ = io.WriteString(w, lines(10))
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "a.example\n")
		default:
			_, _ = io.WriteString(w, lines(10))
		}
	}))
	defer server.Close()
	for _, path := range []string{"/moved", "/cut", "/good"} {
		for _, query := range []string{"?key=" + key, "?api_key=" + key + "&list=a", "?token=" + key} {
			store := newStore(t)
			_, err := store.Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{server.URL + path + query}}), Try: TryList("own", domains)})
			if (err == nil) != (path != "/cut") || err != nil && strings.Contains(err.Error(), key) {
				t.Errorf("%s%s: %v", path, query, err)
			}
			b, err := os.ReadFile(filepath.Join(store.Dir, "own", stateOf))
			if err != nil || strings.Contains(string(b), key) {
				t.Errorf("%s%s: the state is %s, %v", path, query, b, err)
			}
		}
	}
	if referer != "" {
		t.Errorf("another server learns %q", referer)
	}
	if got := setting.WithoutCredentials("http://me:" + key + "@lists.example/?auth=" + key); strings.Contains(got, key) {
		t.Error(got)
	}
}

// TestAListIsFetchedSecondsAfterTheNetworkIsThere: however long that takes.
func TestAListIsFetchedSecondsAfterTheNetworkIsThere(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, lines(10)) }))
	at := server.URL
	server.Close()
	store := newStore(t)
	it := Item{Source: resolve(t, Config{URL: []string{at}}), Try: TryList("own", domains)}
	for range 20 {
		if _, err := store.Update(t.Context(), "own", it); err == nil {
			t.Fatal("a server that is away has answered")
		}
	}
	st, err := store.State("own")
	if err != nil || !st.Due(it.Source, 1, st.Checked.Add(30*time.Second)) {
		t.Errorf("after 20 failures the state is %+v, %v", st, err)
	}
}

// TestAThousandGatewaysAskInTurn: a town that starts at the same moment, and checked a list at the same
// time, spreads its requests evenly. The busiest minute has at most twice the mean of an hour, the first
// time; in the week after it, chance lets one minute in a thousand have more.
func TestAThousandGatewaysAskInTurn(t *testing.T) {
	const gateways = 1000
	checked := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	for _, every := range []time.Duration{time.Hour, 2 * time.Hour, 24 * time.Hour} {
		src := Source{URL: "https://lists.example/", Every: every}
		first, later := map[time.Duration]int{}, map[time.Duration]int{}
		for seed := range uint64(gateways) {
			r := &Refresher{seed: seed}
			st := State{URL: src.URL, Checked: checked, Versions: []Version{{Current: true}}}
			for n := 0; st.Checked.Before(checked.Add(7 * 24 * time.Hour)); n++ {
				after := st.interval(src, r.part("own", st.Checked))
				if spread := max(every/4, time.Hour/2); after < every-spread || after > every+spread {
					t.Fatalf("every %v, a gateway asks after %v", every, after)
				}
				st.Checked = st.Checked.Add(after)
				if at := st.Checked.Sub(checked).Truncate(time.Minute); n == 0 {
					first[at]++
				} else {
					later[at]++
				}
			}
		}
		// The spread is an hour or more. That of a daily list is so wide that its mean is below two.
		const most = 2 * gateways / 60
		over := func(asked map[time.Duration]int) (minutes int) {
			for _, n := range asked {
				if n > most {
					minutes++
				}
			}
			return minutes
		}
		if n := over(first); n > 0 {
			t.Errorf("every %v: in %d minutes more than %d of %d gateways ask first", every, n, most, gateways)
		}
		if n := over(later); n > len(later)/1000 {
			t.Errorf("every %v: in %d of %d later minutes more than %d of %d gateways ask", every, n, len(later), most, gateways)
		}
	}
	a, b := &Refresher{seed: 1}, &Refresher{seed: 2}
	if a.part("own", checked) == a.part("own", checked.Add(time.Hour)) || a.part("own", checked) == a.part("ads", checked) || a.part("own", checked) == b.part("own", checked) {
		t.Error("a gateway keeps its place in the row")
	}
}

// TestALastLineMayBeCut: where nobody says how long a list is, a line without an end is no entry.
func TestALastLineMayBeCut(t *testing.T) {
	for name, tt := range map[string]struct {
		head, body string
		want       bool
	}{
		"with a length":                {"Content-Length: 20\r\n", "a.example\nbb.example", true},
		"in chunks":                    {"Transfer-Encoding: chunked\r\n", "14\r\na.example\nbb.example\r\n0\r\n\r\n", true},
		"until the end":                {"", "a.example\nbb.example\n", true},
		"until the end, within a line": {"", "a.example\nbb.exa", false},
		"until the end, nothing":       {"", "", false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, plainHead+tt.head+"\r\n"+tt.body)
				c.Close()
			}
		}()
		_, err = newStore(t).Update(t.Context(), "own", Item{Source: resolve(t, Config{URL: []string{"http://" + l.Addr().String() + "/own"}}), Try: TryList("own", domains)})
		if (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
		l.Close()
	}
}

func TestASignatureIsBesideItsFile(t *testing.T) {
	for at, want := range map[string]string{
		"https://lists.example/ads":               "https://lists.example/ads.minisig",
		"https://lists.example/ads?key=a":         "https://lists.example/ads.minisig?key=a",
		"https://lists.example/get?file=a.txt&x?": "https://lists.example/get.minisig?file=a.txt&x?",
	} {
		if got := besides(at, ".minisig"); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// TestAJumpOfRefusedLinesIsShown: a version of which many more lines are refused than of the one in
// use does not replace it, /health says so, and the next good one ends that.
func TestAJumpOfRefusedLinesIsShown(t *testing.T) {
	var answer atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer.Load()) }))
	defer srv.Close()
	s := newStore(t)
	items := Items{"ads": {Source: resolve(t, Config{URL: []string{srv.URL}}), Try: TryList("ads", domains)}}
	r := NewRefresher(func() (*Store, Items) {
		it, err := s.InUse("ads", items["ads"])
		if err != nil {
			t.Error(err)
		}
		return s, Items{"ads": it}
	}, func(context.Context, string) {}, slog.New(slog.DiscardHandler))
	broken := func(n int) string { return strings.Repeat("local-zone: \"x.example\" static\n", n) }
	for _, c := range []struct{ text, inUse, problem string }{
		{broken(5) + lines(100), broken(5) + lines(100), ""},
		{broken(14) + lines(101), broken(14) + lines(101), ""},
		{broken(40) + lines(101), broken(14) + lines(101), "40 of 141 lines are not valid domains, and of the version in use 14"},
		{lines(102), lines(102), ""},
		{broken(13) + lines(102), lines(102), "13 of 115 lines"},
	} {
		answer.Store(c.text)
		r.fetch(t.Context(), s, "ads", items["ads"])
		var said []string
		for _, p := range r.Problems() {
			if said = append(said, p.Text); p.Kind != problem.Lists {
				t.Errorf("%q is a problem of the kind %v", p.Text, p.Kind)
			}
		}
		if got := strings.Join(said, "\n"); !strings.Contains(got, c.problem) || c.problem == "" && got != "" {
			t.Errorf("/health says %q, want %q", got, c.problem)
		}
		if inUse(t, s) != c.inUse {
			t.Errorf("not the last good version is in use: want one of %d bytes", len(c.inUse))
		}
	}
}

// TestItIsSaidSinceWhenAListIsAwaited: from the first question on, over failures and restarts, until there
// is a version. A moment in the future, which a wrong clock has noted, does not count.
func TestItIsSaidSinceWhenAListIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var there atomic.Bool
		server := &scriptedServer{answer: func(n int64, w io.Writer) {
			switch {
			case n == 1:
				time.Sleep(20 * time.Second)
				fallthrough
			case !there.Load():
				_, _ = io.WriteString(w, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			default:
				fmt.Fprintf(w, "%sContent-Length: 10\r\n\r\na.example\n", plainHead)
			}
		}}
		store := newStore(t)
		store.Client = server.client()
		it := Item{Source: resolve(t, Config{URL: []string{"http://lists.example/own"}}), Try: TryList("own", domains)}
		current := func() (*Store, Items) {
			now, err := store.InUse("own", it)
			if err != nil {
				t.Error(err)
			}
			return store, Items{"own": now}
		}
		began := time.Now().UTC().Format(time.RFC3339)
		says := func(r *Refresher, want string) {
			t.Helper()
			all := r.Problems()
			if want == "" && len(all) == 0 {
				return
			}
			if len(all) != 1 || all[0].Kind != problem.Awaited || want == "" || !strings.Contains(all[0].Text, want) {
				t.Errorf("at %v /health says %q, want %q", time.Now().UTC(), all, want)
			}
		}
		run := func(d time.Duration, want ...string) {
			t.Helper()
			r := NewRefresher(current, func(context.Context, string) {}, slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			for _, w := range want {
				time.Sleep(d)
				synctest.Wait()
				says(r, w)
			}
			stop()
			<-ended
		}
		run(10*time.Second, "own: its server is being asked; awaited since "+began, "awaited since "+began, "404 Not Found; awaited since "+began)
		run(time.Minute, "404 Not Found; awaited since "+began)
		st, err := store.State("own")
		if err != nil {
			t.Fatal(err)
		}
		st.Awaited = time.Now().Add(24 * time.Hour)
		if err := store.save("own", st); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		now := time.Now().UTC().Format(time.RFC3339)
		run(time.Second, "awaited since "+now)
		there.Store(true)
		run(time.Hour, "")
	})
}

// TestAFleetAsksInTurn: a node that has a new version tells all others at the same moment. Each asks the
// server when its turn has come, all have it within the hour, and one that has it already asks no more.
func TestAFleetAsksInTurn(t *testing.T) {
	const most = 2 * 1000 / 60
	turns := map[time.Duration]int{}
	for seed := range uint64(1000) {
		r := &Refresher{seed: seed}
		turn := Source{Every: 24 * time.Hour}.turn(r.part("own", time.Time{}))
		if turns[turn.Truncate(time.Minute)]++; turns[turn.Truncate(time.Minute)] > most || turn >= time.Hour {
			t.Errorf("node %d asks after %v, with more than %d others in its minute", seed, turn, most)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []time.Time
		version := "a.example\n"
		server := &scriptedServer{answer: func(n int64, w io.Writer) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			fmt.Fprintf(w, "%sContent-Length: %d\r\n\r\n%s", plainHead, len(version), version)
		}}
		const nodes = 20
		var fleet []*Refresher
		var stores []*Store
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, nodes)
		for seed := range uint64(nodes) {
			store := newStore(t)
			store.Client = server.client()
			it := Item{Source: resolve(t, Config{URL: []string{"http://lists.example/own"}}), Try: TryList("own", domains)}
			if _, err := store.Update(ctx, "own", it); err != nil {
				t.Fatal(err)
			}
			r := NewRefresher(func() (*Store, Items) {
				now, err := store.InUse("own", it)
				if err != nil {
					t.Error(err)
				}
				return store, Items{"own": now}
			}, func(context.Context, string) {}, slog.New(slog.DiscardHandler))
			r.seed = seed
			fleet, stores = append(fleet, r), append(stores, store)
			go func() { ended <- r.Run(ctx) }()
		}
		time.Sleep(2 * time.Hour) // the first turns, of gateways that start together, are over
		synctest.Wait()
		mu.Lock()
		asked, version = nil, "a.example\nb.example\n"
		mu.Unlock()
		if _, err := stores[0].Update(ctx, "own", Item{Source: resolve(t, Config{URL: []string{"http://lists.example/own"}}), Try: TryList("own", domains)}); err != nil {
			t.Fatal(err)
		}
		for _, r := range fleet {
			r.Newer("own", sum(version))
			r.Newer("of another node", sum(version))
		}
		time.Sleep(time.Hour + 2*lookEvery)
		synctest.Wait()
		if len(asked) != nodes {
			t.Errorf("the server was asked %d times by %d nodes", len(asked), nodes)
		}
		minutes := map[time.Time]int{}
		for _, at := range asked {
			if minutes[at.Truncate(time.Minute)]++; minutes[at.Truncate(time.Minute)] > nodes/4 {
				t.Errorf("at %v more than a quarter of the nodes asked", at)
			}
		}
		for i, s := range stores {
			if st, err := s.State("own"); err != nil || st.inUse() == nil || st.inUse().SHA256 != sum(version) {
				t.Errorf("node %d has %+v, %v", i, st.inUse(), err)
			}
		}
		stop()
		for range fleet {
			<-ended
		}
	})
}
