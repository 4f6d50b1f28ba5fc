package settings_test

import (
	"net/url"
	"strings"
	"testing"

	"shuultuur/admin"
	"shuultuur/admin/admintest"
	"shuultuur/admin/settings"
	"shuultuur/admin/web"
	"shuultuur/lib/setting"
	"shuultuur/policy"
)

const twoRules = `policies:
  - name: all
    rules:
      # the first
      - {name: a, action: block}
      - {name: b, action: allow} # the second
`

func policyPaper(t *testing.T) (*admintest.Paper, *web.Site) {
	p := &admintest.Paper{Text: twoRules}
	parts := admintest.Nobody()
	parts.Settings = p.Parts(t)
	parts.Judge = admintest.PaperEffect
	night := policy.Schedule{{Days: "mon-fri", Hours: "21:00-06:00"}}
	parts.Settings.Policies = func() ([]settings.PolicyView, error) {
		return []settings.PolicyView{{Name: "all", Times: settings.NewTimes(night), Rules: []settings.RuleView{{Name: "a", Action: "block", Text: "name: a\naction: block\n"}, {Name: "b", Action: "allow"}}}}, nil
	}
	return p, admin.New(parts)
}

func TestRulesAreMovedAndEditedInPlace(t *testing.T) {
	for name, c := range map[string]struct{ form, old, with string }{
		"down":   {"what=move&rule=0&to=1", twoRules[strings.Index(twoRules, "      # the first"):], "      - {name: b, action: allow} # the second\n      # the first\n      - {name: a, action: block}\n"},
		"edit":   {"what=edit&rule=0&text=" + url.QueryEscape("name: a\r\naction: warn"), "{name: a, action: block}", "name: a\n        action: warn"},
		"remove": {"what=remove&rule=1", "      - {name: b, action: allow} # the second\n", ""},
		"times":  {"what=window&rule=1&day=sat&day=sun&from=08:00&until=12:00", "- {name: b, action: allow} # the second", "- {name: b, action: allow, schedule: [{days: 'sat,sun', hours: '08:00-12:00'}]} # the second"},
	} {
		p, s := policyPaper(t)
		form := c.form + "&policy=0&tag=" + web.Tag([]byte(p.Text))
		if w := admintest.Ask(s, "POST", "/policies", "", form); w.Code != 200 {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if want := strings.Replace(twoRules, c.old, c.with, 1); p.Text != want {
			t.Errorf("%s: the settings are\n%s\nwant\n%s", name, p.Text, want)
		}
	}
	p, s := policyPaper(t)
	if w := admintest.Ask(s, "POST", "/policies", "", "what=remove&policy=0&rule=0&tag=old"); w.Code != 412 || p.Text != twoRules {
		t.Errorf("a change with the tag of an older text: status %d, want 412", w.Code)
	}
	for _, bad := range []string{"what=move&policy=0&rule=0&to=9", "what=move&policy=7&rule=0&to=0", "what=window&policy=0&from=99:00", "what=x&policy=0", "what=window&policy=0"} {
		if w := admintest.Ask(s, "POST", "/policies", "", bad+"&tag="+web.Tag([]byte(p.Text))); w.Code != 400 {
			t.Errorf("the invalid form %s: status %d, want 400: %s", bad, w.Code, w.Body)
		}
	}
}

// TestTheWeekIsDrawn: a window past midnight belongs to two days.
func TestTheWeekIsDrawn(t *testing.T) {
	_, s := policyPaper(t)
	page := admintest.Ask(s, "GET", "/policies", "text/html", "").Body.String()
	for _, want := range []string{`aria-label="Times: Mon 21:00–24:00 Tue 0:00–6:00 21:00–24:00`, `<rect x="1260" width="180"`, "Sat 0:00–6:00 \""} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
}

func TestRulesOfABaseAreShownAndSwitchedOff(t *testing.T) {
	const before = `policies:
  - name: pupils
    base: everyone
    rules:
      - {name: chess, action: block, off: true} # for now
      - {name: shops, off: true}
  - name: everyone
    rules:
      - {name: games, action: block, host: [games.example]}
      - {name: shops, action: block, host: [shop.example]}
`
	p, s := livePaper(t, before)
	page := admintest.Ask(s, "GET", "/policies", "text/html", "").Body.String()
	for _, want := range []string{"builds on everyone", "from everyone", "of everyone, off here", "switched off", `Switch off<span class="hide"> games</span>`, `Switch on<span class="hide"> shops</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	for name, c := range map[string]struct{ form, old, with string }{
		"a rule of the base, off":       {"what=off&rule=2", "      - {name: shops, off: true}\n", "      - {name: shops, off: true}\n      - {name: \"games\", off: true}\n"},
		"a rule of the base, on again":  {"what=on&rule=1", "      - {name: shops, off: true}\n", ""},
		"a rule of its own, on again":   {"what=on&rule=0", "{name: chess, action: block, off: true}", "{name: chess, action: block}"},
		"a new rule, before the base's": {"what=add&text=" + url.QueryEscape("{name: new, action: block}"), "      - {name: shops, off: true}\n", "      - {name: shops, off: true}\n      - {name: new, action: block}\n"},
	} {
		p, s := livePaper(t, before)
		if w := admintest.Ask(s, "POST", "/policies", "", c.form+"&policy=0&tag="+web.Tag([]byte(p.Text))); w.Code != 200 {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if want := strings.Replace(before, c.old, c.with, 1); p.Text != want {
			t.Errorf("%s: the settings are\n%s\nwant\n%s", name, p.Text, want)
		}
	}
	for _, bad := range []string{"what=edit&rule=2&text=x", "what=remove&rule=2", "what=move&rule=0&to=2", "what=off&rule=3"} {
		if w := admintest.Ask(s, "POST", "/policies", "", bad+"&policy=0&tag="+web.Tag([]byte(p.Text))); w.Code != 400 {
			t.Errorf("%s: status %d, want 400", bad, w.Code)
		}
	}
}

// livePaper has settings whose policies follow their text.
func livePaper(t *testing.T, text string) (*admintest.Paper, *web.Site) {
	p := &admintest.Paper{Text: text}
	parts := admintest.Nobody()
	parts.Settings = p.Parts(t)
	parts.Judge = admintest.PaperEffect
	parts.Settings.Policies = func() ([]settings.PolicyView, error) {
		var s struct {
			Policies policy.Config `yaml:"policies"`
			DNS      any           `yaml:"dns"`
			Pages    any           `yaml:"pages"`
		}
		text, err := setting.Read("shuultuur.yaml", []byte(p.Text), &s)
		if err != nil {
			return nil, err
		}
		all, err := s.Policies.Complete(func(key string) bool { return text.Has("policies" + key) })
		if err != nil {
			return nil, err
		}
		return settings.PolicyViews(text, all)
	}
	return p, admin.New(parts)
}

// TestViewsOfPoliciesAreMadeOnce: they are those of the text in use, and what a page adds to them is not
// seen by others.
func TestViewsOfPoliciesAreMadeOnce(t *testing.T) {
	read := func(text string) (*setting.Text, policy.Config) {
		var s struct {
			Policies policy.Config `yaml:"policies"`
		}
		file, err := setting.Read("shuultuur.yaml", []byte(text), &s)
		if err != nil {
			t.Fatal(err)
		}
		return file, s.Policies
	}
	var k settings.PolicyViewer
	first, of := read("policies: [{name: a, rules: [{name: r, action: block}]}]")
	one, err := k.Views(first, of)
	if err != nil {
		t.Fatal(err)
	}
	one[0].Name, one[0].Rules[0].Sentence = "other", "said"
	again, err := k.Views(first, of)
	if err != nil || again[0].Name != "a" || again[0].Rules[0].Sentence != "" {
		t.Errorf("after a page changed its views, another one has %+v, %v", again, err)
	}
	second, of := read("policies: [{name: b}]")
	if next, err := k.Views(second, of); err != nil || len(next) != 1 || next[0].Name != "b" {
		t.Errorf("with another text the views are %+v, %v", next, err)
	}
}

// TestAPolicyIsRenamedWhereverTheSettingsNameIt: in what builds on it, in expectations and elsewhere. Its
// form keeps the name unless somebody writes another.
func TestAPolicyIsRenamedWhereverTheSettingsNameIt(t *testing.T) {
	const before = "dns: {forward: {policies: {pupils: [1.1.1.3]}}}\npages: {children: [pupils]} # small ones\npolicies:\n  - name: class\n    base: pupils\n    groups: [7a]\n    expect: [{url: a.example, as: pupils, is: pass}]\n  - name: pupils # all\n    rules: [{name: pupils, action: block, host: [b.example]}]\n"
	for form, want := range map[string]string{
		"name=children":         strings.NewReplacer("{pupils: [", "{children: [", "[pupils]", "[children]", "base: pupils", "base: children", "as: pupils", "as: children", "- name: pupils #", "- name: children #").Replace(before),
		"name=pupils":           before,
		"safesearch=true":       strings.Replace(before, "host: [b.example]}]\n", "host: [b.example]}]\n    safesearch: true\n", 1),
		"name=Class":            "",
		"name=":                 "",
		"name=p&policy=1&base=": strings.NewReplacer("{pupils: [", "{p: [", "[pupils]", "[p]", "base: pupils", "base: p", "as: pupils", "as: p", "- name: pupils #", "- name: p #").Replace(before),
	} {
		p, site := livePaper(t, before)
		w := admintest.Ask(site, "POST", "/policies/group", "", "policy=1&tag="+url.QueryEscape(web.Tag([]byte(before)))+"&"+form)
		if want == "" && (w.Code < 400 || p.Text != before) {
			t.Errorf("%s: status %d; the settings are\n%s", form, w.Code, p.Text)
		}
		if want != "" && (w.Code != 200 || p.Text != want) {
			t.Errorf("%s: status %d, %s; the settings are\n%s\nwant\n%s", form, w.Code, w.Body, p.Text, want)
		}
	}
}
