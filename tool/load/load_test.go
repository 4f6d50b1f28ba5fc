package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/wait"
)

// A testOrigin is an origin under test.
type testOrigin struct {
	*Origin
	url, secure string
	roots       *x509.CertPool
}

// serve starts an origin, plain and over TLS, for one test.
func serve(t *testing.T, cfg OriginConfig) testOrigin {
	t.Helper()
	o, err := NewOrigin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cert, authority, err := SelfMade([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	s := testOrigin{Origin: o, roots: x509.NewCertPool()}
	s.roots.AppendCertsFromPEM(authority)
	s.url = "http://" + listen(t, func(ctx context.Context, l net.Listener) error { return o.Serve(ctx, l, nil) })
	s.secure = "https://" + listen(t, func(ctx context.Context, l net.Listener) error { return o.Serve(ctx, l, &cert) })
	return s
}

// listen runs a server on a free port until the test ends.
func listen(t *testing.T, run func(context.Context, net.Listener) error) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	return l.Addr().String()
}

func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// goodStart finds a seed with which the first answers have no fault: later bodies
// are compared with one of them.
func goodStart(t *testing.T, faults map[Fault]float64) uint64 {
	t.Helper()
	for seed := range uint64(10_000) {
		o := Origin{cfg: OriginConfig{Seed: seed, Faults: faults}}
		good := uint64(0)
		for good < 40 && o.draw(good) == NoFault {
			good++
		}
		if good == 40 {
			return seed
		}
	}
	t.Fatal("no seed begins with answers without faults")
	return 0
}

func TestFaultsAreCountedExactly(t *testing.T) {
	for _, c := range []struct {
		name        string
		keep, http2 bool
		// HTTP/2 has no RST and no length that could be wrong: a short body is a
		// reset stream.
		reset, short []string
	}{
		{"one connection each", false, false, []string{"reset"}, []string{"short"}},
		{"keep-alive", true, false, []string{"reset"}, []string{"short"}},
		{"HTTP/2", true, true, []string{"reset", "short", "stall"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			faults := map[Fault]float64{Reset: 0.03, ShortBody: 0.04, WrongLength: 0.05}
			o := serve(t, OriginConfig{Slow: time.Second, Seed: goodStart(t, faults), Faults: faults})
			r := run(t, Config{URLs: []string{o.url + "/size/3000"}, Parallel: 8, Fetches: 600, KeepAlive: c.keep, HTTP2: c.http2})
			n := o.Counts()
			sum := func(names []string) (s int64) {
				for _, name := range names {
					s += n[name]
				}
				return s
			}
			if n["reset"] == 0 || n["short"] == 0 || n["wrong"] == 0 {
				t.Fatalf("the origin caused no faults of some kind: %v", n)
			}
			for _, w := range []struct {
				class string
				want  int64
			}{{"reset", sum(c.reset)}, {"short body", sum(c.short)}, {"changed body", n["wrong"]}} {
				if got := r.Errors[w.class]; got != w.want {
					t.Errorf("%d fetches failed with %q, but the origin caused %d (%v, %v)", got, w.class, w.want, r.Errors, r.Examples)
				}
			}
			if r.BadBodies != n["wrong"] {
				t.Errorf("%d bad byte counts, want %d", r.BadBodies, n["wrong"])
			}
			if want := n[""] + n["wrong"]; r.Fetches != want || r.Codes[200] != want {
				t.Errorf("the report has %d fetches, %d with status 200; want %d", r.Fetches, r.Codes[200], want)
			}
		})
	}
}

func TestStallsAreTimeouts(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		o := serve(t, OriginConfig{Slow: 20 * time.Second, Seed: 5, Faults: map[Fault]float64{Stall: 0.1}})
		r := run(t, Config{URLs: []string{o.url + "/size/3000"}, Parallel: 8, Fetches: 80, KeepAlive: true, HTTP2: http2, Timeout: time.Second}) // longer than a busy machine pauses
		if want := o.Counts()["stall"]; want == 0 || r.Errors["timeout"] != want {
			t.Errorf("HTTP/2 %v: %d timeouts, but the origin stalled %d times (%v, %v)", http2, r.Errors["timeout"], want, r.Errors, r.Examples)
		}
	}
}

