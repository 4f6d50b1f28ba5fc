package web_test

import (
	"net/http"
	"strings"
	"testing"

	"shuultuur/test/race"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
)

// slow reports whether a route takes long.
func slow(r web.Route) bool {
	return strings.HasPrefix(r.Path, "/debug/") || strings.Contains(r.Path, "live")
}

func TestEveryPathIsForItsRolesOnly(t *testing.T) {
	h := admintest.NewHouse(t)
	all := admintest.Table(h.Parts)
	if len(all) < 40 {
		t.Fatalf("the table has only %d routes", len(all))
	}
	for _, r := range all {
		if strings.HasPrefix(r.Path, "/debug/") && r.Role != web.Operator {
			t.Errorf("%s %s is permitted to %v, want operators only", r.Method, r.Path, r.Role)
		}
		if r.Role == web.Anyone && strings.HasPrefix(r.Path, "/setup") {
			continue // the link permits it once: see TestWhoeverHasNoTokenGetsNothing
		}
		if r.Method != "GET" && r.Role < web.Viewer && !strings.HasPrefix(r.Path, "/login") {
			t.Errorf("%s %s changes something and is permitted to anyone", r.Method, r.Path)
		}
		for _, as := range append([]account.Role{account.None}, account.Roles...) {
			may := as >= web.Least[r.Role] || r.Role <= web.Monitor
			if may && (slow(r) || r.Method != "GET") {
				continue // its effect is tested elsewhere
			}
			w := h.Ask(as, r.Method, admintest.Target(r), "")
			want := http.StatusForbidden
			if as == account.None {
				want = http.StatusUnauthorized
			}
			if refused := w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized; refused == may || !may && w.Code != want {
				t.Errorf("%s %s as %v: status %d, %s", r.Method, r.Path, as, w.Code, w.Body)
			}
		}
	}
}

func TestEveryChangeRefusesWrongOriginHostRoleAndToken(t *testing.T) {
	race.Without(t)
	h := admintest.NewHouse(t)
	elsewhere := func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1234" }
	n := 0
	for _, r := range admintest.Table(h.Parts) {
		if r.Method == "GET" {
			continue
		}
		n++
		before := admintest.Entries(t, h)
		for name, c := range map[string]struct {
			as     account.Role
			status int
			change func(*http.Request)
		}{
			"Origin":        {account.Owner, 403, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }},
			"Origin null":   {account.Owner, 403, func(r *http.Request) { r.Header.Set("Origin", "null") }},
			"Sec-Fetch":     {account.Owner, 403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }},
			"same site":     {account.Owner, 403, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
			"Host":          {account.Owner, 403, func(r *http.Request) { r.Host = "rebound.example" }},
			"nobody":        {account.None, 401, func(*http.Request) {}},
			"cookie":        {account.None, 401, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: web.CookieName, Value: "guess"}) }},
			"token":         {account.None, 401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }},
			"token, cookie": {account.Owner, 401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }},
			"elsewhere":     {account.None, 401, elsewhere},
		} {
			if r.Role == web.Anyone && c.status == 401 {
				continue
			}
			h.Site = admin.New(h.Parts) // it has counted no wrong token
			if w := h.Ask(c.as, r.Method, admintest.Target(r), "who=&for=1m", c.change); w.Code != c.status {
				t.Errorf("%s %s with a wrong %s: status %d, %s, want %d", r.Method, r.Path, name, w.Code, w.Body, c.status)
			}
		}
		if admintest.Entries(t, h) != before || len(h.Paused) > 0 {
			t.Errorf("%s %s was carried out although it was refused", r.Method, r.Path)
		}
	}
	if n < 20 {
		t.Errorf("the table has only %d routes that change something", n)
	}
	// The same request with everything right passes.
	if w := h.Ask(account.Owner, "POST", "/pause", "for=1m", func(r *http.Request) {
		r.Host = "filter.example"
		r.Header.Set("Origin", "http://filter.example")
	}); w.Code != 200 {
		t.Errorf("a pause with everything right: status %d, %s", w.Code, w.Body)
	}
}

func tells(r web.Route) bool { ok, _ := r.HasDryRun(); return ok }

// A request that only asks for the effect must change nothing: a route shows the effect or
// refuses.
func TestDryRunChangesNothingOnAnyRoute(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, r := range admintest.Table(h.Parts) {
		if r.Method == "GET" || r.Role == web.Anyone && strings.HasPrefix(r.Path, "/setup") || tells(r) {
			continue
		}
		for _, c := range []struct{ query, form string }{{"?dry_run=true", "who=&for=1m"}, {"?dry_run=1", ""}, {"", "who=&for=1m&dry_run=true"}, {"", "who=&dry_run=yes&for=1m"}} {
			if w := h.Ask(account.Owner, r.Method, admintest.Target(r)+c.query, c.form); w.Code != 400 || !strings.Contains(w.Body.String(), "dry_run") {
				t.Errorf("%s %s%s with %q: status %d, want 400 and dry_run: %s", r.Method, r.Path, c.query, c.form, w.Code, w.Body)
			}
		}
	}
	if len(h.Paused)+len(h.Given) > 0 {
		t.Errorf("requests for the effect alone paused %q, and gave time to %q", h.Paused, h.Given)
	}
	if w := h.Ask(account.None, "POST", "/setup/you?dry_run=true", "token=x"); w.Code != 400 || !strings.Contains(w.Body.String(), "dry_run") {
		t.Errorf("/setup/you with dry_run: status %d, want 400 and dry_run: %s", w.Code, w.Body)
	}
	if w := h.Ask(account.Owner, "POST", "/pause", "who=&for=1m&dry_run=false"); w.Code != 200 || len(h.Paused) != 1 {
		t.Errorf("a pause with dry_run=false: status %d, %s, paused %q", w.Code, w.Body, h.Paused)
	}
}
