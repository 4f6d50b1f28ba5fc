package settings_test

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"shuultuur/admin/admintest"
	"shuultuur/admin/web"
)

// oneRule are settings with a rule that says more than the form knows, with comments and an order of its own.
const oneRule = `policies:
  - name: pupils
    rules:
      # lessons
      - name: games # as the parents want it
        wrapped: false
        category: [games, social] # both
        action: block
        host: []
        schedule: {days: mon-fri, hours: "8:00-15:00"} # not on weekends
  - name: everyone
    quotas:
      - {service: youtube, time: 1h} # a film
`

// formOf returns the fields that a browser would send of a page of a rule.
func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	_, page, ok := strings.Cut(page, `id="rule"`)
	if !ok {
		t.Fatalf("the page has no form:\n%s", page)
	}
	f := url.Values{}
	for _, m := range regexp.MustCompile(`<input ([^>]*)>|(?s)<textarea ([^>]*)>\n?(.*?)</textarea>`).FindAllStringSubmatch(page, -1) {
		tag := m[1] + m[2]
		name, value := regexp.MustCompile(`name="([^"]*)"`).FindStringSubmatch(tag), regexp.MustCompile(`value="([^"]*)"`).FindStringSubmatch(tag)
		box := strings.Contains(tag, `type="checkbox"`) || strings.Contains(tag, `type="radio"`)
		switch {
		case name == nil || box && !strings.Contains(tag, " checked"):
		case m[2] != "":
			f.Add(name[1], html.UnescapeString(m[3]))
		case value != nil:
			f.Add(name[1], html.UnescapeString(value[1]))
		default:
			f.Add(name[1], "")
		}
	}
	return f
}

// TestARuleIsChangedByItsFields: each change alters its key alone; everything else of the file stays, with
// comments and order.
func TestARuleIsChangedByItsFields(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(f url.Values)
		old, with string
	}{
		"nothing":            {func(url.Values) {}, "", ""},
		"the action":         {func(f url.Values) { f.Set("action", "warn") }, "action: block", "action: warn"},
		"a category more":    {func(f url.Values) { f.Add("category", "chat") }, "[games, social] # both", "[games, social, chat] # both"},
		"no category":        {func(f url.Values) { f.Del("category") }, "        category: [games, social] # both\n", ""},
		"an exception":       {func(f url.Values) { f.Set("except", "youtube.com\r\nchess.example") }, "hours: \"8:00-15:00\"} # not on weekends\n", "hours: \"8:00-15:00\"} # not on weekends\n        except: [youtube.com, chess.example]\n"},
		"a site, where none": {func(f url.Values) { f.Set("host", "a.example") }, "host: []", "host: [a.example]"},
		"the times":          {func(f url.Values) { f.Set("until.0", "16:30") }, `{days: mon-fri, hours: "8:00-15:00"}`, `{days: "mon-fri", hours: "08:00-16:30"}`},
		"no times":           {func(f url.Values) { f.Del("days.0"); f.Del("from.0"); f.Del("until.0") }, "        schedule: {days: mon-fri, hours: \"8:00-15:00\"} # not on weekends\n", ""},
		"the name":           {func(f url.Values) { f.Set("name", "play") }, "name: games #", "name: play #"},
		"a number":           {func(f url.Values) { f.Set("over", "50") }, "# not on weekends\n", "# not on weekends\n        over: 50\n"},
	} {
		p, s := livePaper(t, oneRule)
		f := formOf(t, admintest.Ask(s, "GET", "/policies/rule?policy=pupils&rule=games", "text/html", "").Body.String())
		c.change(f)
		if w := admintest.Ask(s, "POST", "/policies/rule", "", f.Encode()); w.Code != 200 {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if want := strings.Replace(oneRule, c.old, c.with, 1); p.Text != want {
			t.Errorf("%s: the settings are\n%s\nwant\n%s", name, p.Text, want)
		}
	}
}

// TestTheTextOfARuleIsInStep: what is chosen in one form is in the other, without being saved.
func TestTheTextOfARuleIsInStep(t *testing.T) {
	p, s := livePaper(t, oneRule)
	f := formOf(t, admintest.Ask(s, "GET", "/policies/rule?policy=pupils&rule=games", "text/html", "").Body.String())
	f.Set("action", "warn")
	f.Set("tab", "yaml")
	w := admintest.Ask(s, "POST", "/policies/rule", "text/html", f.Encode())
	f = formOf(t, w.Body.String())
	for _, want := range []string{"# as the parents want it", "wrapped: false", "category: [games, social] # both", "action: warn"} {
		if !strings.Contains(f.Get("text"), want) {
			t.Errorf("the text lacks %q:\n%s", want, f.Get("text"))
		}
	}
	f.Set("text", strings.Replace(f.Get("text"), "[games, social]", "[games, chat]", 1))
	f.Set("tab", "fields")
	w = admintest.Ask(s, "POST", "/policies/rule", "text/html", f.Encode())
	f = formOf(t, w.Body.String())
	if got := f["category"]; len(got) != 3 || got[0] != "chat" || got[1] != "games" || f.Get("action") != "warn" {
		t.Errorf("the fields are %v", f)
	}
	if p.Text != oneRule {
		t.Errorf("showing the other form has changed the settings:\n%s", p.Text)
	}
	f.Del("tab")
	f.Set("except", "a.example")
	if w := admintest.Ask(s, "POST", "/policies/rule", "", f.Encode()); w.Code != 200 {
		t.Fatalf("saving: status %d, %s", w.Code, w.Body)
	}
	for _, want := range []string{"# lessons\n", "# as the parents want it", "wrapped: false", "category: [games, chat] # both", "action: warn", "except: [a.example]", "{service: youtube, time: 1h} # a film"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("the settings lack %q:\n%s", want, p.Text)
		}
	}
}