func TestRefusedAndStatusAreTheirOwnClasses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + l.Addr().String() + "/"
	l.Close()
	if r := run(t, Config{URLs: []string{gone}, Parallel: 2, Fetches: 10}); r.Errors["refused"] != 10 || r.Fetches != 0 {
		t.Errorf("errors %v and %d fetches, want 10 refused", r.Errors, r.Fetches)
	}
	o := serve(t, OriginConfig{})
	r := run(t, Config{URLs: []string{o.url + "/nowhere"}, Parallel: 2, Fetches: 10})
	if r.Errors["status"] != 10 || r.Codes[404] != 10 || r.Fetches != 10 {
		t.Errorf("errors %v, codes %v; want 10 fetches with status 404", r.Errors, r.Codes)
	}
	if r := run(t, Config{URLs: []string{o.secure + "/size/1"}, Parallel: 1, Fetches: 3}); r.Errors["tls"] != 3 {
		t.Errorf("errors %v, want 3 tls: the authority is not known", r.Errors)
	}
}

func TestInjectedDelayIsMeasured(t *testing.T) {
	const delay = 30 * time.Millisecond
	o := serve(t, OriginConfig{Delay: delay})
	r := run(t, Config{URLs: []string{o.url + "/size/100"}, Parallel: 4, Fetches: 40, KeepAlive: true})
	for _, l := range []Latency{r.FirstByte, r.Total} {
		// The histogram has three digits, the clock is the machine's.
		if l.Min < ms(delay) || l.P50 > 3*ms(delay) || l.Count != 40 {
			t.Errorf("%d latencies from %g, median %g ms; want 40 of %g", l.Count, l.Min, l.P50, ms(delay))
		}
	}
}

// An origin that stops for a second holds up one request in the closed view
// and every request that was due meanwhile in the open one (coordinated
// omission).
func TestStallShowsFromTheIntendedSendTime(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 100 {
			_ = wait.For(r.Context(), time.Second)
		}
	}))
	defer s.Close()
	r := run(t, Config{URLs: []string{s.URL}, Rate: 300, InFlight: 1, Fetches: 600, KeepAlive: true})
	if r.Fetches != 600 {
		t.Fatalf("the report has %d fetches, want 600; errors %v", r.Fetches, r.Errors)
	}
	if r.Intended.P99 < 900 {
		t.Errorf("p99 from the intended send time is %g ms, want about 1000", r.Intended.P99)
	}
	if r.Total.P99 > 500 {
		t.Errorf("uncorrected p99 is %g ms: one slow answer of 600 should not show", r.Total.P99)
	}
	if r.Total.Max < 1000 {
		t.Errorf("uncorrected max is %g ms, want 1000: it is not the clock that hides it", r.Total.Max)
	}
}

func TestOpenLoopKeepsItsRateAndCountsWhatItCouldNotSend(t *testing.T) {
	o := serve(t, OriginConfig{})
	r := run(t, Config{URLs: []string{o.url + "/size/10"}, Rate: 200, Jitter: true, Fetches: 100, KeepAlive: true})
	if r.Fetches != 100 || r.Seconds < 0.4 || r.Seconds > 2 {
		t.Errorf("%d fetches in %g s, want 100 in about 0.5", r.Fetches, r.Seconds)
	}
	r = run(t, Config{URLs: []string{o.url + "/size/10?delay=10s"}, Rate: 100, InFlight: 3, Duration: 300 * time.Millisecond})
	if r.MaxParallel != 3 || r.Unfinished != 3 || r.Unsent < 20 || r.Unsent > 200 {
		t.Errorf("max parallel %d, unfinished %d, unsent %d; want 3, 3 and about 27", r.MaxParallel, r.Unfinished, r.Unsent)
	}
}

func TestBatchesWaitForAll(t *testing.T) {
	var now, most atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		_ = wait.For(r.Context(), 10*time.Millisecond)
		now.Add(-1)
	}))
	defer s.Close()
	r := run(t, Config{URLs: []string{s.URL}, Batch: 20, Fetches: 90})
	if r.Fetches != 90 || r.Batch.Count != 5 || r.MaxParallel > 20 || most.Load() > 20 {
		t.Errorf("%d fetches in %d batches, at most %d (server saw %d); want 90 in 5, 20", r.Fetches, r.Batch.Count, r.MaxParallel, most.Load())
	}
	if r.Batch.Min < 10 {
		t.Errorf("a batch took %g ms, less than its slowest fetch", r.Batch.Min)
	}
}

