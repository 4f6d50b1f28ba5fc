package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
)

func handler(ready bool) *Server {
	return New(Parts{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Health:  func() Health { return Health{Ready: ready, Revision: "abc", Problems: []string{"a list is old"}} },
	})
}

func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		path, host string
		ready      bool
		status     int
		contains   string
	}{
		{"/metrics", "127.0.0.1:8081", true, 200, "metric 1"},
		{"/health", "localhost:8081", false, 200, `"problems":["a list is old"]`},
		{"/ready", "[::1]:8081", true, 200, `"ready":true`},
		{"/ready", "127.0.0.1", false, 503, `"ready":false`},
		{"/debug/pprof/", "127.0.0.1", true, 200, "goroutine"},
		{"/debug/pprof/cmdline", "127.0.0.1", true, 200, "admin.test"},
		{"/", "127.0.0.1", true, 200, "/metrics"},
		{"/nothing", "127.0.0.1", true, 404, ""},
		{"/metrics", "rebound.example", true, 403, "by address"},
		{"/debug/pprof/", "localhost.evil.example:8081", true, 403, "by address"},
	} {
		r := httptest.NewRequest("GET", "http://x"+c.path, nil)
		r.Host, r.RemoteAddr = c.host, "127.0.0.1:5000"
		w := httptest.NewRecorder()
		handler(c.ready).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("GET %s from %q: status %d, %q; want %d with %q", c.path, c.host, w.Code, w.Body, c.status, c.contains)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://127.0.0.1/metrics", nil)
	handler(true).ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: got %d, want 405", w.Code)
	}
}

func TestProfilesAreForThisMachineOrATokenHolder(t *testing.T) {
	for _, c := range []struct {
		remote, token, auth string
		status              int
	}{
		{"127.0.0.1:5000", "", "", 200},
		{"[::1]:5000", "open sesame", "", 200},
		{"[::ffff:127.0.0.1]:5000", "", "", 200},
		{"192.0.2.1:5000", "", "", 403},
		{"192.0.2.1:5000", "", "Bearer ", 403},
		{"192.0.2.1:5000", "open sesame", "", 401},
		{"192.0.2.1:5000", "open sesame", "Bearer open", 401},
		{"192.0.2.1:5000", "open sesame", "open sesame", 401},
		{"192.0.2.1:5000", "open sesame", "Bearer open sesame", 200},
		{"nonsense", "", "", 403},
	} {
		for path, status := range map[string]int{"/debug/pprof/cmdline": c.status, "/debug/pprof/mutex": c.status, "/metrics": c.status, "/health": c.status, "/": c.status} {
			h := New(Parts{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Health: func() Health { return Health{} }, Token: c.token})
			r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
			r.RemoteAddr = c.remote
			r.Header.Set("Authorization", c.auth)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != status {
				t.Errorf("GET %s from %s with token %q, %q: got %d, want %d", path, c.remote, c.token, c.auth, w.Code, status)
			}
		}
	}
}

func TestWaitsAreSampledForAWhileOnly(t *testing.T) {
	h := handler(true)
	get := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, bad := range []string{"0", "-1", "x", "301"} {
		if w := get("/debug/pprof/block?seconds=" + bad); w.Code != http.StatusBadRequest {
			t.Errorf("seconds=%s: got %d, want 400", bad, w.Code)
		}
	}
	// A goroutine waits while the profile is taken.
	stop := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	})
	first := make(chan *httptest.ResponseRecorder)
	for range 2 {
		go func() { first <- get("/debug/pprof/block?seconds=1") }()
	}
	a, b := <-first, <-first
	close(stop)
	waiter.Wait()
	if a.Code != http.StatusConflict || b.Code != http.StatusOK {
		t.Errorf("two profiles at once: status %d and %d, want 409 and 200", a.Code, b.Code)
	}
	if before := runtime.SetMutexProfileFraction(-1); before != 0 {
		t.Errorf("after the profile mutex sampling is %d, want 0", before)
	}
	if z, err := gzip.NewReader(b.Body); err != nil {
		t.Errorf("the profile is not gzip: %v", err)
	} else if data, err := io.ReadAll(z); err != nil || !bytes.Contains(data, []byte("TestWaitsAreSampled")) {
		t.Errorf("the profile lacks the function that waited: %v", err)
	}
}

func TestServeStopsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, nil, handler(true)) }()
	res, err := http.Get("http://" + l.Addr().String() + "/health")
	if err != nil {
		t.Fatal(err)
	}
	var h Health
	if err := json.NewDecoder(res.Body).Decode(&h); err != nil || h.Revision != "abc" {
		t.Errorf("/health says %+v, %v", h, err)
	}
	res.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve after its context ended: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the address still accepts connections after Serve returned")
	}
}

