package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/filter"
)

// services is a check of services and one of lists that knows a category of the same name.
func services() []filter.Check {
	return []filter.Check{
		&fake{name: filter.Service, known: []filter.Category{{Name: "youtube"}, {Name: "roblox"}}, finds: map[filter.Stage][]filter.Finding{filter.Name: {{Check: filter.Service, Category: "youtube"}}}},
		&fake{name: "category", known: []filter.Category{{Name: "youtube"}, {Name: "games"}}},
	}
}

func TestRulesNameServices(t *testing.T) {
	for name, test := range map[string]struct {
		rule Rule
		want filter.Action
	}{
		"the service":                    {Rule{Service: []string{"youtube"}}, filter.Block},
		"in capitals":                    {Rule{Service: []string{"YouTube"}}, filter.Block},
		"another one":                    {Rule{Service: []string{"roblox"}}, filter.Pass},
		"one of them":                    {Rule{Service: []string{"roblox", "youtube"}}, filter.Block},
		"a category or a service":        {Rule{Category: cats("games"), Service: []string{"youtube"}}, filter.Block},
		"as a category of its check":     {Rule{Category: cats("service/youtube")}, filter.Block},
		"a list's category of this name": {Rule{Category: cats("youtube")}, filter.Pass},
		"another host":                   {Rule{Service: []string{"youtube"}, Host: []string{"other.example"}}, filter.Pass},
		"unless it is one":               {Rule{Host: []string{"*"}, Unless: cats("service/youtube")}, filter.Pass},
	} {
		test.rule.Name, test.rule.Action = "r", "block"
		e := newEngine(t, []Rule{test.rule}, services()...)
		x := &filter.Transaction{Client: filter.Client{Addr: netip.MustParseAddr("10.0.0.1")}, Host: "www.youtube.example", URL: "http://www.youtube.example/", Last: filter.Name}
		if e.Decide(t.Context(), x, filter.Name); x.Verdict.Action != test.want {
			t.Errorf("%s: %v, want %v", name, x.Verdict.Action, test.want)
		}
	}
}

func TestUnknownServices(t *testing.T) {
	const want = `service[1]: there is no service "roblocks"; docs/services.md has their names`
	rule := Config{{Name: "p", Rules: []Rule{{Name: "r", Action: "block", Service: []string{"youtube", "roblocks"}}}}}
	if _, err := New(rule, services(), Parts{}); err == nil || !strings.HasPrefix(err.Error(), "[0].rules[0]."+want) {
		t.Errorf("in a rule: %v", err)
	}
	quota := Config{{Name: "p", Quotas: []Quota{{Service: Names{"youtube", "roblocks"}, Bytes: 1}}}}
	if _, err := New(quota, services(), Parts{}); err == nil || !strings.HasPrefix(err.Error(), "[0].quotas[0]."+want) {
		t.Errorf("in a quota: %v", err)
	}
}

func TestQuotasCountServices(t *testing.T) {
	e, err := New(Config{{Name: "p", Quotas: []Quota{{Category: Names{"games"}, Service: Names{"youtube"}, Bytes: 1}}}}, services(), Parts{})
	if err != nil {
		t.Fatal(err)
	}
	p := e.policies[0]
	var got []string
	for _, r := range p.rations {
		got = append(got, fmt.Sprintf("%s/%s", r.category.check, r.category.name))
	}
	if all := strings.Join(got, " "); all != "category/games service/youtube" || p.quotas[0].every || p.quotas[0].of != "games, youtube" {
		t.Errorf("%s count, of %q, everything: %v", all, p.quotas[0].of, p.quotas[0].every)
	}
}