func TestDurationEndsARunThatHangs(t *testing.T) {
	o := serve(t, OriginConfig{})
	for _, http2 := range []bool{false, true} {
		r := run(t, Config{URLs: []string{o.url + "/size/10?delay=30s"}, Parallel: 3, HTTP2: http2, Duration: 100 * time.Millisecond})
		if r.Unfinished != 3 || r.Fetches != 0 || len(r.Errors) != 0 || r.Seconds > 0.1 {
			t.Errorf("HTTP/2 %v: unfinished %d, fetches %d, errors %v after %g s; want 3 unfinished after 0.1", http2, r.Unfinished, r.Fetches, r.Errors, r.Seconds)
		}
	}
}

func TestAClosedKeepAliveConnectionIsRetried(t *testing.T) {
	addr := listen(t, func(ctx context.Context, l net.Listener) error {
		stop := context.AfterFunc(ctx, func() { l.Close() })
		defer stop()
		for {
			nc, err := l.Accept()
			if err != nil {
				return nil
			}
			// The server closes a connection after two answers, without notice.
			in := bufio.NewReader(nc)
			for range 2 {
				if _, err := http.ReadRequest(in); err == nil {
					io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n")
				}
			}
			nc.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, nc)
			nc.Close()
		}
	})
	r := run(t, Config{URLs: []string{"http://" + addr + "/"}, Parallel: 1, Fetches: 10, KeepAlive: true})
	if r.Fetches != 10 || r.Bytes != 30 || r.Reconnects != 4 || r.Connections != 5 || len(r.Errors) != 0 {
		t.Errorf("%d fetches, %d bytes, %d reconnects, %d connections, errors %v; want 10, 30, 4, 5, none", r.Fetches, r.Bytes, r.Reconnects, r.Connections, r.Errors)
	}
}

// tunnelProxy is a proxy that knows CONNECT and absolute form.
func tunnelProxy(t *testing.T) (addr string, connects, absolutes *atomic.Int64) {
	connects, absolutes = new(atomic.Int64), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			if r.URL.IsAbs() {
				absolutes.Add(1)
			}
			io.WriteString(w, "from the proxy")
			return
		}
		connects.Add(1)
		up, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		down, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			up.Close()
			return
		}
		io.WriteString(down, "HTTP/1.1 200 Connection established\r\n\r\n")
		var wg sync.WaitGroup
		wg.Add(2)
		go func() { defer wg.Done(); io.Copy(up, down); up.(*net.TCPConn).CloseWrite() }()
		go func() { defer wg.Done(); io.Copy(down, up); down.Close() }()
		wg.Wait()
		up.Close()
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), connects, absolutes
}

func TestProxyModes(t *testing.T) {
	o := serve(t, OriginConfig{})
	proxy, connects, absolutes := tunnelProxy(t)
	for _, c := range []struct {
		name                string
		url                 string
		tunnel, http2       bool
		connects, absolutes int64
		bytes               int64
	}{
		{"absolute form", o.url, false, false, 0, 6, 6 * 14},
		{"CONNECT", o.url, true, false, 2, 0, 6 * 100},
		{"CONNECT and TLS", o.secure, false, false, 2, 0, 6 * 100},
		{"CONNECT and HTTP/2 over TLS", o.secure, false, true, 2, 0, 6 * 100},
		{"CONNECT and HTTP/2", o.url, true, true, 2, 0, 6 * 100},
	} {
		connects.Store(0)
		absolutes.Store(0)
		r := run(t, Config{URLs: []string{c.url + "/size/100"}, Proxy: proxy, Tunnel: c.tunnel, HTTP2: c.http2, Roots: o.roots, Parallel: 2, Batch: 0, Fetches: 6, KeepAlive: true, Checksum: true})
		if connects.Load() > c.connects || connects.Load() == 0 && c.connects > 0 || absolutes.Load() != c.absolutes {
			t.Errorf("%s: proxy saw %d CONNECT and %d absolute, want %d and %d", c.name, connects.Load(), absolutes.Load(), c.connects, c.absolutes)
		}
		if r.Bytes != c.bytes || len(r.Errors) != 0 {
			t.Errorf("%s: %d bytes, errors %v %v; want %d, none", c.name, r.Bytes, r.Errors, r.Examples, c.bytes)
		}
		if secure := strings.HasPrefix(c.url, "https"); secure != (r.TLS.Count > 0) {
			t.Errorf("%s: the report has %d TLS handshakes", c.name, r.TLS.Count)
		}
	}
	gone := run(t, Config{URLs: []string{"https://127.0.0.1:1/"}, Proxy: proxy, Parallel: 1, Fetches: 3})
	if gone.Errors["tunnel refused"] != 3 {
		t.Errorf("errors %v, want 3 tunnels refused", gone.Errors)
	}
}

