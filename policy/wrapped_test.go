package policy

import (
	"strings"
	"testing"

	"shuultuur/filter"
)

// TestFindingsInsideAddresses: what an address contains may be refused as if it were asked, by a rule
// that does not say otherwise, and lets nothing pass.
func TestFindingsInsideAddresses(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name          string
		rule          Rule
		inside, asked filter.Action
	}{
		{"block", Rule{Action: "block", Category: cats("adult")}, filter.Block, filter.Block},
		{"warn", Rule{Action: "warn", Category: cats("adult")}, filter.Warn, filter.Warn},
		{"block inside", Rule{Action: "block", Category: cats("adult"), Wrapped: &yes}, filter.Block, filter.Pass},
		{"block asked", Rule{Action: "block", Category: cats("adult"), Wrapped: &no}, filter.Pass, filter.Block},
		{"allow", Rule{Action: "allow", Category: cats("adult")}, filter.Pass, filter.Allow},
		{"allow asked", Rule{Action: "allow", Category: cats("adult"), Wrapped: &no}, filter.Pass, filter.Allow},
		{"block unless", Rule{Action: "block", Host: cats("example.com"), Unless: cats("adult")}, filter.Block, filter.Pass},
	} {
		c.rule.Name = "r"
		for _, inside := range []bool{true, false} {
			k := list(nil)
			k.finds = map[filter.Stage][]filter.Finding{filter.Request: {{Check: "category", Category: "adult", Wrapped: inside}}}
			tr := &filter.Transaction{Host: "example.com", URL: "http://example.com/", Last: filter.Request}
			e := newEngine(t, []Rule{c.rule}, k)
			e.Decide(t.Context(), tr, filter.Name)
			e.Decide(t.Context(), tr, filter.Request)
			want := c.asked
			if inside {
				want = c.inside
			}
			if got := tr.Verdict.Action; got != want {
				t.Errorf("%s, inside %v: %v, want %v", c.name, inside, got, want)
			}
		}
	}
	for name, c := range map[string]struct {
		rule Rule
		want string
	}{
		"without a category": {Rule{Action: "block", Host: cats("example.com"), Wrapped: &yes}, "rules[0].wrapped: it says which findings"},
		"allow":              {Rule{Action: "allow", Category: cats("adult"), Wrapped: &yes}, "rules[0].wrapped: what an address contains"},
	} {
		c.rule.Name = "r"
		_, err := New(Config{{Name: "p", Rules: []Rule{c.rule}}}, []filter.Check{list(nil)}, Parts{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
