package health

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/lib/wait/waittest"
	"shuultuur/test/redistest"
)

var local = netip.MustParseAddr("127.0.0.1")

func listen(t *testing.T, address string) (net.Listener, uint16) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no %s here: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	return l, uint16(l.Addr().(*net.TCPAddr).Port)
}

func serve(t *testing.T, address string, h http.HandlerFunc) (*httptest.Server, uint16) {
	t.Helper()
	l, port := listen(t, address)
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Listener.Close()
	s.Listener = l
	t.Cleanup(s.Close)
	return s, port
}

func TestProbes(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
	}
	var asked sync.Map
	web, webPort := serve(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Method+" "+r.Host+r.URL.String(), true)
		switch r.URL.Path {
		case "/get-only":
			if r.Method != http.MethodGet {
				status(405)(w, r)
			}
		case "/moved":
			http.Redirect(w, r, "/gone", http.StatusFound)
		case "/gone":
			status(410)(w, r)
		case "/slow":
			<-r.Context().Done()
		}
	})
	web.Start()
	six, sixPort := serve(t, "[::1]:0", status(204))
	six.Start()
	secure, securePort := serve(t, "127.0.0.1:0", status(200))
	secure.StartTLS()
	_, tcpPort := listen(t, "127.0.0.1:0")
	closed, closedPort := listen(t, "127.0.0.1:0")
	closed.Close()

	p := newProber(false)
	p.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	p.transport.TLSClientConfig.RootCAs.AddCert(secure.Certificate())

	for _, c := range []struct {
		what  string
		check Check
		want  string // in the error; "" is good
	}{
		{"HEAD", Check{Host: "www.example.com.", Port: webPort, URI: "/hc?a=b"}, ""},
		{"HEAD is refused, GET is not", Check{Host: "www.example.com.", Port: webPort, URI: "/get-only"}, ""},
		{"redirections are good and not followed", Check{Host: "www.example.com.", Port: webPort, URI: "/moved"}, ""},
		{"a bad status", Check{Host: "www.example.com.", Port: webPort, URI: "/gone"}, "status 410"},
		{"no answer", Check{Host: "www.example.com.", Port: webPort, URI: "/slow"}, "deadline"},
		{"nobody listens", Check{Host: "www.example.com.", Port: closedPort}, "refused"},
		{"IPv6", Check{Host: "www.example.com.", Addr: netip.IPv6Loopback(), Port: sixPort}, ""},
		{"a certificate for the name", Check{Host: "example.com.", Protocol: HTTPS, Port: securePort}, ""},
		{"a certificate for another name", Check{Host: "www.example.net.", Protocol: HTTPS, Port: securePort}, "certificate"},
		{"plain HTTP where TLS is", Check{Host: "example.com.", Port: securePort}, "400"},
		{"tcp", Check{Protocol: TCP, Port: tcpPort}, ""},
		{"tcp, closed", Check{Protocol: TCP, Port: closedPort}, "refused"},
	} {
		if !c.check.Addr.IsValid() {
			c.check.Addr = local
		}
		if err := c.check.complete(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := p.probe(ctx, &c.check)
		cancel()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: probe returned %v, want %q", c.what, err, c.want)
		}
	}
	if _, ok := asked.Load(fmt.Sprintf("HEAD www.example.com:%d/hc?a=b", webPort)); !ok {
		asked.Range(func(k, _ any) bool { t.Log(k); return true })
		t.Error("the server did not get the method, Host, port and path of the check")
	}
	insecure := newProber(true)
	check := Check{Host: "www.example.net.", Addr: local, Protocol: HTTPS, Port: securePort, URI: "/"}
	if err := insecure.probe(t.Context(), &check); err != nil {
		t.Errorf("probe with insecure: got %v, want any certificate accepted", err)
	}
}

func TestPing(t *testing.T) {
	for _, a := range []netip.Addr{local, netip.IPv6Loopback()} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := ping(ctx, a)
		cancel()
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "not permitted"):
			if !strings.Contains(err.Error(), "CAP_NET_RAW") {
				t.Errorf("error %v does not say what to do", err)
			}
		case a.Is6():
			t.Logf("no IPv6 here: %v", err)
		default:
			t.Error(err)
		}
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := ping(late, local); err == nil {
		t.Error("ping accepted a reply after the deadline")
	}
	if err := ping(t.Context(), netip.MustParseAddr("255.255.255.255")); err == nil {
		t.Error("ping of the broadcast address succeeded")
	}
}