func TestChangedBodiesAreNamed(t *testing.T) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 3 {
			io.WriteString(w, "blocked")
			return
		}
		io.WriteString(w, "welcome")
	}))
	defer s.Close()
	for _, c := range []struct {
		checksum bool
		want     int64
		says     string
	}{{false, 0, ""}, {true, 1, s.URL + ": checksum wrong\n"}} {
		n.Store(0)
		var says strings.Builder
		r := run(t, Config{URLs: []string{s.URL}, Parallel: 1, Fetches: 5, Checksum: c.checksum, Complaints: &says})
		if r.BadBodies != c.want || says.String() != c.says {
			t.Errorf("checksum %v: %d bad bodies, said %q; want %d, %q", c.checksum, r.BadBodies, says.String(), c.want, c.says)
		}
	}
}

func TestTheRequestedCipherIsUsed(t *testing.T) {
	var used atomic.Uint32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used.Store(uint32(r.TLS.CipherSuite))
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, want := range []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384} {
		r := run(t, Config{URLs: []string{s.URL}, Parallel: 1, Fetches: 1, Roots: roots, Ciphers: []uint16{want}})
		if used.Load() != uint32(want) || len(r.Errors) != 0 {
			t.Errorf("the connection used %s, errors %v; want %s", tls.CipherSuiteName(uint16(used.Load())), r.Examples, tls.CipherSuiteName(want))
		}
	}
}

func TestProgressAndSeries(t *testing.T) {
	o := serve(t, OriginConfig{})
	var says strings.Builder
	r := run(t, Config{URLs: []string{o.url + "/size/10"}, Rate: 100, Duration: 450 * time.Millisecond, Progress: Progress{To: &says, Every: 100 * time.Millisecond}})
	if lines := strings.Count(says.String(), "\n"); lines < 2 || !strings.HasPrefix(says.String(), "--- ") || !strings.Contains(says.String(), " fetches started, ") {
		t.Errorf("the progress lines are %q", says.String())
	}
	sum, before := int64(0), 0.0
	for _, p := range r.Series {
		sum += p.Fetches
		if p.At <= before {
			t.Errorf("the series has a point at %g s after one at %g s", p.At, before)
		}
		before = p.At
	}
	if sum != r.Fetches || len(r.Series) < 3 {
		t.Errorf("%d points hold %d fetches, want all %d", len(r.Series), sum, r.Fetches)
	}
}

