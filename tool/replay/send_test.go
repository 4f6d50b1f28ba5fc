package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"shuultuur/tool/load"
	"shuultuur/whatif"
)

func startOrigin(t *testing.T, zip bool) *Origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := NewOrigin(l, zip)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- o.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("the origin ended with: %v", err)
		}
	})
	return o
}

func send(t *testing.T, cfg SendConfig, entries iter.Seq2[whatif.Entry, error]) *SendReport {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// entriesOf makes entries of URLs, gap apart.
func entriesOf(t *testing.T, gap time.Duration, urls ...string) iter.Seq2[whatif.Entry, error] {
	t.Helper()
	return func(yield func(whatif.Entry, error) bool) {
		for i, u := range urls {
			parsed, err := url.Parse(u)
			if err != nil {
				t.Error(err)
				return
			}
			e := whatif.Entry{
				Method: "GET", URL: u, Host: parsed.Hostname(), Start: time.Unix(1_700_000_000, 0).Add(time.Duration(i) * gap), Status: 200, Bytes: 10,
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// timeless removes the parts of a report that differ from run to run.
func timeless(r *SendReport) *SendReport {
	r.Started, r.Seconds, r.MaxParallel, r.Late = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 2, 3, 1
	l := load.Latency{Count: r.Answered, Mean: 1.5, Min: 0.1, P50: 1, P90: 2, P99: 3, P999: 4, Max: 5, Buckets: []load.Bucket{{UpTo: 5, Count: r.Answered}}}
	r.Total, r.Intended, r.Lateness = l, l, l
	return r
}

func TestLogIsSentAndTheOriginAnswersAsRecorded(t *testing.T) {
	o := startOrigin(t, false)
	s := &whatif.Source{Files: []string{"../../whatif/testdata/squid.log", "../../whatif/testdata/events.jsonl"}}
	r := send(t, SendConfig{Proxy: o.Addr().String(), Origin: o, Parallel: 1, Speed: 1e6}, s.Entries(t.Context()))
	r.Input = s.Input()
	if r.Sent != 10 || r.Answered != 10 || r.FromOrigin != 8 || r.Plain != 1 || r.Tunnels != 2 || r.Lookups != 1 || len(r.Errors) != 0 {
		t.Errorf("the report is %+v", r)
	}
	if want := int64(4711 + 3900 + 0 + 512 + 4711); r.Bytes != want {
		t.Errorf("%d bytes came, want %d as recorded", r.Bytes, want)
	}
	golden(t, "send.txt", timeless(r).Text)
	golden(t, "send.json", r.JSON)
	golden(t, "bounded.txt", (&SendReport{
		Input: whatif.Input{Files: []string{"a.log"}, Lines: 9, Requests: 9}, Ended: "seconds", Sent: 9, Answered: 7, Unfinished: 1, Seconds: 1,
		NotAllowed: 3, Refused: []string{"a.example", "b.example"}, Codes: map[int]int64{200: 7},
		Errors: map[string]int64{"reset": 1}, Examples: map[string]string{"reset": "http://c.example/: connection reset by peer"},
	}).Text)
}

func TestOriginMakesBodiesOfTheRecordedKind(t *testing.T) {
	o := startOrigin(t, true)
	ask := func(e whatif.Entry, accept string) *http.Response {
		t.Helper()
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodGet, "http://any.example/x.png", nil)
		q.Header.Set(marker, marking(&e))
		q.Header.Set("Accept-Encoding", accept)
		o.ServeHTTP(w, q)
		return w.Result()
	}
	for _, c := range []struct {
		what  string
		e     whatif.Entry
		zip   string
		want  string
		bytes int
	}{
		{"as recorded", whatif.Entry{Status: 404, Bytes: 5, Type: "image/gif"}, "", "404 image/gif ", 5},
		{"type by the name", whatif.Entry{Status: 200, Bytes: 100_000}, "", "200 image/png ", 100_000},
		{"no body", whatif.Entry{Status: 304, Bytes: 200, Type: "image/gif"}, "", "304  ", 0},
		{"refused by a filter", whatif.Entry{Status: 403, Bytes: 7, Refused: true, Type: "image/gif"}, "", "200 text/html; charset=utf-8 ", 7},
		{"not answered", whatif.Entry{Status: 0}, "", "200 image/png ", 0},
		{"type that is none", whatif.Entry{Status: 200, Type: "a/b c\r\nX: y"}, "", "200 image/png ", 0},
		{"pictures are not compressed", whatif.Entry{Status: 200, Bytes: 5, Type: "image/gif"}, "gzip", "200 image/gif ", 5},
		{"text is", whatif.Entry{Status: 200, Bytes: 50_000, Type: "text/html"}, "gzip", "200 text/html; charset=utf-8 gzip", -1},
	} {
		r := ask(c.e, c.zip)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("%s: reading the body: %v", c.what, err)
		}
		if got := fmt.Sprintf("%d %s %s", r.StatusCode, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding")); got != c.want {
			t.Errorf("%s: the origin answered %q, want %q", c.what, got, c.want)
		}
		if c.bytes >= 0 && len(body) != c.bytes {
			t.Errorf("%s: the body has %d bytes, want %d", c.what, len(body), c.bytes)
		}
		if c.bytes < 0 && (len(body) < 25_000 || len(body) > 100_000) {
			t.Errorf("%s: the compressed body has %d bytes, want about 50,000", c.what, len(body))
		}
	}
}

func TestEntriesAreDueByTheGapsOfTheLog(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1_700_000_000, int64(ms)*1e6) }
	log := func(yield func(whatif.Entry, error) bool) {
		// In the order in which requests end, as Squid writes them.
		for _, ms := range []int{20, 60, 10, 30} {
			if !yield(whatif.Entry{Method: "GET", Host: "localhost", Start: at(ms)}, nil) {
				return
			}
		}
	}
	parcels := make(chan parcel, 4)
	s, err := New(SendConfig{Proxy: "127.0.0.1:1", Speed: 5})
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch{s: s, ctx: t.Context(), parcels: parcels}
	if err := d.run(inOrder(log)); err != nil {
		t.Fatal(err)
	}
	close(parcels)
	var got []time.Duration
	for p := range parcels {
		got = append(got, p.intended.Sub(d.begun))
	}
	want := []time.Duration{0, 2 * time.Millisecond, 4 * time.Millisecond, 10 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("times at which requests are due, after the beginning (-want +got):\n%s", diff)
	}
	if took := time.Since(d.begun); took < want[3] {
		t.Errorf("the run took %s, want at least %s", took, want[3])
	}
}

func TestLateRequestsAreCounted(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(30 * time.Millisecond) }))
	defer slow.Close()
	urls := slices.Repeat([]string{"http://localhost/"}, 5)
	r := send(t, SendConfig{Proxy: slow.Listener.Addr().String(), Parallel: 1, Speed: 1}, entriesOf(t, time.Millisecond, urls...))
	// Each waits for the one before: the last is due at 4 ms and sent after 120.
	if r.Answered != 5 || r.Late < 4 || r.Lateness.Max < 100 || r.Intended.Max < r.Total.P50+100 {
		t.Errorf("with a slow origin: %d late requests, lateness %+v, total %+v, from the intended time %+v", r.Late, r.Lateness, r.Total, r.Intended)
	}
}

