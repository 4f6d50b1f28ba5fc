package policy

import (
	"strings"
	"testing"
	"time"

	"net/netip"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v4"
)

const sketch = `
policies:
  - name: pupils
    networks: [10.1.0.0/16]
    rules:                        # the first that fits
      - {name: banks, action: allow, category: [bank]}
      - {name: adult, action: block, category: [adult, own]}
      - {name: words, action: block, category: [phrase], over: 50}
  - name: everyone
    rules: [{name: words, action: warn, category: [phrase], over: 160}]
`

func load(text string) (Config, error) {
	var s struct {
		Policies Config `yaml:"policies"`
	}
	err := yaml.Load([]byte(text), &s, yaml.WithKnownFields(true))
	return s.Policies, err
}

func TestSettingsAsAPersonWritesThem(t *testing.T) {
	got, err := load(sketch)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		{Name: "pupils", Networks: []Network{{Prefix: netip.MustParsePrefix("10.1.0.0/16")}}, Rules: []Rule{
			{Name: "banks", Action: "allow", Category: cats("bank")},
			{Name: "adult", Action: "block", Category: cats("adult", "own")},
			{Name: "words", Action: "block", Category: cats("phrase"), Over: over(50)},
		}},
		{Name: "everyone", Rules: []Rule{{Name: "words", Action: "warn", Category: cats("phrase"), Over: over(160)}}},
	}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); d != "" {
		t.Error("settings (-want +got):\n" + d)
	}
	newEngineOf(t, got, Parts{}, list(nil), phrases(0))
}

func TestSettingsWithEveryKey(t *testing.T) {
	cfg, err := load(`
policies:
  - name: all
    networks: [10.1.2.3, "2001:db8::/32", "::ffff:10.0.0.0/104"]
    users: [anna]
    groups: [pupils]
    schedule: {days: mon-fri, hours: "21:00-06:00", zone: UTC}
    learn: {for: 1h}
    patience: hold
    warn-for: 1d
    safesearch: true
    youtube: off
    tenants: {microsoft: {allow: [a.test], context: id}, google: [a.test], slack: {allow: [T1], requester: T1}, dropbox: ["1"]}
    rules:
      - name: r
        action: redirect
        to: "https://a.test/?u={url}"
        category: [adult, PHRASE/Adult, category-error]
        over: 5
        unless: [grey]
        host: [example.com]
        url: ['^example\.com/x']
        extension: [exe]
        type: [image/*]
        header: {X-A: b}
        agent: [curl]
        referer: [example.org]
        method: [GET]
        search: [word]
        warn-for: 10m
        schedule: [{days: sat}, "9 0 17 0 01234"]
  - name: short
    schedule: 9 0 17 0 01234
    learn: 10m
  - {name: quick, learn: on, patience: 1s}
  - {name: none, learn: off, youtube: strict}
`)
	if err != nil {
		t.Fatal(err)
	}
	newEngineOf(t, cfg, Parts{}, list(nil), phrases(0))
	p := cfg[0]
	if p.Networks[0].String() != "10.1.2.3/32" || p.Networks[2].String() != "10.0.0.0/8" {
		t.Errorf("networks: got %v", p.Networks)
	}
	if p.WarnFor != Duration(24*time.Hour) || p.YouTube != "off" || len(p.Schedule) != 1 || p.Schedule[0].Hours != "21:00-06:00" {
		t.Errorf("policy: got %+v", p)
	}
	if s := p.Rules[0].Schedule; len(s) != 2 || s[0].Days != "sat" || s[1].Old == "" {
		t.Errorf("schedule of the rule: got %+v", s)
	}
	for i, want := range []time.Duration{0, 300 * time.Millisecond, time.Second, 300 * time.Millisecond} {
		if got := cfg[i].Patience.duration(); got != want {
			t.Errorf("policy %q has a patience of %v, want %v", cfg[i].Name, got, want)
		}
	}
	for i, want := range []time.Duration{time.Hour, 10 * time.Minute, time.Hour, 0} {
		if got := time.Duration(cfg[i].Learn.For); got != want {
			t.Errorf("policy %q learns for %v, want %v", cfg[i].Name, got, want)
		}
	}
}

func TestSettingsThatCannotBeRead(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"an unknown key":           {"policies: [{name: a, rule: []}]", "rule"},
		"an unknown key of a rule": {"policies: [{name: a, rules: [{nam: x}]}]", "nam"},
		"of a schedule":            {"policies: [{name: a, schedule: {day: mon}}]", "day"},
		"of learn":                 {"policies: [{name: a, learn: {ttl: 1h}}]", "ttl"},
		"a network":                {"policies: [{name: a, networks: [10.1.0.1/16]}]", `did you mean "10.1.0.0/16" or "10.1.0.1"?`},
		"not a network":            {"policies: [{name: a, networks: [home]}]", `"home" is not an address or a network`},
		"a time":                   {"policies: [{name: a, warn-for: 5}]", `"5" is not a duration`},
		"a time of learn":          {"policies: [{name: a, learn: soon}]", `"soon" is not a duration`},
		"patience":                 {"policies: [{name: a, patience: off}]", `write "hold"`},
		"a negative time":          {"policies: [{name: a, warn-for: -5m}]", `"-5m" is not a duration`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := load(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %s", err, test.want)
			}
		})
	}
}