func TestChecksThatMakeNoSenseAreRefused(t *testing.T) {
	for _, c := range []Check{
		{Protocol: "gopher"}, {Protocol: TCP}, {URI: "http://elsewhere/"}, {URI: "/a b"}, {Timeout: -1}, {Timeout: time.Hour},
		{Up: -1}, {Down: 1}, {Up: 5000},
	} {
		if err := c.complete(); err == nil {
			t.Errorf("complete accepted %+v", c)
		}
	}
	c := Check{Protocol: "icmp"}
	if err := c.complete(); err != nil || c.Protocol != Ping || c.Up != 3 || c.Down != -3 || c.Timeout != time.Second {
		t.Errorf("complete without settings: got %+v, %v", c, err)
	}
	for _, cfg := range []Config{{Interval: setting.Duration(time.Millisecond)}, {Concurrent: -1}} {
		_, err := New(cfg, "", "", nil, slog.New(slog.DiscardHandler))
		var named *setting.Error
		if !errors.As(err, &named) {
			t.Errorf("New(%+v): error %v names no setting", cfg, err)
		}
	}
}

// checker makes one whose probes are ours.
func checker(t *testing.T, interval time.Duration, probe func(context.Context, *Check) error) *Checker {
	t.Helper()
	c, err := New(Config{Concurrent: 4}, "p:", ":s", nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.interval, c.probe = interval, probe
	return c
}

func start(t *testing.T, c *Checker, client *redis.Client) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx, client, 0) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func watch(t *testing.T, c *Checker, check Check) *Status {
	t.Helper()
	s, err := c.Watch(check)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStatusCountsUpAndDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bad atomic.Bool
		c := checker(t, 10*time.Second, func(context.Context, *Check) error {
			if bad.Load() {
				return errors.New("bad")
			}
			return nil
		})
		s := watch(t, c, Check{Host: "a.", Addr: local, Up: 3, Down: -2})
		stop := start(t, c, nil)
		defer stop()
		time.Sleep(5 * time.Second) // the first is within two seconds, the next after ten to eleven
		for i, step := range []struct {
			bad  bool
			want int32
		}{{false, 1}, {false, 2}, {false, 3}, {false, 3}, {true, -1}, {true, -2}, {true, -2}, {false, 1}, {true, -1}} {
			if i > 0 {
				bad.Store(step.bad)
				seen := c.Counts().Checks
				for c.Counts().Checks == seen {
					time.Sleep(time.Second)
				}
			}
			if got := s.Load(); got != step.want {
				t.Errorf("after check %d: got status %d, want %d", i+1, got, step.want)
			}
		}
		if n := c.Counts(); n.Checks != 9 || n.Failed != 4 || n.Late != 0 || n.Watched != 1 {
			t.Errorf("counts: got %+v", n)
		}
	})
}

func TestManyChecksSpreadAndAFewRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		var seen sync.Map
		c := checker(t, 20*time.Second, func(_ context.Context, check *Check) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			seen.Store(check.Host, true)
			return nil
		})
		var all []*Status
		for i := range 500 {
			all = append(all, watch(t, c, Check{Host: fmt.Sprintf("%d.", i), Addr: local}))
		}
		stop := start(t, c, nil)
		defer stop()
		time.Sleep(10 * time.Second)
		n := 0
		seen.Range(func(any, any) bool { n++; return true })
		if n != 500 || most.Load() != 4 {
			t.Errorf("%d of 500 were checked, %d at once; want 4 at most", n, most.Load())
		}
		for _, s := range all {
			c.Drop(s)
		}
		before := c.Counts().Checks
		time.Sleep(time.Minute)
		if n := c.Counts(); n.Checks != before || n.Watched != 0 {
			t.Errorf("a dropped address is still checked: %+v", n)
		}
	})
}

func TestANameWatchedTwiceIsCheckedOnce(t *testing.T) {
	c := checker(t, time.Hour, nil)
	a := watch(t, c, Check{Host: "a.", Addr: local})
	b := watch(t, c, Check{Host: "a.", Addr: local, URI: "/new"})
	if a != b || c.Counts().Watched != 1 || a.it.check.URI != "/new" {
		t.Errorf("two Watch calls for one address: got statuses %p and %p, counts %+v", a, b, c.Counts())
	}
	c.Drop(a)
	if c.Counts().Watched != 1 {
		t.Error("one Drop of two ended the check")
	}
	c.Drop(b)
	c.Drop(nil)
	if c.Counts().Watched != 0 || (*Status)(nil).Load() != 0 {
		t.Error("the address is still watched after the last Drop, or a nil Status is not 0")
	}
}

