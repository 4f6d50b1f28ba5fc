package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/alert"
	"shuultuur/check"
	"shuultuur/check/picture"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/intercept"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
)

// memory is a record of a few rows.
type memory []event.Row

func (m memory) Query(_ context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		n := 0
		for _, r := range m {
			if !f.Match(&r) {
				continue
			}
			if n++; !yield(r, nil) || n == p.Limit {
				return
			}
		}
	}
}

func (m memory) Count(_ context.Context, questions ...event.Question) ([][]event.Tally, error) {
	c, err := event.NewCounter(questions)
	for i := range m {
		if err == nil {
			c.Add(&m[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return c.Tallies(), nil
}

// A house is an admin address with an account of each role.
type house struct {
	*Server
	parts  Parts
	cookie map[account.Role]string
	paused []string
	given  []string
	rules  Privacy
	dir    string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{cookie: map[account.Role]string{}, dir: t.TempDir(), rules: Privacy{URLs: account.Helper}}
	book, err := account.Open(account.Folder(h.dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Backward(account.Roles) {
		var groups []string
		if r == account.Helper {
			groups = []string{"7a"}
		}
		if err := book.Add("the-"+r.String(), r, groups, ""); err != nil {
			t.Fatal(err)
		}
		if h.cookie[r], err = book.Begin("the-"+r.String(), "passkey", account.Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	row := func(client, user, link string) event.Row {
		u, _ := url.Parse(link)
		return event.Row{Time: time.Now().Add(-time.Minute), ID: user + "-1", Client: netip.MustParseAddr(client), User: user, URL: link, Host: u.Host, Action: filter.Block, Evidence: link, Method: "GET"}
	}
	h.parts = Parts{
		Sessions: &Sessions{
			All:   func() []session.Session { return nil },
			Start: func(...session.Session) error { return nil },
			End:   func(...session.EndRequest) (int, error) { return 0, nil },
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Health:  func() Health { return Health{Ready: true} },
		Lists: &Lists{In: func() (*collection.Collection, *http.Client) { return new(collection.Collection), nil }, All: func() []List { return nil }, Search: func(string) ([]Hit, error) { return nil, nil },
			Change: func(context.Context, map[string][]list.Change) error { return nil }},
		Events: &Events{Reader: memory{row("10.0.0.1", "anna", "https://a.example/secret?q=1"), row("10.0.0.2", "ben", "https://b.example/other")}},
		Cache: &Cache{Stats: func() any { return map[string]int{} }, Look: func(string, [][2]string) (any, error) { return nil, errors.New("nothing") },
			Purge: func(string, string, time.Time, netip.Addr) error { return nil }},
		Pause: &Pause{All: func() []policy.Pause { return nil }, Set: func(who string, _ time.Time, _ netip.Addr) error {
			h.paused = append(h.paused, who)
			return nil
		}},
		Root:      func() *intercept.Root { return nil },
		Refusals:  func() any { return nil },
		Quotas:    func(context.Context, string, netip.Addr, string) Quotas { return Quotas{} },
		Token:     "the token of the settings",
		Live:      &Live{},
		Watching:  Watching{Alerts: func() *alert.Desk { return nil }, Pictures: &picture.Gallery{}},
		Rulings:   &Rulings{All: func() []policy.Decision { return nil }, Set: func(policy.Decision, netip.Addr) error { return nil }},
		Explain:   func(context.Context, Question) (*Explanation, error) { return &Explanation{Action: "pass"}, nil },
		Internals: Internals{Zones: zoneOf(t, "example.test.", firstZone), Checks: func() *check.Set { return &check.Set{} }},
		Settings:  (&paper{text: "a: 1\n"}).parts(t),
		Setup:     func() *Setup { return nil },
		System:    &System{Backup: func(w io.Writer) ([]string, error) { _, err := io.WriteString(w, "backup"); return nil, err }, State: func() map[string]any { return map[string]any{"x": 1} }},
		NameServer: &Names{Upstreams: func() []Upstream { return []Upstream{{Name: "up.example", Up: true}} }, Cache: func() any { return map[string]int{"hits": 3} }, Flush: func() {},
			Look: func(_ context.Context, name, kind string) (*LookupResult, error) {
				return &LookupResult{Rcode: "NOERROR", Records: []string{name + " " + kind}}, nil
			}},
		Clients: &Clients{
			Known: func() (users, groups map[string][]string) {
				return map[string][]string{"anna": {"10.0.0.1"}}, map[string][]string{"7a": {"anna"}, "7b": nil}
			},
			About: func(_ context.Context, addr netip.Addr, user, group string) ClientState {
				switch {
				case group != "":
					return ClientState{Groups: []string{group}}
				case user == "anna" || addr == netip.MustParseAddr("10.0.0.1"):
					return ClientState{User: "anna", Groups: []string{"7a"}}
				}
				return ClientState{User: user, Groups: []string{"7b"}}
			},
			Bonuses: func() []policy.Bonus { return nil },
			Give: func(who string, minutes int64, _ netip.Addr) error {
				h.given = append(h.given, fmt.Sprint(who, minutes))
				return nil
			},
		},
		Access: Access{Accounts: book, Audit: account.NewLog(account.Folder(h.dir)), Looks: &Looks{}, Privacy: func() Privacy { return h.rules },
			Names: func() []string { return []string{"filter.example"} },
			Groups: func(addr netip.Addr, user string) []string {
				if user == "anna" || addr == netip.MustParseAddr("10.0.0.1") {
					return []string{"7a"}
				}
				return []string{"7b"}
			}},
	}
	if err := h.parts.Audit.Add(account.Entry{By: "root on this machine", Action: "shuultuur account add"}); err != nil {
		t.Fatal(err)
	}
	h.Server = New(h.parts)
	return h
}

// ask sends a request as a user with a role, from this machine.
func (h *house) ask(as account.Role, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c := h.cookie[as]; c != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: c})
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// target returns a path that matches the pattern of a route.
func target(r route) string {
	p := strings.ReplaceAll(strings.TrimSuffix(r.path, "{$}"), "{file}", "root.pem")
	for strings.Contains(p, "{") {
		before, rest, _ := strings.Cut(p, "{")
		_, after, _ := strings.Cut(rest, "}")
		p = before + "1" + after
	}
	return p
}

// slow reports whether a route takes long.
func slow(r route) bool {
	return strings.HasPrefix(r.path, "/debug/") || strings.Contains(r.path, "live")
}

func TestEveryPathIsForItsRolesOnly(t *testing.T) {
	h := newHouse(t)
	all := h.parts.routes()
	if len(all) < 40 {
		t.Fatalf("the table has only %d routes", len(all))
	}
	for _, r := range all {
		if strings.HasPrefix(r.path, "/debug/") && r.role != operator {
			t.Errorf("%s %s is permitted to %v, want operators only", r.method, r.path, r.role)
		}
		if r.path == "/setup" {
			continue // the link permits it once: see TestFirstStepsAreOfferedOnce
		}
		if r.method != "GET" && r.role < viewer && !strings.HasPrefix(r.path, "/login") {
			t.Errorf("%s %s changes something and is permitted to anyone", r.method, r.path)
		}
		for _, as := range append([]account.Role{account.None}, account.Roles...) {
			may := as >= least[r.role] || r.role <= monitor
			if may && (slow(r) || r.method != "GET") {
				continue // its effect is tested elsewhere
			}
			w := h.ask(as, r.method, target(r), "")
			want := http.StatusForbidden
			if as == account.None {
				want = http.StatusUnauthorized
			}
			if refused := w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized; refused == may || !may && w.Code != want {
				t.Errorf("%s %s as %v: status %d, %s", r.method, r.path, as, w.Code, w.Body)
			}
		}
	}
}

func TestEveryChangeRefusesWrongOriginHostRoleAndToken(t *testing.T) {
	h := newHouse(t)
	elsewhere := func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1234" }
	n := 0
	for _, r := range h.parts.routes() {
		if r.method == "GET" {
			continue
		}
		n++
		before := entries(t, h)
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
			"cookie":        {account.None, 401, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: "guess"}) }},
			"token":         {account.None, 401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }},
			"token, cookie": {account.Owner, 401, func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }},
			"elsewhere":     {account.None, 401, elsewhere},
		} {
			if r.role == anyone && c.status == 401 {
				continue
			}
			h.wrong = tries{}
			if w := h.ask(c.as, r.method, target(r), "who=&for=1m", c.change); w.Code != c.status {
				t.Errorf("%s %s with a wrong %s: status %d, %s, want %d", r.method, r.path, name, w.Code, w.Body, c.status)
			}
		}
		if entries(t, h) != before || len(h.paused) > 0 {
			t.Errorf("%s %s was carried out although it was refused", r.method, r.path)
		}
	}
	if n < 20 {
		t.Errorf("the table has only %d routes that change something", n)
	}
	// The same request with everything right passes.
	if w := h.ask(account.Owner, "POST", "/pause", "for=1m", func(r *http.Request) {
		r.Host = "filter.example"
		r.Header.Set("Origin", "http://filter.example")
	}); w.Code != 200 {
		t.Errorf("a pause with everything right: status %d, %s", w.Code, w.Body)
	}
}

func entries(t *testing.T, h *house) int64 {
	t.Helper()
	v, err := h.parts.Audit.Verify()
	if err != nil || v.Broken != "" {
		t.Fatalf("verifying the audit log: %+v, %v", v, err)
	}
	return v.Entries
}

func TestAHelperPausesTheirOwnGroupsOnly(t *testing.T) {
	h := newHouse(t)
	for who, want := range map[string]int{"7a": 200, "anna": 200, "10.0.0.1": 200, "": 403, "7b": 403, "ben": 403, "10.0.0.2": 403, "10.0.0.0/24": 403, "10.0.0.1/32": 403} {
		for _, long := range []string{"5m", "0s"} {
			h.paused = nil
			w := h.ask(account.Helper, "POST", "/pause", url.Values{"who": {who}, "for": {long}}.Encode())
			if w.Code != want || (len(h.paused) == 1) != (want == 200) {
				t.Errorf("a helper pauses filtering for %q, %s: status %d, %s; paused %q", who, long, w.Code, w.Body, h.paused)
			}
		}
	}
	if w := h.ask(account.Operator, "POST", "/pause", "for=5m"); w.Code != 200 {
		t.Errorf("an operator pauses filtering for everybody: status %d, %s", w.Code, w.Body)
	}
	var seen []map[string]any
	for line := range strings.Lines(h.ask(account.Helper, "GET", "/events", "").Body.String()) {
		var row map[string]any
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, row)
	}
	if len(seen) != 1 || seen[0]["user"] != "anna" {
		t.Errorf("a helper sees the events %v, want only anna's", seen)
	}
	if got := h.ask(account.Helper, "GET", "/statistics", "").Body.String(); strings.Contains(got, "b.example") || strings.Contains(got, "10.0.0.2") {
		t.Errorf("a helper sees the counts of others: %s", got)
	}
}

func TestURLsAreHiddenBelowARole(t *testing.T) {
	h := newHouse(t)
	for as, want := range map[account.Role]bool{account.Viewer: false, account.Lead: true, account.Owner: true} {
		if got := strings.Contains(h.ask(as, "GET", "/events", "").Body.String(), "secret"); got != want {
			t.Errorf("%v sees the whole URL: %v, want the opposite", as, got)
		}
		if got := h.ask(as, "GET", "/events?filter=secret", "").Body.Len() > 0; got != want {
			t.Errorf("%v finds a row by its URL: %v, want the opposite", as, got)
		}
	}
	if got := h.ask(account.Viewer, "GET", "/events", "").Body.String(); !strings.Contains(got, "https://a.example/") {
		t.Errorf("a viewer does not see the host: %s", got)
	}
}

func TestEveryLookIsInTheAuditLog(t *testing.T) {
	h := newHouse(t)
	for query, want := range map[string]string{"filter=user:anna": "user:anna", "filter=client:10.0.0.2": "client:10.0.0.2", "filter=-user:ben": "user:ben", "filter=id:anna-1": "id:anna-1", "filter=host:a.example": ""} {
		before := entries(t, h)
		if w := h.ask(account.Lead, "GET", "/events?"+query, ""); w.Code != 200 {
			t.Fatalf("searching for %q: status %d, want 200: %s", query, w.Code, w.Body)
		}
		if got := entries(t, h) - before; (got == 1) != (want != "") {
			t.Errorf("GET /events?%s added %d entries to the audit log", query, got)
		}
		if all, err := h.parts.Audit.Entries(0, 1); want != "" && (err != nil || all[0].Details != want || all[0].By != "the-safeguarding-lead" || all[0].Action != "look") {
			t.Errorf("GET /events?%s: the audit log has %+v, %v", query, all, err)
		}
	}
	if w := h.ask(account.Owner, "POST", "/accounts/password", "name=the-viewer&password=correct+horse+battery"); w.Code != 200 {
		t.Fatalf("setting a viewer's password: status %d, want 200: %s", w.Code, w.Body)
	}
	all, err := h.parts.Audit.Entries(0, 1)
	if err != nil || all[0].Action != "POST /accounts/password" || !strings.Contains(all[0].Details, "the-viewer") || strings.Contains(all[0].Details, "horse") || all[0].Status != 0 {
		t.Errorf("the entry is %+v, %v", all, err)
	}
	// If the audit log cannot be written, looks and changes are refused.
	folder := account.Folder(h.dir)
	if err := errors.Join(os.Remove(filepath.Join(folder, "audit.jsonl")), os.Mkdir(filepath.Join(folder, "audit.jsonl"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if w := h.ask(account.Lead, "GET", "/events?filter=user:anna", ""); w.Code == 200 {
		t.Error("a look that the audit log cannot record is shown")
	}
	h.paused = nil
	if w := h.ask(account.Owner, "POST", "/pause", "for=1m"); w.Code != 503 || w.Header().Get("Retry-After") == "" || h.paused != nil {
		t.Errorf("a change that the audit log cannot record: status %d, want 503; paused %q", w.Code, h.paused)
	}
}

func TestTwoPeopleAreNeeded(t *testing.T) {
	h := newHouse(t)
	h.rules.TwoPeople = true
	see := func(as account.Role, query string) *httptest.ResponseRecorder {
		return h.ask(as, "GET", "/events?"+query, "")
	}
	if got := see(account.Lead, "").Body.String(); strings.Contains(got, "anna\"") && strings.Contains(got, `"user"`) || strings.Contains(got, "10.0.0.1") || !strings.Contains(got, "a.example") {
		t.Errorf("without a second person, rows name people: %s", got)
	}
	if w := see(account.Lead, "filter=user:anna"); w.Code != 403 || !strings.Contains(w.Body.String(), "two people") {
		t.Errorf("a look without a second person: status %d, want 403: %s", w.Code, w.Body)
	}
	if got := h.ask(account.Owner, "GET", "/statistics", "").Body.String(); strings.Contains(got, "10.0.0.1") {
		t.Errorf("without a second person, counts name clients: %s", got)
	}
	var all []look
	w := h.ask(account.Lead, "POST", "/looks", "whom=anna&reason=a+worry")
	if err := json.Unmarshal(w.Body.Bytes(), &all); err != nil || len(all) != 1 {
		t.Fatalf("asking to look into a person's data: status %d, want a list of one request: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Lead, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 400 {
		t.Errorf("agreeing to one's own look: status %d, want 400: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Helper, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 403 {
		t.Errorf("a helper agrees to a look: status %d, want 403: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Owner, "POST", "/looks/agree", "id="+all[0].ID); w.Code != 200 {
		t.Fatalf("a second person agrees to a look: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := see(account.Lead, "filter=user:anna"); w.Code != 200 || !strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a look after a second person agreed: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := see(account.Lead, "filter=user:ben"); w.Code != 403 {
		t.Errorf("a look at another person: status %d, want 403: %s", w.Code, w.Body)
	}
	if w := see(account.Owner, "filter=user:anna"); w.Code != 403 {
		t.Errorf("another user's look at the person: status %d, want 403: %s", w.Code, w.Body)
	}
}

func TestSignInAndOut(t *testing.T) {
	h := newHouse(t)
	if err := h.parts.Accounts.SetPassword("the-viewer", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	html := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	if w := h.ask(account.None, "GET", "/events?last=1h", "", html); w.Code != 303 || w.Header().Get("Location") != "/login?to=%2Fevents%3Flast%3D1h" {
		t.Errorf("a page without a session: status %d, header %v; want a redirect to the sign-in page", w.Code, w.Header())
	}
	if w := h.ask(account.None, "POST", "/login", "name=the-viewer&password=wrong", html); w.Code != 401 || !strings.Contains(w.Body.String(), "wrong") || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("signing in with a wrong password: status %d, want 401: %s", w.Code, w.Body)
	}
	w := h.ask(account.None, "POST", "/login", "name=the-viewer&password=correct+horse+battery&to=%2Fevents", html)
	c := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "/events" || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Secure {
		t.Fatalf("signing in: status %d, header %v", w.Code, w.Header())
	}
	for _, to := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "", "/login"} {
		if got := localPath(to); got != "/" {
			t.Errorf("after signing in, %q leads to %q", to, got)
		}
	}
	h.cookie[account.Viewer] = c[0].Value
	if w := h.ask(account.Viewer, "GET", "/account", ""); w.Code != 200 || strings.Contains(w.Body.String(), "argon2") {
		t.Errorf("the account page: status %d, want 200 without a hash: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Viewer, "POST", "/logout", ""); w.Code != 200 {
		t.Errorf("signing out: status %d, want 200: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Viewer, "GET", "/account", ""); w.Code != 401 {
		t.Errorf("the account page after signing out: status %d, want 401", w.Code)
	}
	for _, page := range []string{"/login", "/account", "/accounts", "/audit", "/looks"} {
		if w := h.ask(account.Owner, "GET", page, "", html); w.Code != 200 || !strings.Contains(w.Body.String(), "</html>") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src '") {
			t.Errorf("%s: status %d, or no page: %s", page, w.Code, w.Body)
		}
	}
	// Many wrong passwords bar the address.
	var last int
	for range maxTries + 1 {
		last = h.ask(account.None, "POST", "/login", "name=nobody&password=wrong").Code
	}
	if last != 429 {
		t.Errorf("after %d wrong passwords: status %d, want 429", maxTries+1, last)
	}
}

func TestTokensDoWhatTheirScopeAndAccountMay(t *testing.T) {
	h := newHouse(t)
	w := h.ask(account.Helper, "POST", "/account/tokens", url.Values{"purpose": {"timetable"}, "scope": {"GET /events,POST /pause"}, "for": {"1d"}}.Encode())
	var created struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil || created.Token == "" {
		t.Fatalf("making a token: status %d, want 200 and the token: %s", w.Code, w.Body)
	}
	bearer := func(r *http.Request) {
		r.RemoteAddr = "192.0.2.7:99"
		r.Header.Set("Authorization", "Bearer "+created.Token)
	}
	for ask, want := range map[string]int{"GET /events": 200, "GET /pause": 403, "GET /accounts": 403, "POST /account/tokens": 403} {
		method, path, _ := strings.Cut(ask, " ")
		if w := h.ask(account.None, method, path, "", bearer); w.Code != want {
			t.Errorf("%s with a token: status %d, %s", ask, w.Code, w.Body)
		}
	}
	for _, dry := range []string{"?dry_run=true", ""} { // a token may ask for the effect of every change that it may make
		if w := h.ask(account.None, "POST", "/pause"+dry, "for=1m&who=7a", bearer); w.Code != 200 {
			t.Errorf("POST /pause%s with a token: status %d, %s", dry, w.Code, w.Body)
		}
	}
	for who, want := range map[string]int{"7a": 200, "7b": 403} {
		if w := h.ask(account.None, "POST", "/pause", "for=1m&who="+who, bearer); w.Code != want {
			t.Errorf("pausing filtering for %s with a token: status %d, %s", who, w.Code, w.Body)
		}
	}
	key := account.LocalKey(h.dir)
	for token, want := range map[string]int{h.token: 200, key: 200, key + "x": 401} {
		if w := h.ask(account.None, "GET", "/accounts", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); w.Code != want {
			t.Errorf("GET /accounts with the token %q: status %d, %s", token, w.Code, w.Body)
		}
	}
	if text := fmt.Sprint(h.ask(account.Owner, "GET", "/accounts/tokens", "").Body); !strings.Contains(text, "timetable") || strings.Contains(text, created.Token) {
		t.Errorf("the list of tokens lacks timetable, or has the secret: %s", text)
	}
}

// Without accounts, this machine needs no token. A wrong token is refused, so that a program
// with an old token notices.
func TestAWrongTokenIsWrongOnThisMachineToo(t *testing.T) {
	h := newHouse(t)
	for _, r := range account.Roles { // the last owner may be removed when nobody else is left
		if err := h.parts.Accounts.Remove("the-" + r.String()); err != nil {
			t.Fatal(err)
		}
	}
	for token, want := range map[string]int{"": 200, "wrong": 401, h.token: 200, account.LocalKey(h.dir): 200} {
		w := h.ask(account.None, "GET", "/settings", "", func(r *http.Request) {
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
		})
		if w.Code != want {
			t.Errorf("without accounts, with the token %q: status %d, %s", token, w.Code, w.Body)
		}
	}
}

func tells(r route) bool { ok, _ := r.hasDryRun(); return ok }

// A request that only asks for the effect must change nothing: a route shows the effect or
// refuses.
func TestDryRunChangesNothingOnAnyRoute(t *testing.T) {
	h := newHouse(t)
	for _, r := range h.parts.routes() {
		if r.method == "GET" || r.path == "/setup" || tells(r) {
			continue
		}
		for _, c := range []struct{ query, form string }{{"?dry_run=true", "who=&for=1m"}, {"?dry_run=1", ""}, {"", "who=&for=1m&dry_run=true"}, {"", "who=&dry_run=yes&for=1m"}} {
			if w := h.ask(account.Owner, r.method, target(r)+c.query, c.form); w.Code != 400 || !strings.Contains(w.Body.String(), "dry_run") {
				t.Errorf("%s %s%s with %q: status %d, want 400 and dry_run: %s", r.method, r.path, c.query, c.form, w.Code, w.Body)
			}
		}
	}
	if len(h.paused)+len(h.given) > 0 {
		t.Errorf("requests for the effect alone paused %q, and gave time to %q", h.paused, h.given)
	}
	if w := h.ask(account.None, "POST", "/setup?dry_run=true", "token=x"); w.Code != 400 || !strings.Contains(w.Body.String(), "dry_run") {
		t.Errorf("/setup with dry_run: status %d, want 400 and dry_run: %s", w.Code, w.Body)
	}
	if w := h.ask(account.Owner, "POST", "/pause", "who=&for=1m&dry_run=false"); w.Code != 200 || len(h.paused) != 1 {
		t.Errorf("a pause with dry_run=false: status %d, %s, paused %q", w.Code, w.Body, h.paused)
	}
}
