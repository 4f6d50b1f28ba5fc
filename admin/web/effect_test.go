package web_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/exception"
	"shuultuur/admin/web"
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
	"POST /votes/on":       {},
	"POST /policies":       {"what": {"remove"}, "policy": {"0"}, "rule": {"0"}},
	"POST /policies/rule":  {"policy": {"0"}, "rule": {"0"}, "action": {"allow"}},
	"POST /policies/group": {"policy": {"0"}, "users": {"anna"}},
	"POST /services":       {"policy": {"0"}, "close": {"youtube"}},
	"POST /clients":        {"what": {"forget"}, "name": {"anna"}},
}

// elsewhere has the routes whose effect other tests follow, by what they take.
var elsewhere = map[string]string{
	"PUT /settings":             "TestSettingsAreSavedAfterTheirEffectWasSeen",
	"POST /settings":            "TestSettingsAreSavedAfterTheirEffectWasSeen",
	"POST /settings/form":       "TestTheFormChangesTheFile",
	"POST /lists/{name}":        "TestAListChangedByAProgramTellsItsEffect",
	"POST /lists/{name}/source": "TestThePageOfAList",
	"POST /lists/{name}/remove": "TestAListGoesWithTheRulesThatNeedIt",
	"POST /lists/{name}/text":   "TestAListOfOnesOwnIsAText",
	"POST /lists/new":           "TestAListIsAddedByItsAddress",
}

func TestEveryChangingRouteSaysHowItTellsItsEffect(t *testing.T) {
	h := admintest.NewHouse(t)
	for _, r := range append(admintest.Table(h.Parts), (&exception.Votes{}).Routes(h.Site)...) {
		key := r.Method + " " + r.Path
		if r.Method == http.MethodGet {
			continue
		}
		tells, why := r.HasDryRun()
		switch {
		case why == "":
			t.Errorf("%s has no effect in its row: say there how it shows its effect, or why it changes no verdict", key)
		case tells && why == web.Judged && samples[key] == nil && elsewhere[key] == "":
			t.Errorf("the effect of %s is judged, and samples has no change for it", key)
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
	h := admintest.NewHouse(t)
	var made []string
	did := func(what string) { made = append(made, what) }
	h.Watch(t, did)
	browser := func(r *http.Request) { r.Header.Set("Accept", "text/html") }
	for _, r := range admintest.Table(h.Parts) {
		form := samples[r.Method+" "+r.Path]
		if form == nil {
			continue
		}
		form = url.Values(http.Header(form).Clone())
		if strings.Contains("/policies /policies/rule /policies/group /services /clients", r.Path) {
			form.Set("tag", web.Tag([]byte(admintest.HouseSettings)))
		}
		ask := func(path string, f url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
			return h.Ask(account.Owner, r.Method, path, f.Encode(), change...)
		}
		for _, dry := range []string{"true", "1", "yes"} {
			w := ask(admintest.Target(r)+"?dry_run="+dry, form)
			if w.Code != 200 || !strings.Contains(w.Body.String(), `"changed":312`) || len(made) > 0 {
				t.Errorf("%s %s with dry_run=%s: status %d, %s; made %q, want only the effect", r.Method, r.Path, dry, w.Code, w.Body, made)
			}
		}
		w := ask(admintest.Target(r), form, browser)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "312") || !strings.Contains(w.Body.String(), "http://&lt;b&gt;.example/") || len(made) > 0 {
			t.Errorf("%s %s does not show its effect first: status %d, %s; made %q", r.Method, r.Path, w.Code, w.Body, made)
			made = nil
			continue
		}
		if strings.Contains("/policies /policies/rule /policies/group /services /clients", r.Path) {
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
			t.Errorf("%s %s makes another change with the mark of this one: status %d, %s; made %q", r.Method, r.Path, w.Code, w.Body, made)
		}
		if w := ask(action, fields, browser); len(made) != 1 {
			t.Errorf("%s %s after its effect was shown: status %d, %s; made %q, want the change", r.Method, r.Path, w.Code, w.Body, made)
		}
		made = nil
		if w := ask(admintest.Target(r), form); w.Code != 200 || len(made) != 1 {
			t.Errorf("%s %s by a program: status %d, %s; made %q, want the change", r.Method, r.Path, w.Code, w.Body, made)
		}
		made = nil
	}
}

func TestAListChangedByAProgramTellsItsEffect(t *testing.T) {
	h := admintest.NewHouse(t)
	var made []string
	h.Watch(t, func(what string) { made = append(made, what) })
	asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
	body := `[{"entry": "tea.example"}]`
	if w := h.Ask(account.Owner, "POST", "/lists/own?dry_run=true", body, asJSON); w.Code != 200 || !strings.Contains(w.Body.String(), `"changed":312`) || len(made) > 0 {
		t.Errorf("changing a list with dry_run: status %d, %s; made %q, want only the effect", w.Code, w.Body, made)
	}
	if w := h.Ask(account.Owner, "POST", "/lists/own", body, asJSON); w.Code != 200 || len(made) != 1 {
		t.Errorf("changing a list: status %d, %s; made %q, want the change", w.Code, w.Body, made)
	}
}

// Examples come from people's browsing. Each user sees of them what the record would show.
func TestAnEffectShowsNoMoreThanTheRecord(t *testing.T) {
	h := admintest.NewHouse(t)
	h.Watch(t, func(string) {})
	h.Parts.Judge = func(context.Context, web.Trial) (*web.Effect, error) {
		return &web.Effect{Judged: 9, Changed: 2, Changes: []web.EffectKind{{Was: "block", Is: "pass", Count: 2, Examples: []string{"https://a.example/secret", "https://a.example/other", "a.example"}}}}, nil
	}
	h.Site = admin.New(h.Parts)
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
		h.Rules = web.Privacy{URLs: c.urls, TwoPeople: c.two}
		w := h.Ask(c.as, "POST", "/pause", url.Values{"who": {c.who}, "for": {"5m"}, "dry_run": {"true"}}.Encode())
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("the effect for %+v: status %d, %s", c, w.Code, w.Body)
		}
		if strings.Contains(c.want, "two people") && strings.Contains(w.Body.String(), "example/") {
			t.Errorf("the effect for %+v reveals hosts: %s", c, w.Body)
		}
	}
	if all, err := h.Parts.Audit.Entries(0, 1); err != nil || !strings.Contains(all[0].Action, "effect only") {
		t.Errorf("the newest entry of the audit log is %+v, %v; want effect only", all, err)
	}
}

// Without a record, the change is made at once. If judging took too long, the page first says
// so.
func TestAChangeWithoutAnEffectIsMade(t *testing.T) {
	for _, c := range []struct {
		effect func(context.Context, web.Trial) (*web.Effect, error)
		made   bool
	}{
		{nil, true},
		{func(context.Context, web.Trial) (*web.Effect, error) { return nil, web.ErrNoRecord }, true},
		{func(context.Context, web.Trial) (*web.Effect, error) { return &web.Effect{Judged: 5}, nil }, true},
		{func(context.Context, web.Trial) (*web.Effect, error) { return nil, context.DeadlineExceeded }, false},
	} {
		h := admintest.NewHouse(t)
		h.Parts.Judge = c.effect
		h.Site = admin.New(h.Parts)
		w := h.Ask(account.Owner, "POST", "/pause", "who=7a&for=5m", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
		if w.Code != 200 || (len(h.Paused) == 1) != c.made {
			t.Errorf("a pause, wanted made at once %v: status %d, paused %q", c.made, w.Code, h.Paused)
		}
	}
}
