package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// A list that is not there yet does not say that it has nothing. Until then its categories are unknown,
// and each transaction whose policy names one of them has the finding "policy/unloaded". UntilLoaded says
// what rules make of it: with "pass" (default) the list counts as empty. With "block" it counts as one
// that has everything: rules that refuse, warn or redirect match, if their other conditions hold, and
// rules that allow unless something is in it do not.
type UntilLoaded string

// blocks reports whether an unknown category counts as found.
func (u UntilLoaded) blocks() (bool, error) {
	switch u {
	case "", "pass":
		return false, nil
	case "block":
		return true, nil
	}
	return false, setting.At("until-loaded", fmt.Errorf("%q is neither pass nor block", string(u)))
}

// unloadedCategory is the finding about lists that are not there yet.
const unloadedCategory = "unloaded"

// unloadedAgain is how long an answer about a name holds that was refused because a list was not there.
const unloadedAgain = 10 * time.Second

// unloaded is what a policy names and what is not there yet.
type unloaded struct {
	lists         []string
	blocks        bool
	found, unless ruleSet // rules that match until then, and rules that do not
}

// refer notes that a rule, the next one of the policy, names a category, or names it in unless.
func (u *unloaded) refer(rule int, r *rule, of entry, unless bool) {
	if of.missing == "" {
		return
	}
	if !slices.Contains(u.lists, of.missing) {
		u.lists = append(u.lists, of.missing)
	}
	refuses := r.action >= filter.Warn && !r.monitors
	switch {
	case !u.blocks:
	case refuses && !unless:
		u.found.add(rule)
	case !refuses && unless:
		u.unless.add(rule)
	}
}

// countUnloaded determines what lists that are not there yet mean for the rules.
func countUnloaded(w *walk) {
	u := &w.p.unloaded
	if u.lists == nil {
		return
	}
	for i := range w.found {
		w.found[i] |= u.found[i]
		w.unless[i] |= u.unless[i]
	}
	if !slices.ContainsFunc(w.t.Findings, isUnloaded) {
		f := filter.Finding{Check: "policy", Category: unloadedCategory}
		if !w.t.Terse {
			f.Evidence = "not fetched yet: " + strings.Join(u.lists, ", ")
		}
		w.t.Findings = append(w.t.Findings, f)
	}
}

// matches reports whether a rule of p matches because a list is not there.
func (u *unloaded) matches(p *policy, r *rule) bool {
	i := slices.Index(p.rules, r)
	return i >= 0 && u.found.has(i)
}

func isUnloaded(f filter.Finding) bool { return f.Check == "policy" && f.Category == unloadedCategory }

// holdUnloaded lets a refused name be asked for again soon.
func holdUnloaded(v *filter.Verdict) {
	if v.Final() && isUnloaded(v.Reason.Finding) {
		v.Holds = min(cmp.Or(v.Holds, unloadedAgain), unloadedAgain)
	}
}
