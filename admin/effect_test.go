package admin

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/account"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/release"
	"shuultuur/vote"
)

// samples has a change for each route whose effect is judged. A new route needs a row.
var samples = map[string]url.Values{
	"POST /rulings":        {"what": {"block"}, "site": {"tea.example"}},
	"POST /events":         {"what": {"block"}, "entry": {"tea.example"}, "list": {"own"}},
	"POST /lists":          {"what": {"add"}, "entry": {"tea.example"}, "list": {"own"}},
	"POST /pause":          {"who": {"anna"}, "for": {"5m"}},
	"POST /bonus":          {"who": {"anna"}, "minutes": {"15"}},
	"POST /votes":          {"remedy": {"open tea.example"}, "action": {"block"}, "site": {"tea.example"}},
	"POST /votes/withdraw": {"id": {"7"}},
	"POST /policies":       {"what": {"remove"}, "policy": {"0"}, "rule": {"0"}},
	"POST /clients":        {"what": {"forget"}, "name": {"anna"}},
}

// elsewhere has the routes whose effect other tests follow, by what they take.
var elsewhere = map[string]string{
	"PUT /settings":             "TestSettingsAreSavedAfterTheirEffectWasSeen",
	"POST /settings":            "TestSettingsAreSavedAfterTheirEffectWasSeen",
	"POST /lists/{name}":        "TestAListChangedByAProgramTellsItsEffect",
	"POST /lists/{name}/source": "TestThePageOfAList",
}

// desk stands in for the part that decides votes.
type desk struct{ vote.Store }

func (desk) Decision(context.Context, int64) (vote.Decision, error) {
	return vote.Decision{ID: 7, Remedy: "x", Site: "tea.example", Action: vote.Block}, nil
}
func (desk) Decisions(context.Context, int) ([]vote.Decision, error) { return nil, nil }
func (desk) Mails(context.Context, string, int) ([]string, error)    { return nil, nil }
func (desk) Decide(context.Context, *vote.Decision) error            { return nil }
func (desk) Withdraw(context.Context, int64, time.Time) (vote.Decision, error) {
	return vote.Decision{}, nil
}
func (desk) Queue(context.Context, int) ([]vote.Case, error) { return nil, nil }
func (desk) Tallies(context.Context, string, string, int) ([]vote.Tally, error) {
	return nil, nil
}

func TestEveryChangingRouteSaysHowItTellsItsEffect(t *testing.T) {
	h := newHouse(t)
	there := map[string]bool{}
	for _, r := range append(h.parts.routes(), voteRoutes(&Parts{Votes: &Votes{}})...) {
		key := r.method + " " + r.path
		if there[key] = true; r.method == http.MethodGet {
			continue
		}
		tells, why := r.hasDryRun()
		switch {
		case why == "":
			t.Errorf("%s has no row in effects: add one that says how it shows its effect, or why it changes no verdict", key)
		case tells && why == judged && samples[key] == nil && elsewhere[key] == "":
			t.Errorf("the effect of %s is judged, and samples has no change for it", key)
		}
	}
	for key := range effects {
		if !there[key] && !release.Small {
			t.Errorf("effects has %s, which is not a route", key)
		}
	}
}

// fieldsOf returns the hidden fields of the form that makes the shown change, and its address.
func fieldsOf(t *testing.T, page string) (string, url.Values) {
	t.Helper()
	_, shown, ok := strings.Cut(page, `id="effect"`)
	m := regexp.MustCompile(`(?s)<form[^>]* action="([^"]+)"[^>]*>(.*?)</form>`).FindStringSubmatch(shown)
	if !ok || m == nil {
		t.Fatalf("the page does not show the effect:\n%s", page)
	}
	f := url.Values{}
	for _, x := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(m[2], -1) {
		f.Add(x[1], html.UnescapeString(x[2]))
	}
	return html.UnescapeString(m[1]), f
}