// TestMistakesOfARuleStandBesideIt: nothing that was typed is lost.
func TestMistakesOfARuleStandBesideIt(t *testing.T) {
	p, s := livePaper(t, oneRule)
	base := formOf(t, admintest.Ask(s, "GET", "/policies/rule?policy=pupils&rule=games", "text/html", "").Body.String())
	for name, c := range map[string]struct {
		change url.Values
		want   []string
	}{
		"a number":      {url.Values{"over": {"many"}}, []string{"many", "is not a whole number"}},
		"a time":        {url.Values{"from.0": {"25:00"}, "text": {"kept <b>"}}, []string{"is not a time", "kept &lt;b&gt;"}},
		"a key":         {url.Values{"from": {"yaml"}, "text": {"name: games\nacton: block\n"}}, []string{"<p class=\"wrong\" role=\"alert\">2: ", "acton"}},
		"a text":        {url.Values{"from": {"yaml"}, "text": {"name: games\naction: [\n"}}, []string{"role=\"alert\"", "action: ["}},
		"another value": {url.Values{"from": {"yaml"}, "text": {"name: games\naction: block\nover: x\n"}}, []string{"<p class=\"wrong\" role=\"alert\">3: "}},
	} {
		f := url.Values{}
		for k, v := range base {
			f[k] = v
		}
		for k, v := range c.change {
			f[k] = v
		}
		w := admintest.Ask(s, "POST", "/policies/rule", "text/html", f.Encode())
		if w.Code != 422 {
			t.Errorf("%s: status %d, want 422", name, w.Code)
		}
		for _, want := range c.want {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: the page lacks %q:\n%s", name, want, w.Body)
			}
		}
	}
	if p.Text != oneRule {
		t.Errorf("a mistake was saved:\n%s", p.Text)
	}
}

func TestNewRulesAndLimits(t *testing.T) {
	tag := url.QueryEscape(web.Tag([]byte(oneRule)))
	for name, c := range map[string]struct{ form, old, with string }{
		"a rule, named after what it is about": {"policy=0&action=monitor&category=ai&service=chatgpt", "# not on weekends\n", "# not on weekends\n      - name: ai\n        action: monitor\n        category: [ai]\n        service: [chatgpt]\n"},
		"one of a taken name":                  {"policy=0&action=block&category=games", "# not on weekends\n", "# not on weekends\n      - name: games 2\n        action: block\n        category: [games]\n"},
		"in a policy without rules":            {"policy=1&action=block&host=a.example", "# a film\n", "# a film\n    rules:\n    - name: a.example\n      action: block\n      host: [a.example]\n"},
		"a limit":                              {"policy=1&action=limit&category=games&minutes=45", "# a film\n", "# a film\n      - category: [games]\n        time: 45m\n"},
		"another time of a limit":              {"policy=1&quota=0&minutes=30&service=youtube", "time: 1h", "time: 30m"},
		"the same time of a limit":             {"policy=1&quota=0&minutes=60&service=youtube", "", ""},
	} {
		p, s := livePaper(t, oneRule)
		if w := admintest.Ask(s, "POST", "/policies/rule", "", c.form+"&tag="+tag); w.Code != 200 {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if want := strings.Replace(oneRule, c.old, c.with, 1); p.Text != want {
			t.Errorf("%s: the settings are\n%s\nwant\n%s", name, p.Text, want)
		}
	}
}

// TestRulesAreSentences: in the language of the reader.
func TestRulesAreSentences(t *testing.T) {
	for rule, want := range map[string]string{
		"{name: r, action: block}": "Block everything",
		"{name: r, action: block, category: [games, social], schedule: {days: mon-fri, hours: '8:00-15:00'}, except: [youtube.com]}": "Block Games and Social networks, Mon–Fri 08:00–15:00, except youtube.com",
		"{name: r, action: allow, host: [a.example, b.example, c.example]}":                                                          "Allow a.example, b.example and c.example",
		"{name: r, action: monitor, category: [games], host: [a.example], method: [POST]}":                                           "Only count Games, on a.example, if the method is POST",
		"{name: r, action: warn, service: [youtube], unless: [service/roblox], text: 'Is it?'}":                                      "Warn of YouTube, except Roblox, and say Is it?",
		"{name: r, action: redirect, host: ['*'], to: 'https://a.example/{url}'}":                                                    "Send everything to https://a.example/{url}",
		"{name: r, action: block, category: [mine], schedule: [{days: 'sat,sun'}, {hours: '21:00-6:00', dates: 'not 2026-12-24'}]}":  "Block mine, Sat, Sun and 21:00–06:00 not on 2026-12-24",
		"{name: r, action: block, category: [], host: [], schedule: []}":                                                             "Block everything",
	} {
		_, s := livePaper(t, "policies:\n  - {name: p, rules: ["+rule+"]}\n")
		got := admintest.Ask(s, "GET", "/policies", "", "").Body.String()
		if !strings.Contains(got, `"sentence":"`+want+`"`) {
			t.Errorf("%s is\n%s\nwant %s", rule, got, want)
		}
	}
}
