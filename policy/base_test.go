package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// completed reads policies and completes them, as the settings do.
func completed(t *testing.T, text string) (Config, *setting.Text, error) {
	t.Helper()
	var s struct {
		Policies Config `yaml:"policies"`
	}
	at, err := setting.Read("test.yaml", []byte(text), &s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Policies.Complete(func(key string) bool { return at.Has("policies" + key) })
	return all, at, err
}

func TestAPolicyBuildsOnItsBase(t *testing.T) {
	all, at, err := completed(t, `policies:
  - name: class-7a
    base: pupils
    groups: [7a]
    rules:
      - {name: lesson, action: block, host: [video.example]}
      - {name: library, off: true}
  - name: pupils
    base: everyone
    groups: [pupils]
    safesearch: false
    quotas: []
    rules:
      - {name: library, action: allow, host: [library.example]}
      - {name: games, off: true}
      - {name: chess, action: block, host: [chess.example], off: true}
  - name: everyone
    safesearch: true
    hide: true
    youtube: strict
    warn-for: 5m
    quotas: [{time: 30m}]
    expect: [{url: games.example, is: block}]
    rules:
      - {name: games, action: block, host: [games.example]}
      - {name: ads, action: warn, host: [ads.example]}
  - name: bare
    rules: [{name: nothing, action: block, host: [nothing.example]}]
`)
	if err != nil {
		t.Fatal(err)
	}
	names := func(rules []Rule) (all []string) {
		for _, r := range on(rules) {
			all = append(all, fmt.Sprintf("%s of %q", r.Name, r.From))
		}
		return all
	}
	for _, test := range []struct {
		policy int
		rules  []string
	}{
		{0, []string{`lesson of ""`, `ads of "everyone"`}},
		{1, []string{`library of ""`, `ads of "everyone"`}},
		{2, []string{`games of ""`, `ads of ""`}},
		{3, []string{`nothing of ""`}},
	} {
		if got := names(all[test.policy].Rules); !cmp.Equal(got, test.rules) {
			t.Errorf("policy %s has the rules %q, want %q", all[test.policy].Name, got, test.rules)
		}
	}
	for i, want := range []string{"false true strict 0 0", "false true strict 0 0", "true true strict 1 1", "false false  0 0"} {
		p := all[i]
		if got := fmt.Sprintf("%v %v %s %d %d", p.SafeSearch, p.Hide, p.YouTube, len(p.Quotas), len(p.Expect)); got != want {
			t.Errorf("policy %s: safesearch, hide, youtube, quotas and expectations are %s, want %s", p.Name, got, want)
		}
	}
	if all[0].WarnFor.Or(0) != all[2].WarnFor.Or(0) || all[3].WarnFor.Or(0) != 0 || !slices.Equal(all[0].Groups, []string{"7a"}) {
		t.Errorf("warn-for is %v, %v and %v, the groups are %q", all[0].WarnFor, all[2].WarnFor, all[3].WarnFor, all[0].Groups)
	}
	for _, test := range []struct {
		policy, rule string
		line         int
	}{{"class-7a", "lesson", 6}, {"class-7a", "ads", 26}, {"pupils", "ads", 26}, {"class-7a", "games", 2}, {"class-7a", "", 2}, {"everyone", "games", 25}, {"nobody", "x", 0}} {
		if line := at.Line("policies" + all.Place(test.policy, test.rule)); test.line > 0 && line != test.line || test.line == 0 && all.Place(test.policy, test.rule) != "" {
			t.Errorf("rule %q of %s is in line %d, want %d", test.rule, test.policy, line, test.line)
		}
	}
}

func TestMistakesAboutBases(t *testing.T) {
	const everyone = "  - {name: everyone, rules: [{name: games, action: block, host: [games.example]}]}\n"
	for name, test := range map[string]struct{ policies, want string }{
		"a base that is not there":    {"  - {name: pupils, base: everyon, rules: []}\n" + everyone, `policies[0].base: there is no policy "everyon"; did you mean "everyone"?`},
		"itself":                      {"  - {name: pupils, base: pupils, rules: []}\n", `policies[0].base: the policy "pupils" is its own base`},
		"in a circle":                 {"  - {name: a, base: b, rules: []}\n  - {name: b, base: c, rules: []}\n  - {name: c, base: b, rules: []}\n", `.base: the policy "b" is its own base, by way of "b", "c"`},
		"two rules of one name":       {"  - {name: pupils, base: everyone, rules: [{name: chess, action: block}, {name: games, action: allow}]}\n" + everyone, `policies[0].rules[1].name: the base "everyone" has a rule "games", too`},
		"nothing to switch off":       {"  - {name: pupils, base: everyone, rules: [{name: gamess, off: true}]}\n" + everyone, `policies[0].rules[0].off: this switches nothing off: the base "everyone" has no rule "gamess"`},
		"nothing to switch off in it": {"  - {name: pupils, rules: [{name: games, off: true}]}\n", `policies[0].rules[0].off: this switches nothing off: the policy has no base`},
	} {
		_, at, err := completed(t, "policies:\n"+test.policies)
		if err == nil {
			t.Errorf("%s: no mistake", name)
		} else if got := at.Mistakes(setting.At("policies", err)).Error(); !strings.Contains(got, test.want) {
			t.Errorf("%s: the mistake is %q, want %q", name, got, test.want)
		}
	}
}

func TestAMistakeInABaseIsReportedThere(t *testing.T) {
	all, at, err := completed(t, `policies:
  - {name: pupils, base: everyone, rules: []}
  - name: everyone
    rules:
      - {name: games, action: block, host: [games.example]}
      - {name: odd, action: stop, host: [odd.example]}
`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(all, nil, Parts{})
	if got := fmt.Sprint(at.Mistakes(setting.At("policies", err))); !strings.HasPrefix(got, "test.yaml:6: policies[1].rules[1].action:") {
		t.Errorf("the mistake is %q, want that of line 6", got)
	}
}

func TestRulesThatAreSwitchedOffDecideNothing(t *testing.T) {
	all, _, err := completed(t, `policies:
  - name: pupils
    base: everyone
    networks: [10.1.0.0/16]
    rules:
      - {name: games, off: true}
      - {name: allowed, action: allow, host: [ads.example], off: true}
      - {name: news, action: block, host: [news.example]}
  - name: everyone
    rules:
      - {name: games, action: block, host: [games.example]}
      - {name: ads, action: block, host: [ads.example]}
`)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(all, nil, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ client, host, want string }{
		{"10.1.0.1", "games.example", "pass pupils "},
		{"10.1.0.1", "ads.example", "block pupils ads"},
		{"10.1.0.1", "news.example", "block pupils news"},
		{"10.2.0.1", "games.example", "block everyone games"},
		{"10.2.0.1", "news.example", "pass everyone "},
	} {
		x := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr(test.client)}, Host: test.host, URL: "http://" + test.host + "/", Last: filter.Name}
		for s := filter.Name; s <= x.Last && !x.Verdict.Final(); s++ {
			e.Decide(t.Context(), x, s)
		}
		if got := fmt.Sprint(x.Verdict.Action, " ", x.Verdict.Reason.Policy, " ", x.Verdict.Reason.Rule); got != test.want {
			t.Errorf("%s asks for %s: %s, want %s", test.client, test.host, got, test.want)
		}
	}
}
