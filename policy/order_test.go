package policy

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"shuultuur/filter"
)

// For any findings at any stages, the outcome is that of the first rule that matches when
// everything is known. Only if that rule blocks may another refusing rule have decided earlier.
func TestStagesDoNotChangeTheOutcome(t *testing.T) {
	stages := []filter.Stage{filter.Name, filter.Request, filter.RequestBody, filter.Response, filter.ResponseBody}
	rapid.Check(t, func(rt *rapid.T) {
		var checks []filter.Check
		var known []string
		found := map[string]bool{}
		for i := range rapid.IntRange(1, 4).Draw(rt, "checks") {
			f := &fake{name: fmt.Sprint("check", i), finds: map[filter.Stage][]filter.Finding{}}
			for j, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(stages), 1, 3, rapid.ID).Draw(rt, "stages") {
				name := fmt.Sprintf("c%d.%d", i, j)
				known = append(known, name)
				f.known = append(f.known, filter.Category{Name: name})
				f.wants = append(f.wants, s)
				if rapid.Bool().Draw(rt, "found") {
					found[name] = true
					f.finds[s] = append(f.finds[s], filter.Finding{Check: f.name, Category: name})
				}
			}
			checks = append(checks, f)
		}
		some := func(least int, label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(known), least, 2, rapid.ID).Draw(rt, label)
		}
		var rules []Rule
		for i := range rapid.IntRange(1, 6).Draw(rt, "rules") {
			r := Rule{Name: fmt.Sprint(i), Action: rapid.SampledFrom([]string{"allow", "warn", "block", "redirect"}).Draw(rt, "action")}
			if r.Action == "redirect" {
				r.To = "http://intra.test/"
			}
			r.Category = some(0, "category")
			if rapid.Bool().Draw(rt, "has unless") {
				r.Unless = some(0, "unless")
			}
			switch rapid.IntRange(0, 5).Draw(rt, "condition") {
			case 0:
				r.Host = []string{"other.test"}
			case 1:
				r.Extension = []string{"exe"} // by Content-Disposition
			case 2:
				r.Type = []string{"image/*"} // known at the response, and not this
			}
			rules = append(rules, r)
		}
		fits := func(r Rule) bool {
			any := len(r.Category) == 0
			for _, c := range r.Category {
				any = any || found[c]
			}
			for _, c := range r.Unless {
				if found[c] {
					return false
				}
			}
			return any && r.Host == nil && r.Type == nil
		}
		want := "pass"
		for _, r := range rules {
			if fits(r) {
				want = r.Action
				break
			}
		}
		e := newEngine(t, rules, checks...)
		p := page{method: "POST", upload: true, response: []string{"Content-Type", "text/html", "Content-Disposition", "attachment; filename=a.exe"}}
		tr, s := p.judge(t, e)
		got := tr.Verdict.Action.String()
		if got != want && !(want == "block" && tr.Verdict.Final()) {
			rt.Fatalf("%s by %q at %v, want %s\nrules %+v\nfound %v", got, tr.Verdict.Reason.Rule, s, want, rules, found)
		}
		if r := tr.Verdict.Reason.Rule; r != "" {
			var i int
			fmt.Sscan(r, &i)
			if !fits(rules[i]) {
				rt.Fatalf("rule %q decided although it does not match\nrules %+v\nfound %v", r, rules, found)
			}
		}
	})
}