func TestOnlyAllowedHostsAreRequested(t *testing.T) {
	var mu sync.Mutex
	var got []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Host)
	}))
	defer gateway.Close()
	r := send(t, SendConfig{Proxy: gateway.Listener.Addr().String(), Parallel: 1, Allow: []string{"may.example"}},
		entriesOf(t, 0, "http://may.example/", "http://other.example/", "http://127.0.0.1/", "http://[::1]/", "http://localhost/", "http://192.0.2.1/", "http://sub.may.example/"))
	if want := []string{"may.example", "127.0.0.1", "[::1]", "localhost"}; !slices.Equal(got, want) {
		t.Errorf("the proxy was asked for the hosts %q, want %q", got, want)
	}
	if r.NotAllowed != 3 || !slices.Equal(r.Refused, []string{"192.0.2.1", "other.example", "sub.may.example"}) {
		t.Errorf("%d requests were not allowed, to %q", r.NotAllowed, r.Refused)
	}
}

func TestNothingIsSentWhenTheGatewayDoesNotAskTheOrigin(t *testing.T) {
	o := startOrigin(t, false)
	asked := 0
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked++ }))
	defer gateway.Close()
	s, err := New(SendConfig{Proxy: gateway.Listener.Addr().String(), Origin: o})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context(), entriesOf(t, 0, "http://www.example.com/"))
	if err == nil || !strings.Contains(err.Error(), "set its parent to the origin") {
		t.Errorf("error %v, want one that says what to do", err)
	}
	if asked != 1 {
		t.Errorf("the gateway was asked %d times, want only the probe", asked)
	}
}

