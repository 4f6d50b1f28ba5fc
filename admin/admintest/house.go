// Package admintest makes admin addresses for tests. A [House] has every page, an account of each
// role, and a record of two people; a test asks it and sees what it was told to do.
package admintest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/alert"
	"shuultuur/admin/clients"
	"shuultuur/admin/exception"
	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/network"
	"shuultuur/admin/nodes"
	"shuultuur/admin/privacy"
	"shuultuur/admin/settings"
	"shuultuur/admin/setup"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/check"
	"shuultuur/check/picture"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/intercept"
	"shuultuur/lib/certificate"
	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/policy"
	"shuultuur/vote"
	"shuultuur/zone"
	"shuultuur/zone/authority"
)

// Memory is a record of a few rows.
type Memory []event.Row

func (m Memory) Query(_ context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error] {
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

func (m Memory) Count(_ context.Context, questions ...event.Question) ([][]event.Tally, error) {
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

// A House is an admin address with an account of each role.
type House struct {
	*web.Site
	Parts  admin.Parts
	Cookie map[account.Role]string
	Paused []string
	Given  []string
	Rules  web.Privacy
	Dir    string
}

func NewHouse(t *testing.T) *House {
	t.Helper()
	h := &House{Cookie: map[account.Role]string{}, Dir: t.TempDir(), Rules: web.Privacy{URLs: account.Helper}}
	book, err := account.Open(account.Folder(h.Dir), nil)
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
		if h.Cookie[r], err = book.Begin("the-"+r.String(), "passkey", account.Origin{}); err != nil {
			t.Fatal(err)
		}
	}
	row := func(client, user, link string) event.Row {
		u, _ := url.Parse(link)
		return event.Row{Time: time.Now().Add(-time.Minute), ID: user + "-1", Client: netip.MustParseAddr(client), User: user, URL: link, Host: u.Host, Action: filter.Block, Evidence: link, Method: "GET"}
	}
	h.Parts = admin.Parts{
		Sessions: &clients.Sessions{
			All:   func() []session.Session { return nil },
			Start: func(...session.Session) error { return nil },
			End:   func(...session.EndRequest) (int, error) { return 0, nil },
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Health:  func() system.Health { return system.Health{Ready: true} },
		Lists: &lists.Lists{In: func() (*collection.Collection, *http.Client) { return new(collection.Collection), nil }, All: func() []lists.List { return nil }, Search: func(string) ([]lists.Hit, error) { return nil, nil },
			Change: func(context.Context, map[string][]list.Change) error { return nil }},
		Events: &web.Record{Reader: Memory{row("10.0.0.1", "anna", "https://a.example/secret?q=1"), row("10.0.0.2", "ben", "https://b.example/other")}},
		Cache: &network.Cache{Stats: func() any { return map[string]int{} }, Look: func(string, [][2]string) (any, error) { return nil, errors.New("nothing") },
			Purge: func(string, string, time.Time, netip.Addr) error { return nil }},
		Pause: &exception.Pause{All: func() []policy.Pause { return nil }, Set: func(who string, _ time.Time, _ netip.Addr) error {
			h.Paused = append(h.Paused, who)
			return nil
		}},
		Root: func() *intercept.Root { return nil },
		Ordered: func() certificate.Status {
			return certificate.Status{Names: []string{"filter.example"}, Authority: "ca.example", Failed: 1}
		},
		Refusals: func() any { return nil },
		Quotas:   func(context.Context, string, netip.Addr, string) clients.Quotas { return clients.Quotas{} },
		Live:     &home.Live{},
		Alerts:   func() *alert.Desk { return nil }, Pictures: &picture.Gallery{},
		Decisions: &exception.Decisions{All: func() []policy.Decision { return nil }, Set: func(policy.Decision, netip.Addr) error { return nil }},
		Explain: func(context.Context, why.Question) (*why.Explanation, error) {
			return &why.Explanation{Action: "pass"}, nil
		},
		Zones: ZoneOf(t, "example.test.", FirstZone), Checks: func() *check.Set { return &check.Set{} },
		Settings: (&Paper{Text: "a: 1\n"}).Parts(t),
		Setup:    func() *setup.Setup { return nil },
		System:   &system.System{Backup: func(w io.Writer) ([]string, error) { _, err := io.WriteString(w, "backup"); return nil, err }, State: func() map[string]any { return map[string]any{"x": 1} }},
		NameServer: &network.Names{Upstreams: func() []network.Upstream { return []network.Upstream{{Name: "up.example", Up: true}} }, Cache: func() any { return map[string]int{"hits": 3} }, Flush: func() {},
			Look: func(_ context.Context, name, kind string) (*network.LookupResult, error) {
				return &network.LookupResult{Rcode: "NOERROR", Records: []string{name + " " + kind}}, nil
			}},
		Fleet: &nodes.Pages{Look: func() nodes.Fleet {
			return nodes.Fleet{Desk: true, Nodes: []nodes.Node{{Name: "library", State: nodes.Runs}}}
		},
			Publish: func(context.Context, string, string, bool) error { return nil },
			More:    func(context.Context) error { return nil }, Back: func(context.Context) error { return nil },
			Bundle: func(context.Context, string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }},
		Clients: h.clients(),
		Looks:   &privacy.Looks{},
		Shared: web.Shared{Token: "the token of the settings", Accounts: book, Audit: account.NewLog(account.Folder(h.Dir)), Privacy: func() web.Privacy { return h.Rules },
			Names: func() []string { return []string{"filter.example"} },
			Groups: func(addr netip.Addr, user string) []string {
				if user == "anna" || addr == netip.MustParseAddr("10.0.0.1") {
					return []string{"7a"}
				}
				return []string{"7b"}
			}},
	}
	if err := h.Parts.Audit.Add(account.Entry{By: "root on this machine", Action: "shuultuur account add"}); err != nil {
		t.Fatal(err)
	}
	h.Site = admin.New(h.Parts)
	return h
}

// clients returns two people, of whom anna is in the group of the helper.
func (h *House) clients() *clients.Clients {
	return &clients.Clients{
		Known: func() (users, groups map[string][]string) {
			return map[string][]string{"anna": {"10.0.0.1"}}, map[string][]string{"7a": {"anna"}, "7b": nil}
		},
		About: func(_ context.Context, addr netip.Addr, user, group string) clients.ClientState {
			switch {
			case group != "":
				return clients.ClientState{Groups: []string{group}}
			case user == "anna" || addr == netip.MustParseAddr("10.0.0.1"):
				return clients.ClientState{User: "anna", Groups: []string{"7a"}}
			}
			return clients.ClientState{User: user, Groups: []string{"7b"}}
		},
		Bonuses: func() []policy.Bonus { return nil },
		Give: func(who string, minutes int64, _ netip.Addr) error {
			h.Given = append(h.Given, fmt.Sprint(who, minutes))
			return nil
		},
	}
}

// Ask sends a request as a user with a role, from this machine.
func (h *House) Ask(as account.Role, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c := h.Cookie[as]; c != "" {
		r.AddCookie(&http.Cookie{Name: web.CookieName, Value: c})
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Looks returns the requests to look into somebody's browsing.
func (h *House) Looks() (all []struct{ ID string }) {
	_ = json.Unmarshal(h.Ask(account.Lead, "GET", "/looks", "").Body.Bytes(), &all)
	return all
}

// Table returns all routes.
func Table(p admin.Parts) []web.Route { return admin.New(p).Rows }

func Entries(t *testing.T, h *House) int64 {
	t.Helper()
	v, err := h.Parts.Audit.Verify()
	if err != nil || v.Broken != "" {
		t.Fatalf("verifying the audit log: %+v, %v", v, err)
	}
	return v.Entries
}

func Handler(ready bool) *web.Site {
	return admin.New(admin.Parts{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "metric 1\n") }),
		Health: func() system.Health {
			return system.Health{Ready: ready, Revision: "abc", Problems: []string{"a list is old"}}
		},
	})
}

// desk stands in for the part that decides votes.
type desk struct{ vote.Store }

func (desk) Decision(context.Context, int64) (vote.Decision, error) {
	return vote.Decision{ID: 7, Remedy: "x", Site: "tea.example", Action: vote.Block}, nil
}

func (desk) Decisions(context.Context, int) ([]vote.Decision, error) { return nil, nil }

func (desk) Mails(context.Context, string, int) ([]string, error) { return nil, nil }

func (desk) Decide(context.Context, *vote.Decision) error { return nil }

func (desk) Withdraw(context.Context, int64, time.Time) (vote.Decision, error) {
	return vote.Decision{}, nil
}

func (desk) Queue(context.Context, int) ([]vote.Case, error) { return nil, nil }

func (desk) Tallies(context.Context, string, string, int) ([]vote.Tally, error) {
	return nil, nil
}

const HouseSettings = `identity:
  addresses:
    anna: [10.0.0.1]
  groups:
    7a: [anna]
policies:
  - name: pupils
    rules:
      - {name: games, action: block}
`

// Watch makes every change of the house report what it did, with one effect for all.
func (h *House) Watch(t *testing.T, did func(what string)) {
	t.Helper()
	p := &h.Parts
	p.Judge = PaperEffect
	p.Decisions = &exception.Decisions{All: p.Decisions.All, Set: func(policy.Decision, netip.Addr) error { did("ruling"); return nil }}
	p.Lists = &lists.Lists{In: p.Lists.In, All: p.Lists.All, Search: p.Lists.Search, Change: func(context.Context, map[string][]list.Change) error { did("lists"); return nil }}
	p.Pause = &exception.Pause{All: p.Pause.All, Set: func(string, time.Time, netip.Addr) error { did("pause"); return nil }}
	clients := *p.Clients
	clients.Give = func(string, int64, netip.Addr) error { did("bonus"); return nil }
	p.Clients = &clients
	p.Votes = &exception.Votes{Desk: vote.NewDesk(desk{}, nil, func(context.Context, *vote.Decision) error { did("vote"); return nil }, nil, slog.New(slog.DiscardHandler))}
	settings := (&Paper{Text: HouseSettings}).Parts(t)
	save := settings.Save
	settings.Save = func(ctx context.Context, text []byte, tag, by, reason string) ([]string, error) {
		did("settings")
		return save(ctx, text, tag, by, reason)
	}
	p.Settings = settings
	h.Site = admin.New(*p)
}

// Paper implements Settings in memory. As in a gateway, a saved text is in use a moment after it is
// on the disk.
type Paper struct {
	Text, Reason string

	saving sync.Mutex
	mu     sync.Mutex
	used   *string // nil: it is the text
}

// Disk returns the text that was saved last.
func (s *Paper) Disk() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.Text)
}