func TestInterruptedRunReports(t *testing.T) {
	o := serve(t, OriginConfig{})
	g, err := New(Config{URLs: []string{o.url + "/size/10"}, Parallel: 2, KeepAlive: true, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	r, err := g.Run(ctx)
	if err != nil || r.Fetches == 0 || r.Seconds > 30 || len(r.Errors) != 0 {
		t.Errorf("an interrupted run returned %v, report %+v", err, r)
	}
	if _, err := g.Run(ctx); err == nil {
		t.Error("a second Run of the generator succeeded")
	}
}

func TestThrottleReadsSlowly(t *testing.T) {
	o := serve(t, OriginConfig{})
	r := run(t, Config{URLs: []string{o.url + "/size/3000"}, Parallel: 1, Fetches: 1, Throttle: 10_000})
	if r.Total.Min < 250 || r.Bytes != 3000 {
		t.Errorf("%d bytes in %g ms, want 3000 in 300", r.Bytes, r.Total.Min)
	}
}

func TestOnlyLoopbackUnlessAllowed(t *testing.T) {
	for _, c := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{URLs: []string{"http://127.0.0.1/"}}, true},
		{Config{URLs: []string{"http://[::1]/"}}, true},
		{Config{URLs: []string{"http://[::ffff:127.0.0.1]/"}}, true},
		{Config{URLs: []string{"http://localhost/"}}, true},
		{Config{URLs: []string{"http://192.0.2.7/"}}, false},
		{Config{URLs: []string{"http://0.0.0.0/"}}, false},
		{Config{URLs: []string{"http://127.0.0.1/", "http://192.0.2.7/"}}, false},
		{Config{URLs: []string{"http://192.0.2.7/"}, Allow: []string{"192.0.2.7"}}, true},
		{Config{URLs: []string{"http://192.0.2.7/"}, Allow: []string{"192.0.2.8"}}, false},
		{Config{URLs: []string{"http://192.0.2.7/"}, Proxy: "127.0.0.1:1"}, false},
		{Config{URLs: []string{"http://no-such-host.invalid/"}, Proxy: "127.0.0.1:1"}, false},
		{Config{URLs: []string{"http://no-such-host.invalid/"}, Proxy: "127.0.0.1:1", Allow: []string{"no-such-host.invalid"}}, true},
		{Config{URLs: []string{"http://no-such-host.invalid/"}, Allow: []string{"no-such-host.invalid"}}, false},
		{Config{URLs: []string{"http://127.0.0.1/"}, Proxy: "192.0.2.7:1"}, false},
		{Config{URLs: []string{"http://127.0.0.1/"}, Proxy: "192.0.2.7:1", Allow: []string{"192.0.2.7"}}, true},
	} {
		c.cfg.Parallel, c.cfg.Fetches = 1, 1
		_, err := New(c.cfg)
		if (err == nil) != c.ok {
			t.Errorf("%v proxy %q allow %v: %v, want allowed %v", c.cfg.URLs, c.cfg.Proxy, c.cfg.Allow, err, c.ok)
		}
	}
}

func TestChoiceOfURLs(t *testing.T) {
	const n = 100_000
	count := func(order string, seed uint64) []int {
		c, err := newChooser(order, 1, seed, 10)
		if err != nil {
			t.Fatal(err)
		}
		hits := make([]int, 10)
		for i := range uint64(n) {
			hits[c.pick(i)]++
		}
		return hits
	}
	for i, got := range count("random", 1) {
		if got < 9500 || got > 10500 {
			t.Errorf("random: URL %d chosen %d times of %d, want about a tenth", i, got, n)
		}
	}
	for i, got := range count("zipf", 1) {
		// The tenth harmonic number is 2.929.
		want := float64(n) / 2.929 / float64(i+1)
		if f := float64(got) / want; f < 0.93 || f > 1.07 {
			t.Errorf("zipf: URL %d chosen %d times, want about %.0f", i, got, want)
		}
	}
	for i, got := range count("order", 1) {
		if got != n/10 {
			t.Errorf("order: URL %d chosen %d times, want %d", i, got, n/10)
		}
	}
	a, b := count("random", 1), count("random", 2)
	if a[0] == b[0] && a[1] == b[1] && a[2] == b[2] {
		t.Errorf("seeds 1 and 2 choose the same URLs: %v", a)
	}
}

func TestOriginServesPagesAndGzip(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	page := strings.Repeat("<p>hello</p>", 1000)
	if err := os.WriteFile(filepath.Join(dir, "sub", "a.html"), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	o := serve(t, OriginConfig{Pages: dir, Gzip: true})
	if got := sortedKeys(o.pages); len(got) != 1 || got[0] != "/sub/a.html" {
		t.Errorf("URLs %q, want /sub/a.html", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: o.roots}}}
	defer client.CloseIdleConnections()
	for _, base := range []string{o.url, o.secure} {
		resp, err := client.Get(base + "/sub/a.html")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(text) != page || !resp.Uncompressed {
			t.Errorf("%s: got %d bytes, error %v, compressed %v; want %d bytes, compressed", base, len(text), err, resp.Uncompressed, len(page))
		}
	}
	for path, code := range map[string]int{"/": 404, "/../sub/a.html": 404, "/size/x": 404, "/size/-1": 404, "/size/2000000000": 404, "/size/1?delay=1y": 400, "/size/1?fault=flood": 400, "/size/0": 200, "/size/100000": 200} {
		resp, err := client.Get(o.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != code && !(path == "/../sub/a.html" && resp.StatusCode == 200) {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, code)
		}
	}
}