func TestRunsAreBounded(t *testing.T) {
	o := startOrigin(t, false)
	cfg := SendConfig{Proxy: o.Addr().String(), Origin: o, Requests: 3}
	r := send(t, cfg, entriesOf(t, 0, slices.Repeat([]string{"http://a.example/"}, 10)...))
	if r.Sent != 3 || r.Ended != "requests" {
		t.Errorf("%d sent, ended by %q; want 3, requests", r.Sent, r.Ended)
	}
	cfg = SendConfig{Proxy: o.Addr().String(), Origin: o, Duration: 50 * time.Millisecond, Speed: 1}
	r = send(t, cfg, entriesOf(t, time.Hour, "http://a.example/", "http://a.example/"))
	if r.Sent != 1 || r.Ended != "seconds" {
		t.Errorf("%d sent, ended by %q; want 1, seconds", r.Sent, r.Ended)
	}
	for _, bad := range []SendConfig{
		{Proxy: "192.0.2.1:8080"}, {Proxy: "localhost"}, {Proxy: "127.0.0.1:1", Parallel: -1}, {Proxy: "127.0.0.1:1", Speed: -1},
		{Proxy: "127.0.0.1:1", Requests: load.MaxFetches + 1}, {Proxy: "127.0.0.1:1", Duration: 48 * time.Hour},
	} {
		if _, err := New(bad); err == nil {
			t.Errorf("New(%+v) accepts invalid settings", bad)
		}
	}
}

func TestRequestsHaveTheDataOfTheLog(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	heads := make(chan string, 1)
	go func() {
		defer there.Close()
		br := bufio.NewReader(there)
		var b strings.Builder
		for {
			line, err := br.ReadString('\n')
			b.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		body := make([]byte, 5)
		if _, err := io.ReadFull(br, body); err != nil {
			t.Error(err)
		}
		heads <- b.String()
	}()
	w := &worker{s: &Sender{cfg: SendConfig{Origin: &Origin{}}}, nc: here}
	var e whatif.Entry
	log := `{"time":"2026-01-01T00:00:01Z","proto":"http","action":"pass","url":"HTTP://user:secret@WWW.Example.com:8080/a b?q=ü#frag","host":"www.example.com"}`
	source := &whatif.Source{Files: []string{"-"}, Form: "jsonl", Stdin: strings.NewReader(log)}
	for got, err := range source.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		e = got
	}
	e.Method, e.Sent, e.Status, e.Bytes, e.Type, e.Agent, e.Referer = "POST", 5, 200, 9, "text/plain", "A\r\nEvil: 1", "http://r.example/"
	if err := w.write(&e); err != nil {
		t.Fatal(err)
	}
	want := "POST http://WWW.Example.com:8080/a%20b?q=%C3%BC HTTP/1.1\r\nHost: WWW.Example.com:8080\r\nUser-Agent: A  Evil: 1\r\nReferer: http://r.example/\r\n" +
		"Accept-Encoding: gzip\r\nContent-Length: 5\r\nShuultuur-Replay: 200 9 text/plain\r\n\r\n"
	if diff := cmp.Diff(want, <-heads); diff != "" {
		t.Errorf("request head (-want +got):\n%s", diff)
	}
}

func TestAClosedConnectionIsRetriedOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Add(1)
	go func() {
		defer served.Done()
		for { // one answer for each connection, which is then closed unannounced
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
				_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
			nc.Close()
		}
	}()
	r := send(t, SendConfig{Proxy: l.Addr().String(), Parallel: 1}, entriesOf(t, 0, slices.Repeat([]string{"http://localhost/"}, 4)...))
	l.Close()
	served.Wait()
	if r.Answered != 4 || len(r.Errors) != 0 {
		t.Errorf("%d answered, errors %v; want 4 and none", r.Answered, r.Errors)
	}
	r = send(t, SendConfig{Proxy: l.Addr().String()}, entriesOf(t, 0, "http://localhost/"))
	if diff := cmp.Diff(map[string]int64{"refused": 1}, r.Errors); diff != "" {
		t.Errorf("errors of a proxy that is gone (-want +got):\n%s", diff)
	}
}