// InUse returns the text that is in use.
func (s *Paper) InUse() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		return []byte(s.Text)
	}
	return []byte(*s.used)
}

// Known returns the people and groups in the text that is in use.
func (s *Paper) Known() (users, groups map[string][]string) {
	var all struct {
		Identity struct {
			Addresses map[string][]string `yaml:"addresses"`
			Groups    map[string][]string `yaml:"groups"`
		} `yaml:"identity"`
		Policies []any `yaml:"policies"`
	}
	_, _ = setting.Read("shuultuur.yaml", s.InUse(), &all) // nobody is known by a text that is none
	return all.Identity.Addresses, all.Identity.Groups
}

func (s *Paper) save(text []byte, tag, reason string) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	was := s.InUse()
	if tag != web.Tag(was) {
		return web.ErrChanged
	}
	s.mu.Lock()
	used := string(was)
	s.Text, s.Reason, s.used = string(text), reason, &used
	s.mu.Unlock()
	runtime.Gosched() // others see the text on disk before it is in use
	s.mu.Lock()
	s.used = nil
	s.mu.Unlock()
	return nil
}

func (s *Paper) Parts(t *testing.T) *settings.Settings {
	t.Helper()
	kept := web.Versions{Dir: t.TempDir()}
	old, err := json.Marshal(web.Version{ID: "20260101T000000.000000Z", By: "anna", Reason: "first <try>", Tag: "x", Text: "old: 1\n"})
	if err == nil {
		err = os.WriteFile(filepath.Join(kept.Dir, "20260101T000000.000000Z.json"), old, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &settings.Settings{File: "shuultuur.yaml",
		Read:  func() ([]byte, error) { return s.Disk(), nil },
		InUse: s.InUse,
		Check: func(_ context.Context, text []byte) error {
			if strings.Contains(string(text), "mistake") {
				return setting.Mistakes{{File: "shuultuur.yaml", Line: 2, Key: "policies", Text: "is a <mistake>"}}
			}
			return nil
		},
		Save: func(_ context.Context, text []byte, tag, _, reason string) ([]string, error) {
			return []string{"listen changed in the settings: that needs a restart"}, s.save(text, tag, reason)
		},
		Versions: kept,
		Policies: func() ([]settings.PolicyView, error) {
			return []settings.PolicyView{{Name: "pupils", Of: &policy.Policy{Name: "pupils", Rules: []policy.Rule{{Name: "games", Action: "block"}}}, Rules: []settings.RuleView{{Name: "games", Action: "block", When: []string{"category: <games>"}}}}}, nil
		},
	}
}

// PaperEffect is the effect of every change.
func PaperEffect(context.Context, web.Trial) (*web.Effect, error) {
	return &web.Effect{Judged: 48201, Changed: 312, Closes: 312, Changes: []web.EffectKind{{Policy: "pupils", Category: "games", Was: "pass", Is: "block", Count: 312, Examples: []string{"http://<b>.example/"}}}}, nil
}

const FirstZone = "$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n"

// ZoneOf serves a zone from a file.
func ZoneOf(t *testing.T, origin, text string) func() *authority.Authority {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.zone")
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	a, err := authority.New(authority.Config{Files: zone.Config{Files: []zone.File{{Path: setting.Source(file), Origin: origin}}}}, nil,
		func() authority.Upstream { return nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return func() *authority.Authority { return a }
}