// A change that would have altered something is not made before its effect was seen: not by a
// page without the mark of the same change, and never with dry_run.
func TestEveryJudgedChangeIsShownBeforeItIsMade(t *testing.T) {
	h := newHouse(t)
	var made []string
	did := func(what string) { made = append(made, what) }
	h.watch(t, did)
	browser := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	for _, r := range h.parts.routes() {
		form := samples[r.method+" "+r.path]
		if form == nil {
			continue
		}
		form = url.Values(http.Header(form).Clone())
		if strings.Contains("/policies /clients", r.path) {
			form.Set("tag", Tag([]byte(houseSettings)))
		}
		ask := func(path string, f url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
			return h.ask(account.Owner, r.method, path, f.Encode(), change...)
		}
		for _, dry := range []string{"true", "1", "yes"} {
			w := ask(target(r)+"?dry_run="+dry, form)
			if w.Code != 200 || !strings.Contains(w.Body.String(), `"changed":312`) || len(made) > 0 {
				t.Errorf("%s %s with dry_run=%s: status %d, %s; made %q, want only the effect", r.method, r.path, dry, w.Code, w.Body, made)
			}
		}
		w := ask(target(r), form, browser)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "312") || !strings.Contains(w.Body.String(), "http://&lt;b&gt;.example/") || len(made) > 0 {
			t.Errorf("%s %s does not show its effect first: status %d, %s; made %q", r.method, r.path, w.Code, w.Body, made)
			made = nil
			continue
		}
		if strings.Contains("/policies /clients", r.path) {
			continue // the editor shows it
		}
		action, fields := fieldsOf(t, w.Body.String())
		other := url.Values(http.Header(fields).Clone())
		for _, key := range []string{"site", "entry", "who", "id"} {
			if other.Has(key) {
				other.Set(key, "other.example")
			}
		}
		if w := ask(action, other, browser); len(made) > 0 {
			t.Errorf("%s %s makes another change with the mark of this one: status %d, %s; made %q", r.method, r.path, w.Code, w.Body, made)
		}
		if w := ask(action, fields, browser); len(made) != 1 {
			t.Errorf("%s %s after its effect was shown: status %d, %s; made %q, want the change", r.method, r.path, w.Code, w.Body, made)
		}
		made = nil
		if w := ask(target(r), form); w.Code != 200 || len(made) != 1 {
			t.Errorf("%s %s by a program: status %d, %s; made %q, want the change", r.method, r.path, w.Code, w.Body, made)
		}
		made = nil
	}
}

func TestAListChangedByAProgramTellsItsEffect(t *testing.T) {
	h := newHouse(t)
	var made []string
	h.watch(t, func(what string) { made = append(made, what) })
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
	body := `[{"entry": "tea.example"}]`
	if w := h.ask(account.Owner, "POST", "/lists/own?dry_run=true", body, asJSON); w.Code != 200 || !strings.Contains(w.Body.String(), `"changed":312`) || len(made) > 0 {
		t.Errorf("changing a list with dry_run: status %d, %s; made %q, want only the effect", w.Code, w.Body, made)
	}
	if w := h.ask(account.Owner, "POST", "/lists/own", body, asJSON); w.Code != 200 || len(made) != 1 {
		t.Errorf("changing a list: status %d, %s; made %q, want the change", w.Code, w.Body, made)
	}
}

