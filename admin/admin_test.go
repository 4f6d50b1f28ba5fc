package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/clients"
	"shuultuur/admin/exception"
	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/settings"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/filter"
	"shuultuur/intercept"
)

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
		admintest.Handler(c.ready).ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("GET %s from %q: status %d, %q; want %d with %q", c.path, c.host, w.Code, w.Body, c.status, c.contains)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://127.0.0.1/metrics", nil)
	admintest.Handler(true).ServeHTTP(w, r)
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
			h := admin.New(admin.Parts{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: c.token}})
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

func TestQuotasAreOfTheClientThatIsNamed(t *testing.T) {
	h := admin.New(admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} },
		Quotas: func(_ context.Context, policy string, addr netip.Addr, user string) clients.Quotas {
			return clients.Quotas{Policy: policy, User: user, Quotas: []filter.Balance{{Of: addr.String(), Text: "25m left of 1h"}}}
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

func TestMetricsAndHealthAreForTheNetworksNamed(t *testing.T) {
	h := admin.New(admin.Parts{Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Health: func() system.Health { return system.Health{Ready: true} },
		Shared: web.Shared{Monitors: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}})
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
	p := admin.Parts{Metrics: http.NotFoundHandler(), Health: func() system.Health { return system.Health{} }, Shared: web.Shared{Token: "0123456789abcdef"}, Events: &web.Record{}, Lists: &lists.Lists{}, Pause: &exception.Pause{},
		Decisions: &exception.Decisions{}, Settings: &settings.Settings{}, Explain: func(context.Context, why.Question) (*why.Explanation, error) { return nil, nil }, Live: &home.Live{},
		Root: func() *intercept.Root { return nil }, Refusals: func() any { return nil }, Quotas: func(context.Context, string, netip.Addr, string) clients.Quotas { return clients.Quotas{} }}
	for _, x := range admintest.Table(p) {
		ask := func(change func(*http.Request)) int {
			r := httptest.NewRequest(x.Method, "https://192.0.2.1"+strings.NewReplacer("{$}", "", "{name}", "own", "{file}", "root.pem", "{id}", "1", "{digest}", "0", "{name}", "own").Replace(x.Path), nil)
			r.RemoteAddr = "198.51.100.7:5000"
			change(r)
			w := httptest.NewRecorder()
			admin.New(p).ServeHTTP(w, r)
			return w.Code
		}
		if x.Role != web.Anyone {
			if got := ask(func(*http.Request) {}); got != 401 {
				t.Errorf("%s %s without a token: status %d, want 401", x.Method, x.Path, got)
			}
			if got := ask(func(r *http.Request) { r.SetBasicAuth("", "0123456789abcdeF") }); got != 401 {
				t.Errorf("%s %s with a wrong token: status %d, want 401", x.Method, x.Path, got)
			}
		}
		if got := ask(func(r *http.Request) { r.Host, r.RemoteAddr = "rebound.example", "127.0.0.1:5000" }); got != 403 {
			t.Errorf("%s %s under another host name: status %d, want 403", x.Method, x.Path, got)
		}
		if x.Method == "GET" {
			continue
		}
		if got := ask(func(r *http.Request) {
			r.RemoteAddr = "127.0.0.1:5000"
			r.Header.Set("Origin", "https://evil.example")
		}); got != 403 {
			t.Errorf("%s %s from another origin: status %d", x.Method, x.Path, got)
		}
	}
}

// TestThePagesLeadWhereTheyMay: no user gets a link to a page that refuses the
// user.
func TestThePagesLeadWhereTheyMay(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, r := range account.Roles {
		page := h.Ask(r, "GET", "/why", "", func(q *http.Request) { q.Header.Set("Accept", "text/html") }).Body.String()
		if r < account.Viewer {
			continue
		}
		if !strings.Contains(page, `href="/events"`) {
			t.Errorf("the page of a user with the role %v has no link to the record", r)
		}
		if got, want := strings.Contains(page, `href="/system"`), r >= account.Operator; got != want {
			t.Errorf("the page of a user with the role %v has a link to the system: %v, want the opposite", r, got)
		}
		for _, l := range admintest.Table(h.Parts) {
			if l.Link == nil {
				continue
			}
			path := strings.TrimSuffix(l.Path, "{$}")
			if !strings.Contains(page, `<a href="`+path+`"`) {
				continue
			}
			if code := h.Ask(r, "GET", path, "").Code; code == 403 || code == 401 {
				t.Errorf("the page of a user with the role %v links to %s, which answers with status %d", r, path, code)
			}
		}
	}
}