func connect(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	c, err := redis.Connect(t.Context(), redis.Config{Addresses: []string{s.Addr}}, redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAFleetChecksOnce(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "KA")
	var probes, both atomic.Int32
	probe := func(context.Context, *Check) error {
		if both.Add(1) > 1 {
			t.Error("two nodes probe at the same time")
		}
		probes.Add(1)
		time.Sleep(20 * time.Millisecond)
		both.Add(-1)
		return errors.New("down")
	}
	const interval = 300 * time.Millisecond
	var nodes []*Checker
	var all []*Status
	for range 3 {
		c := checker(t, interval, probe)
		all = append(all, watch(t, c, Check{Host: "www.example.com.", Addr: local, URI: "/hc", Port: 8080, DomainID: "id"}))
		nodes = append(nodes, c)
	}
	began := time.Now()
	for _, c := range nodes {
		start(t, c, connect(t, s))
	}
	for i := range all {
		waittest.Until(t, "every node knows", func() bool { return all[i].Load() == -3 })
	}
	if most := int32(time.Since(began)/interval) + 2; probes.Load() > most {
		t.Errorf("%d probes in %v: the fleet probes more than once per interval", probes.Load(), time.Since(began))
	}
	var shared uint64
	for _, c := range nodes {
		shared += c.Counts().Shared
	}
	if shared == 0 {
		t.Error("no node used a result of another one")
	}
	var rec map[string]any
	b, err := s.Do(t, "GET", "p:redins:healthcheck:www.example.com.:127.0.0.1:s").Bytes()
	if err != nil || json.Unmarshal(b, &rec) != nil {
		t.Fatalf("reading the result from Redis: %v: %s", err, b)
	}
	for k, want := range map[string]any{
		"protocol": "http", "uri": "/hc", "port": 8080.0, "status": -3.0, "timeout": 1000.0, "up_count": 3.0, "down_count": -3.0, "enable": true, "domain_uuid": "id",
		"host": "www.example.com.", "ip": "127.0.0.1",
	} {
		if rec[k] != want {
			t.Errorf("field %s in Redis is %v, want %v", k, rec[k], want)
		}
	}
	left := s.Do(t, "PTTL", "p:redins:healthcheck:www.example.com.:127.0.0.1:s")
	if ttl, err := left.Int(); err != nil || ttl <= 0 {
		t.Errorf("the result in Redis does not expire: TTL %v, error %v", ttl, err)
	}
}

func TestAResultOfRedinsIsUsed(t *testing.T) {
	s := redistest.Start(t, "--notify-keyspace-events", "KA")
	c := checker(t, time.Minute, func(context.Context, *Check) error { return nil })
	st := watch(t, c, Check{Host: "w0.healthcheck.com.", Addr: local})
	start(t, c, connect(t, s))
	waittest.Until(t, "the first check", func() bool { return st.Load() == 1 })
	put := func(status int, at time.Time) {
		s.Do(t, "SET", "p:redins:healthcheck:w0.healthcheck.com.:127.0.0.1:s", fmt.Sprintf(
			`{"enable":true,"protocol":"http","uri":"/uri0","port":80,"status":%d,"lastcheck":%q,"timeout":1000,"up_count":3,"down_count":-3,"domain_uuid":""}`,
			status, at.Format(time.RFC3339Nano)))
	}
	put(-2, time.Now())
	waittest.Until(t, "it is heard of", func() bool { return st.Load() == -2 })
	put(-99, time.Now())
	waittest.Until(t, "it is cut to down_count", func() bool { return st.Load() == -3 })
	// The second of two changes often comes while the first is looked at.
	for want := int32(-3); want <= 3; want++ {
		s.Do(t, "SET", "p:redins:healthcheck:w0.healthcheck.com.:127.0.0.1:s", "nonsense")
		put(int(want), time.Now())
		waittest.Until(t, "nonsense does no harm", func() bool { return st.Load() == want })
	}
}

func TestWithoutRedisEachNodeChecks(t *testing.T) {
	s := redistest.Start(t)
	var probes atomic.Int32
	c := checker(t, 50*time.Millisecond, func(context.Context, *Check) error { probes.Add(1); return nil })
	st := watch(t, c, Check{Host: "a.", Addr: local})
	client := connect(t, s)
	s.Stop()
	start(t, c, client)
	waittest.Until(t, "checks go on", func() bool { return st.Load() == 3 })
	if c.Counts().RedisErrors == 0 {
		t.Error("RedisErrors is 0 although Redis is away")
	}
	s.Restart(t)
	waittest.Until(t, "results are shared again", func() bool {
		m := s.Do(t, "EXISTS", "p:redins:healthcheck:a.:127.0.0.1:s")
		n, err := m.Int()
		return err == nil && n == 1
	})
}