// The command prints its addresses. A client that trusts its authority can fetch from it. At
// the end it prints the number of faults.
func TestOriginCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := try(ctx, []string{"origin", "-listen", "127.0.0.1:0", "-tls", "127.0.0.1:0", "-ca", ca, "-fault", "short=1"}, out, io.Discard)
		out.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(in)
	var urls []string
	for len(urls) < 2 && lines.Scan() {
		base, _, _ := strings.Cut(lines.Text(), "/ ")
		urls = append(urls, base+"/size/100")
	}
	if len(urls) != 2 || !strings.HasPrefix(urls[0], "http://") || !strings.HasPrefix(urls[1], "https://") {
		t.Fatalf("the origin printed the addresses %q (%v), want one of http and one of https", urls, <-ended)
	}
	var stdout, stderr strings.Builder
	if code := Main(append([]string{"http", "-p", "1", "-f", "4", "-order", "order", "-ca", ca}, urls...), &stdout, &stderr); code != 0 {
		t.Fatalf("load http exited with %d: %s", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), "4 short body") {
		t.Errorf("the report lacks 4 short bodies:\n%s", stdout.String())
	}
	cancel()
	rest := ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if err := <-ended; err != nil || rest != "fault short: 4 answers\n" {
		t.Errorf("the origin ended with %v and printed %q", err, rest)
	}
}

// stream is a connection that plays bytes back in pieces of odd sizes.
type stream struct {
	net.Conn
	rest []byte
	step int
}

func (s *stream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), s.step)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
func (s *stream) Write(b []byte) (int, error)   { return len(b), nil }
func (s *stream) SetDeadline(t time.Time) error { return nil }
func (s *stream) Close() error                  { return nil }

func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.0 200 OK\r\n\r\nabc",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 2x0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", "ICY 200 OK\r\n\r\n",
	} {
		f.Add([]byte(s), byte(1))
		f.Add([]byte(s), byte(200))
	}
	f.Fuzz(func(t *testing.T, answer []byte, step byte) {
		g, err := New(Config{URLs: []string{"http://127.0.0.1/"}, Parallel: 1, Fetches: 1, KeepAlive: true})
		if err != nil {
			t.Fatal(err)
		}
		g.tallies = newTallies()[:1]
		w := newWorker(context.Background(), g, 0)
		defer w.stop()
		w.nc, w.end = &stream{rest: answer, step: int(step)%64 + 1}, g.targets[0].end
		s := sample{}
		err = w.exchange(g.targets[0], &s, time.Now())
		if w.count > int64(len(answer)) {
			t.Errorf("the worker counted %d bytes of body in an answer of %d bytes", w.count, len(answer))
		}
		if err == nil && (s.code < 200 || s.code > 999) {
			t.Errorf("an answer with the code %d was accepted", s.code)
		}
	})
}

func FuzzReadURLs(f *testing.F) {
	f.Add("http://127.0.0.1/\n\nhttps://x:1/y?z\n")
	f.Add("ftp://x\n")
	f.Add("http://[::1]:x/\n")
	f.Fuzz(func(t *testing.T, text string) {
		urls, err := ReadURLs(strings.NewReader(text), "f")
		if err == nil && len(urls) == 0 {
			t.Error("ReadURLs returned neither URLs nor an error")
		}
	})
}

// A request on a kept-alive connection allocates nothing.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	g, err := New(Config{URLs: []string{"http://127.0.0.1/"}, Parallel: 1, Fetches: 1, KeepAlive: true})
	if err != nil {
		t.Fatal(err)
	}
	g.tallies = newTallies()[:1]
	w := newWorker(context.Background(), g, 0)
	defer w.stop()
	answer := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 10\r\nConnection: keep-alive\r\n\r\n0123456789")
	s := &stream{step: 1 << 20}
	w.nc, w.end = s, g.targets[0].end
	w.do(0, time.Time{})
	if n := testing.AllocsPerRun(100, func() {
		s.rest = answer
		w.nc, w.end = s, g.targets[0].end
		w.do(0, time.Time{})
	}); n != 0 {
		t.Errorf("a fetch allocates %g times, want 0", n)
	}
}