// Examples come from people's browsing. Each user sees of them what the record would show.
func TestAnEffectShowsNoMoreThanTheRecord(t *testing.T) {
	h := newHouse(t)
	h.watch(t, func(string) {})
	h.parts.Effect = func(context.Context, Trial) (*Effect, error) {
		return &Effect{Judged: 9, Changed: 2, Changes: []EffectKind{{Was: "block", Is: "pass", Count: 2, Examples: []string{"https://a.example/secret", "https://a.example/other", "a.example"}}}}, nil
	}
	h.Server = New(h.parts)
	for _, c := range []struct {
		urls account.Role
		two  bool
		as   account.Role
		who  string
		want string
	}{
		{account.Helper, false, account.Helper, "7a", `["https://a.example/secret","https://a.example/other","a.example"]`},
		{account.Lead, false, account.Helper, "7a", `["https://a.example/","a.example"]`},
		{account.Lead, false, account.Operator, "", `["https://a.example/secret","https://a.example/other","a.example"]`},
		{account.Helper, true, account.Operator, "7a", `"count":2,"examples":null`},
		{account.Helper, true, account.Operator, "anna", "two people"},
		{account.Helper, true, account.Operator, "10.0.0.1", "two people"},
	} {
		h.rules = Privacy{URLs: c.urls, TwoPeople: c.two}
		w := h.ask(c.as, "POST", "/pause", url.Values{"who": {c.who}, "for": {"5m"}, "dry_run": {"true"}}.Encode())
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("the effect for %+v: status %d, %s", c, w.Code, w.Body)
		}
		if strings.Contains(c.want, "two people") && strings.Contains(w.Body.String(), "example/") {
			t.Errorf("the effect for %+v reveals hosts: %s", c, w.Body)
		}
	}
	if all, err := h.parts.Audit.Entries(0, 1); err != nil || !strings.Contains(all[0].Action, "effect only") {
		t.Errorf("the newest entry of the audit log is %+v, %v; want effect only", all, err)
	}
}

// Without a record, the change is made at once. If judging took too long, the page first says
// so.
func TestAChangeWithoutAnEffectIsMade(t *testing.T) {
	for _, c := range []struct {
		effect func(context.Context, Trial) (*Effect, error)
		made   bool
	}{
		{nil, true},
		{func(context.Context, Trial) (*Effect, error) { return nil, ErrNoRecord }, true},
		{func(context.Context, Trial) (*Effect, error) { return &Effect{Judged: 5}, nil }, true},
		{func(context.Context, Trial) (*Effect, error) { return nil, context.DeadlineExceeded }, false},
	} {
		h := newHouse(t)
		h.parts.Effect = c.effect
		h.Server = New(h.parts)
		w := h.ask(account.Owner, "POST", "/pause", "who=7a&for=5m", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
		if w.Code != 200 || (len(h.paused) == 1) != c.made {
			t.Errorf("a pause, wanted made at once %v: status %d, paused %q", c.made, w.Code, h.paused)
		}
	}
}

const houseSettings = `identity:
  addresses:
    anna: [10.0.0.1]
  groups:
    7a: [anna]
policies:
  - name: pupils
    rules:
      - {name: games, action: block}
`

// watch makes every change of the house report what it did, with one effect for all.
func (h *house) watch(t *testing.T, did func(what string)) {
	t.Helper()
	p := &h.parts
	p.Effect = paperEffect
	p.Rulings = &Rulings{All: p.Rulings.All, Set: func(policy.Decision, netip.Addr) error { did("ruling"); return nil }}
	p.Lists = &Lists{In: p.Lists.In, All: p.Lists.All, Search: p.Lists.Search, Change: func(context.Context, map[string][]list.Change) error { did("lists"); return nil }}
	p.Pause = &Pause{All: p.Pause.All, Set: func(string, time.Time, netip.Addr) error { did("pause"); return nil }}
	clients := *p.Clients
	clients.Give = func(string, int64, netip.Addr) error { did("bonus"); return nil }
	p.Clients = &clients
	p.Votes = &Votes{Desk: vote.NewDesk(desk{}, nil, func(context.Context, *vote.Decision) error { did("vote"); return nil }, nil, slog.New(slog.DiscardHandler))}
	settings := (&paper{text: houseSettings}).parts(t)
	save := settings.Save
	settings.Save = func(ctx context.Context, text []byte, tag, by, reason string) ([]string, error) {
		did("settings")
		return save(ctx, text, tag, by, reason)
	}
	p.Settings = settings
	h.Server = New(*p)
}
