package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/metric/metrictest"
	"shuultuur/lib/setting"
)

// judge is a Decider that consists of two functions; either may be nil.
type judge struct {
	wants  func(t *filter.Transaction, s filter.Stage) bool
	decide func(t *filter.Transaction, s filter.Stage) filter.Verdict
}

func (j judge) Wants(t *filter.Transaction, s filter.Stage) bool {
	return j.wants != nil && j.wants(t, s)
}

func (j judge) Decide(_ context.Context, t *filter.Transaction, s filter.Stage) {
	if j.decide != nil {
		t.Verdict = j.decide(t, s)
	}
}

// record is the record of a transaction.
type record struct {
	ID, Host, URL, Note string
	Client              filter.Client
	Proto               filter.Proto
	Status              int
	In, Out, Looked     int64
	Action              filter.Action
	Category            string
	Minutes             string // since 1970, if it was ended
}

// A rig is a proxy that serves on a loopback port.
type rig struct {
	*Proxy
	t    *testing.T
	l    *listener
	addr string
	stop func() // and wait

	mu      sync.Mutex
	records []record
	arrived *sync.Cond
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func anybody(_ context.Context, addr netip.Addr, _ []byte) (filter.Client, error) {
	return filter.Client{Addr: addr}, nil
}

// start starts a proxy that may reach loopback.
func start(t *testing.T, cfg Config, e Engine) *rig {
	t.Helper()
	r := &rig{t: t, l: &listener{}}
	r.arrived = sync.NewCond(&r.mu)
	if cfg.Upstream.Private == nil {
		cfg.Upstream.Private = loopback
	}
	if cfg.ConnectPorts == nil {
		cfg.ConnectPorts = []string{"any"}
	}
	if cfg.Drain == 0 {
		cfg.Drain = setting.Duration(2 * time.Second)
	}
	if e.Decider == nil {
		e.Decider = judge{}
	}
	if e.Identify == nil {
		e.Identify = anybody
	}
	p, err := New(cfg, &e, func(x *filter.Transaction) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, record{x.ID, x.Host, x.URL, x.Note, x.Client, x.Proto, x.Status, x.BytesIn, x.BytesOut, x.Looked, x.Verdict.Action, x.Verdict.Reason.Finding.Category, minutesOf(x)})
		r.arrived.Broadcast()
	}, slog.New(slog.NewTextHandler(testWriter{t}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy = p
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.serve(ctx, ln, r.l) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := p.Stats().Held; n != 0 {
			t.Errorf("the proxy still holds %d bytes after the test", n)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// minutesOf returns the minutes of use of a transaction that was ended; others need no memory for them.
func minutesOf(x *filter.Transaction) string {
	if !strings.Contains(x.Note, "ended: ") {
		return ""
	}
	return x.Minutes.Text(0)
}

// stats are the counters of a proxy by their names in the tests.
type stats struct {
	Connections, ConnectionsOpen, ConnectionsFull, ConnectionsClient, NoTLS, Requests, Queued, Left, Overload, Malformed, Loops, Private,
	Tunnels, TunnelsOpen, Upgrades, Clicks, ClicksRefused, Judged, Abandoned, Cut, Partial, Held, Judging, JudgeWaiting,
	UpstreamReused, UpstreamNew, UpstreamIdle, UpstreamRetried, UpstreamFailed, Decrypted, CertRefused, ECH, Transparent, Misdirected, Panics int64
}

// Stats reads them as Prometheus does.
func (p *Proxy) Stats() (s stats) {
	by := map[string]*int64{
		"connections_total": &s.Connections, "connections": &s.ConnectionsOpen, "connections_full_total": &s.ConnectionsFull,
		"connections_client_full_total": &s.ConnectionsClient, "tls_refused_total": &s.NoTLS, "requests_total": &s.Requests,
		"requests_queued": &s.Queued, "requests_abandoned_total": &s.Left, "overload_total": &s.Overload, "malformed_total": &s.Malformed,
		"loops_total": &s.Loops, "private_refused_total": &s.Private, "tunnels_total": &s.Tunnels, "tunnels": &s.TunnelsOpen,
		"upgrades_total": &s.Upgrades, "warn_clicks_total": &s.Clicks, "warn_clicks_refused_total": &s.ClicksRefused,
		"bodies_judged_total": &s.Judged, "bodies_abandoned_total": &s.Abandoned, "bodies_cut_total": &s.Cut,
		"bodies_partial_total": &s.Partial, "held_bytes": &s.Held, "judging": &s.Judging, "judge_waiting": &s.JudgeWaiting,
		"upstream_reused_total": &s.UpstreamReused, "upstream_connections_total": &s.UpstreamNew, "upstream_idle": &s.UpstreamIdle,
		"upstream_retried_total": &s.UpstreamRetried, "upstream_failed_total": &s.UpstreamFailed, "tls_decrypted_total": &s.Decrypted,
		"tls_certificate_refused_total": &s.CertRefused, "tls_ech_total": &s.ECH, "transparent_connections_total": &s.Transparent,
		"transparent_misdirected_total": &s.Misdirected, "panics_total": &s.Panics,
	}
	all, err := metrictest.Read(p)
	if err != nil {
		panic(err)
	}
	for name, count := range all {
		if v := by[strings.TrimPrefix(name, "shuultuur_")]; v != nil {
			*v = int64(count)
			delete(by, strings.TrimPrefix(name, "shuultuur_"))
		}
	}
	if len(by) > 0 {
		panic(fmt.Sprint("no metrics for ", by))
	}
	return s
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { w.t.Logf("%s", p); return len(p), nil }

// wait returns the first n records.
func (r *rig) wait(n int) []record {
	r.t.Helper()
	timeout := time.AfterFunc(time.Minute, func() { r.mu.Lock(); defer r.mu.Unlock(); r.arrived.Broadcast() })
	defer timeout.Stop()
	begin := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.records) < n {
		if time.Since(begin) > time.Minute {
			r.t.Fatalf("%d transactions recorded within a minute, want %d: %+v", len(r.records), n, r.records)
		}
		r.arrived.Wait()
	}
	return slices.Clone(r.records[:n])
}

// client returns a net/http client that goes through the proxy.
func (r *rig) client() *http.Client {
	u := &url.URL{Scheme: "http", Host: r.addr}
	tr := &http.Transport{Proxy: http.ProxyURL(u), DisableCompression: true}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport:     tr,
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// raw opens a connection to the proxy.
func (r *rig) raw() (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	r.t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

// talk sends s on a new connection and returns everything that comes back
// until the proxy closes it.
func (r *rig) talk(s string) string {
	r.t.Helper()
	c, br := r.raw()
	io.WriteString(c, s)
	c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(br)
	return string(b)
}

func origin(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

func block(category string) filter.Verdict {
	return filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: "pupils", Rule: "no-" + category, Finding: filter.Finding{Check: "category", Category: category}}}
}

func TestGetPassesThroughAndBack(t *testing.T) {
	var saw *http.Request
	o := origin(t, func(w http.ResponseWriter, q *http.Request) {
		saw = q.Clone(context.Background())
		w.Header().Set("X-Origin", "yes")
		w.Header().Set("Connection", "X-Secret")
		w.Header().Set("X-Secret", "hop")
		w.Header().Set("Alt-Svc", `h3=":443"`)
		fmt.Fprint(w, "hello")
	})
	r := start(t, Config{Via: "gate", ViaResponses: "gate"}, Engine{})
	q, _ := http.NewRequest("GET", o.URL+"/a?b=c", nil)
	q.Header.Set("Proxy-Authorization", "Basic eDp5")
	q.Header.Set("Connection", "X-Mine")
	q.Header.Set("X-Mine", "hop")
	q.Header.Set("Cookie", "a=1; shuultuur=tok; b=2")
	res, err := r.client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(res.Body)
	if string(b) != "hello" || res.StatusCode != 200 {
		t.Errorf("got %d %q, want 200 hello", res.StatusCode, b)
	}
	for name, want := range map[string]string{"X-Origin": "yes", "X-Secret": "", "Alt-Svc": "", "Via": "1.1 gate"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("response field %s: got %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"Proxy-Authorization": "", "X-Mine": "", "Via": "1.1 gate", "Cookie": "a=1; b=2", "X-Forwarded-For": ""} {
		if got := saw.Header.Get(name); got != want {
			t.Errorf("request field %s: got %q, want %q", name, got, want)
		}
	}
	if saw.RequestURI != "/a?b=c" || saw.Host != strings.TrimPrefix(o.URL, "http://") {
		t.Errorf("the origin got target %q, host %q", saw.RequestURI, saw.Host)
	}
	got := r.wait(1)[0]
	if got.URL != o.URL+"/a?b=c" || got.Host != "127.0.0.1" || got.Status != 200 || got.Out != 5 || got.ID == "" || !got.Client.Addr.IsLoopback() {
		t.Errorf("record: %+v", got)
	}
}
