package policy

import (
	"fmt"
	"strings"
	"testing"

	"shuultuur/filter"
)

// TestAListThatIsNotThereYetIsUnknown: it counts as empty or as one that has everything, as the policy
// says, and the record says which list it was.
func TestAListThatIsNotThereYetIsUnknown(t *testing.T) {
	block := Rule{Name: "ads", Action: "block", Category: cats("ads")}
	with := func(r Rule, change func(*Rule)) Rule {
		change(&r)
		return r
	}
	for name, x := range map[string]struct {
		rules       []Rule
		pass, block string // the verdict by until-loaded
		recorded    bool
	}{
		"a rule that blocks":                  {[]Rule{block}, "pass ", "block ads", true},
		"a rule that warns":                   {[]Rule{with(block, func(r *Rule) { r.Action = "warn" })}, "pass ", "warn ads", true},
		"a rule that monitors":                {[]Rule{with(block, func(r *Rule) { r.Action = "monitor" })}, "pass ", "pass ", true},
		"a rule that allows":                  {[]Rule{with(block, func(r *Rule) { r.Action = "allow" })}, "pass ", "pass ", true},
		"a rule about another list":           {[]Rule{with(block, func(r *Rule) { r.Category = cats("adult") })}, "pass ", "pass ", false},
		"a rule about two lists":              {[]Rule{with(block, func(r *Rule) { r.Category = cats("adult", "ads") })}, "pass ", "block ads", true},
		"a rule for another host":             {[]Rule{with(block, func(r *Rule) { r.Host = cats("other.example") })}, "pass ", "pass ", true},
		"an allowed host before it":           {[]Rule{{Name: "a", Action: "allow", Host: cats("example.com")}, block}, "allow a", "allow a", true},
		"an allowed host after it":            {[]Rule{block, {Name: "a", Action: "allow", Host: cats("example.com")}}, "allow a", "block ads", true},
		"an allow unless something is in it":  {[]Rule{{Name: "a", Action: "allow", Unless: cats("ads")}, {Name: "rest", Action: "block"}}, "allow a", "block rest", true},
		"a block unless something is in it":   {[]Rule{{Name: "rest", Action: "block", Unless: cats("ads")}}, "block rest", "block rest", true},
		"a rule about another check, by name": {[]Rule{with(block, func(r *Rule) { r.Category = cats("category/ads") })}, "pass ", "block ads", true},
		"a rule that finds something":         {[]Rule{with(block, func(r *Rule) { r.Category = cats("grey", "ads") })}, "block ads", "block ads", true},
	} {
		for until, want := range map[UntilLoaded]string{"": x.pass, "pass": x.pass, "block": x.block} {
			c := list(map[filter.Stage][]string{filter.Name: {"grey"}})
			c.known = append(c.known, filter.Category{Name: "ads", Missing: "feed"})
			e := newEngineOf(t, Config{{Name: "p", Rules: x.rules, UntilLoaded: until}}, Parts{}, c)
			tr, _ := page{}.judge(t, e)
			if got := fmt.Sprintf("%v %s", tr.Verdict.Action, tr.Verdict.Reason.Rule); got != want {
				t.Errorf("%s, %q: the verdict is %q, want %q", name, until, got, want)
			}
			recorded := ""
			for _, f := range tr.Findings {
				if isUnloaded(f) {
					recorded += f.Evidence
				}
			}
			if want := map[bool]string{true: "not fetched yet: feed"}[x.recorded]; recorded != want {
				t.Errorf("%s, %q: the record has %q, want %q", name, until, recorded, want)
			}
			if want == "block ads" && x.pass != want && !isUnloaded(tr.Verdict.Reason.Finding) {
				t.Errorf("%s: the reason is %+v", name, tr.Verdict.Reason)
			}
		}
	}
}

// TestARefusalForAListThatIsNotThereHoldsForSeconds: the name may be asked for again when it is.
func TestARefusalForAListThatIsNotThereHoldsForSeconds(t *testing.T) {
	c := list(nil)
	c.known = append(c.known, filter.Category{Name: "ads", Missing: "feed"})
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "ads", Action: "block", Category: cats("ads")}}, UntilLoaded: "block"}}, Parts{}, c)
	tr := &filter.Transaction{Proto: filter.DNS, Host: "example.com", Last: filter.Name}
	e.Decide(t.Context(), tr, filter.Name)
	if tr.Verdict.Action != filter.Block || tr.Verdict.Holds != unloadedAgain {
		t.Errorf("the verdict is %+v", tr.Verdict)
	}
}

func TestUntilLoadedIsPassOrBlock(t *testing.T) {
	_, err := New(Config{{Name: "p", UntilLoaded: "open"}}, nil, Parts{})
	if err == nil || !strings.Contains(err.Error(), `until-loaded: "open" is neither pass nor block`) {
		t.Errorf("New says %v", err)
	}
}