func TestQuotasAreOfTheClientThatIsNamed(t *testing.T) {
	h := New(Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{} },
		Quotas: func(_ context.Context, policy string, addr netip.Addr, user string) Quotas {
			return Quotas{Policy: policy, User: user, Quotas: []filter.Balance{{Of: addr.String(), Text: "25m left of 1h"}}}
		}})
	for query, want := range map[string]string{
		"client=10.1.2.3": `200 {"policy":"","user":"","quotas":[{"of":"10.1.2.3"`,
		"client=::ffff:10.1.2.3&user=anna&policy=p1": `200 {"policy":"p1","user":"anna","quotas":[{"of":"10.1.2.3"`,
		"client=anna": `400 client="anna" is not an address`,
		"":            `400 client="" is not an address`,
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1/quotas?"+query, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestTheRootIsForEverybodyAndItsKeyForNobody(t *testing.T) {
	root, err := intercept.NewRoot(intercept.RootConfig{Name: "Filter of the <School>"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(root *intercept.Root, path string) *httptest.ResponseRecorder {
		h := New(Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{} }, Token: "0123456789abcdef",
			Root: func() *intercept.Root { return root }, Refusals: func() any { return []string{"secret.test"} },
			Quotas: func(context.Context, string, netip.Addr, string) Quotas { return Quotas{User: "secret.test"} }})
		r := httptest.NewRequest("GET", "http://192.0.2.1"+path, nil)
		r.RemoteAddr = "192.0.2.7:5000" // no login is needed, even from another machine
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	long, _ := intercept.Fingerprints(root.Certificate)
	for _, tt := range []struct {
		path     string
		status   int
		contains string
	}{
		{"/ca", 200, long},
		{"/ca", 200, "Filter of the &lt;School&gt;"},
		{"/ca", 200, "Certificate Trust Settings"},
		{"/ca/root.pem", 200, "BEGIN CERTIFICATE"},
		{"/ca/root.crt", 200, "BEGIN CERTIFICATE"},
		{"/ca/root.cer", 200, string(root.Certificate.Raw)},
		{"/ca/root.mobileconfig", 200, "com.apple.security.root"},
		{"/ca/root.key", 404, ""},
		{"/ca/..%2froot.pem", 404, ""},
		{"/refusals", 401, ""},
		{"/quotas?client=10.1.2.3", 401, ""},
	} {
		w := ask(root, tt.path)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
			t.Errorf("%s: status %d, want %q in %s", tt.path, w.Code, tt.contains, w.Body)
		}
		if strings.Contains(w.Body.String(), "PRIVATE") || strings.Contains(w.Body.String(), "secret.test") {
			t.Errorf("%s reveals secrets or hosts", tt.path)
		}
	}
	if w := ask(root, "/ca"); w.Header().Get("Cache-Control") != "no-store" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-ancestors 'none'") || strings.Contains(w.Body.String(), "/events") {
		t.Errorf("the page of the certificate lacks headers, or leads to other pages: %v", w.Header())
	}
	if w := ask(nil, "/ca"); w.Code != 200 || !strings.Contains(w.Body.String(), "nothing to install") {
		t.Errorf("/ca without a root: status %d, %s", w.Code, w.Body)
	}
	if w := ask(nil, "/ca/root.pem"); w.Code != 404 {
		t.Errorf("/ca/root.pem without a root: status %d, want 404", w.Code)
	}
}

func TestMetricsAndHealthAreForTheNetworksNamed(t *testing.T) {
	h := New(Parts{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Health: func() Health { return Health{Ready: true} },
		Monitors: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	for remote, want := range map[string]map[string]int{
		"192.0.2.7:5000":    {"/metrics": 200, "/health": 200, "/ready": 200, "/debug/pprof/cmdline": 403, "/statistics": 403, "/": 403},
		"198.51.100.7:5000": {"/metrics": 403, "/health": 403, "/ready": 403},
	} {
		for path, status := range want {
			r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
			r.RemoteAddr = remote
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != status {
				t.Errorf("%s for %s: got %d, want %d", path, remote, w.Code, status)
			}
		}
	}
}

// TestEveryRouteRefusesStrangers sends a request to every route as a client without a token,
// with a wrong one, from a page of another origin, and under a foreign host name.
func TestEveryRouteRefusesStrangers(t *testing.T) {
	p := Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{} }, Token: "0123456789abcdef", Events: &Events{}, Lists: &Lists{}, Pause: &Pause{},
		Rulings: &Rulings{}, Settings: &Settings{}, Explain: func(context.Context, Question) (*Explanation, error) { return nil, nil }, Live: &Live{},
		Root: func() *intercept.Root { return nil }, Refusals: func() any { return nil }, Quotas: func(context.Context, string, netip.Addr, string) Quotas { return Quotas{} }}
	for _, x := range p.routes() {
		ask := func(change func(*http.Request)) int {
			r := httptest.NewRequest(x.method, "https://192.0.2.1"+strings.NewReplacer("{$}", "", "{name}", "own", "{file}", "root.pem", "{id}", "1", "{digest}", "0", "{name}", "own").Replace(x.path), nil)
			r.RemoteAddr = "198.51.100.7:5000"
			change(r)
			w := httptest.NewRecorder()
			New(p).ServeHTTP(w, r)
			return w.Code
		}
		if x.role != anyone {
			if got := ask(func(*http.Request) {}); got != 401 {
				t.Errorf("%s %s without a token: status %d, want 401", x.method, x.path, got)
			}
			if got := ask(func(r *http.Request) { r.SetBasicAuth("", "0123456789abcdeF") }); got != 401 {
				t.Errorf("%s %s with a wrong token: status %d, want 401", x.method, x.path, got)
			}
		}
		if got := ask(func(r *http.Request) { r.Host, r.RemoteAddr = "rebound.example", "127.0.0.1:5000" }); got != 403 {
			t.Errorf("%s %s under another host name: status %d, want 403", x.method, x.path, got)
		}
		if x.method == "GET" {
			continue
		}
		if got := ask(func(r *http.Request) {
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Origin", "https://evil.example")
		}); got != 403 {
			t.Errorf("%s %s from another origin: status %d", x.method, x.path, got)
		}
	}
}

func TestWrongTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Parts{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Token: "0123456789abcdef"})
		ask := func(remote, token string) int {
			r := httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil)
			r.RemoteAddr = remote
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		for i := range maxTries {
			if got := ask("[2001:db8::"+strconv.Itoa(i)+"]:5000", "wrong"); got != 401 {
				t.Fatalf("wrong token %d: status %d, want 401", i, got)
			}
		}
		for _, c := range []struct {
			remote, token string
			want          int
		}{
			{"[2001:db8::99]:5000", "wrong", 429},
			{"[2001:db8::99]:5000", "0123456789abcdef", 429},
			{"[2001:db8::99]:5000", "", 401},
			{"[2001:db8:0:1::1]:5000", "0123456789abcdef", 200}, // another network
			{"127.0.0.1:5000", "wrong", 200},                    // this machine
		} {
			if got := ask(c.remote, c.token); got != c.want {
				t.Errorf("from %s with %q: status %d, want %d", c.remote, c.token, got, c.want)
			}
		}
		time.Sleep(tryTime)
		if got := ask("[2001:db8::99]:5000", "0123456789abcdef"); got != 200 {
			t.Errorf("the right token after the bar ended: status %d, want 200", got)
		}
		for i := range 2 * maxBarred {
			ask(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String()+":1", "wrong")
		}
		if n := len(h.wrong.since); n > maxBarred {
			t.Errorf("%d clients are remembered, more than maxBarred", n)
		}
	})
}

func TestBeyondLoopbackTLSIsSpoken(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := Serve(t.Context(), l, nil, handler(true)); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("serving other machines without a certificate: %v, want an error", err)
	}
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, &tls.Config{Certificates: cert.TLS.Certificates}, handler(true)) }()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	if res, err := cert.Client().Get("https://127.0.0.1:" + port + "/health"); err != nil || res.StatusCode != 200 {
		t.Errorf("GET /health over TLS: %v", err)
	}
	if res, err := http.Get("http://127.0.0.1:" + port + "/health"); err == nil && res.StatusCode == 200 {
		t.Error("an address for other machines answers without TLS")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestProfilesAreThoseThatToolsAskFor uses the paths and parameters of net/http/pprof.
func TestProfilesAreThoseThatToolsAskFor(t *testing.T) {
	h := handler(true)
	for path, want := range map[string]struct {
		status int
		begins string
	}{
		"/debug/pprof/heap?gc=1":                {200, "\x1f\x8b"},
		"/debug/pprof/goroutine?debug=2":        {200, "goroutine "},
		"/debug/pprof/allocs?seconds=0.05":      {200, "\x1f\x8b"},
		"/debug/pprof/profile?seconds=0.05":     {200, "\x1f\x8b"},
		"/debug/pprof/trace?seconds=0.05":       {200, "go 1."},
		"/debug/pprof/nothing":                  {404, "there is no profile \"nothing\""},
		"/debug/pprof/heap?seconds=many":        {400, "seconds=\"many\" is not a number"},
		"/debug/pprof/profile?seconds=NaN":      {400, "seconds=\"NaN\" is not a number"},
		"/debug/pprof/goroutine?seconds=100000": {400, "seconds=\"100000\" is not a number"},
	} {
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:5000"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want.status || !strings.HasPrefix(w.Body.String(), want.begins) {
			t.Errorf("%s: status %d, %.60q; want %d and the beginning %q", path, w.Code, w.Body, want.status, want.begins)
		}
	}
}
