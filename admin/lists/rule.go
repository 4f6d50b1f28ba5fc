package lists

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
	"shuultuur/policy"
)

// A list blocks nothing by itself: its category is looked for by a check, and a rule of a policy says
// what becomes of it. Here are the changes of the settings that all three need.

// names reports whether a rule names a category.
func names(r *policy.Rule, category string) bool {
	return slices.ContainsFunc(r.Category, func(c string) bool { return strings.EqualFold(strings.TrimPrefix(c, "category/"), category) })
}

// refuses reports whether a policy has a rule that refuses a category, its base included.
func refuses(p *policy.Policy, category string) bool {
	return slices.ContainsFunc(p.Rules, func(r policy.Rule) bool {
		return !r.Off && r.Action != "allow" && r.Action != "monitor" && names(&r, category)
	})
}

// refusing returns the names of the policies that refuse one of some categories.
func refusing(all []*policy.Policy, categories map[string]int) (found []string) {
	for _, p := range all {
		for c := range categories {
			if refuses(p, c) {
				found = append(found, p.Name)
				break
			}
		}
	}
	return found
}

// own returns how many rules of a policy are its own. Those of its base follow.
func own(p *policy.Policy) int {
	if i := slices.IndexFunc(p.Rules, func(r policy.Rule) bool { return r.From != "" }); i >= 0 {
		return i
	}
	return len(p.Rules)
}

// forMost returns the policy that a new list is for unless somebody chooses another: the last one that
// builds on no other.
func forMost(all []*policy.Policy) string {
	name := ""
	for _, p := range all {
		if p.Base == "" {
			name = p.Name
		}
	}
	return name
}

// place returns where a new rule about a category belongs: before the one that counts it, else after
// the last one that blocks a category, else after those that always allow.
func place(p *policy.Policy, category string) int {
	rules := p.Rules[:own(p)]
	if i := slices.IndexFunc(rules, func(r policy.Rule) bool { return r.Action == "monitor" && names(&r, category) }); i >= 0 {
		return i
	}
	for i := range slices.Backward(rules) {
		if r := &rules[i]; r.Action == "block" && len(r.Category) > 0 {
			return i + 1
		}
	}
	at := 0
	for at < len(rules) && rules[at].Action == "allow" && len(rules[at].Category)+len(rules[at].Host) > 0 {
		at++
	}
	return at
}

// ruleChanges returns the changes that make policy i act on a category; none if it does so.
func ruleChanges(p *policy.Policy, i int, category, action string) []setting.Change {
	if action != "allow" && refuses(p, category) || action == "monitor" && slices.ContainsFunc(p.Rules, func(r policy.Rule) bool { return names(&r, category) }) {
		return nil
	}
	name := category
	for n := 2; slices.ContainsFunc(p.Rules, func(r policy.Rule) bool { return r.Name == name }); n++ {
		name = fmt.Sprintf("%s %d", category, n)
	}
	wrapped := ""
	if category == "ads" || category == "tracking" { // many ordinary addresses contain one
		wrapped = ", wrapped: false"
	}
	last, at := []any{"policies", i, "rules", own(p)}, place(p, category)
	if action == "allow" {
		at = 0
	}
	c := []setting.Change{{Path: last, Value: setting.Snippet(fmt.Sprintf("{name: %q, action: %s, category: [%q]%s}", name, action, category, wrapped))}}
	if at < own(p) {
		c = append(c, setting.Change{Path: last, Move: true, To: at})
	}
	return c
}

// checkChange returns the change that makes the check of categories look into some lists.
func checkChange(lists []string) setting.Change {
	path := []any{"checks", "category", "lists"}
	if len(lists) == 0 {
		return setting.Change{Path: path[:2], Remove: true}
	}
	return setting.Change{Path: path, Value: lists}
}

// removal returns the changes that take a list out of the settings. With rules, they also take its
// categories, which no other list has, out of the rules.
func (p *Pages) removal(name string, rules bool) ([]setting.Change, error) {
	checked := p.Lists.checked()
	all := []setting.Change{{Path: []any{"lists", name}, Remove: true}}
	if slices.Contains(checked, name) {
		all = append(all, checkChange(slices.DeleteFunc(slices.Clone(checked), func(n string) bool { return n == name })))
	}
	if !rules {
		return all, nil
	}
	policies, err := p.policies()
	if err != nil {
		return nil, err
	}
	gone := p.onlyIn(name)
	for i, of := range policies {
		for j := range slices.Backward(of.Rules[:own(of)]) {
			r, path := &of.Rules[j], []any{"policies", i, "rules", j}
			rest := slices.DeleteFunc(slices.Clone(r.Category), func(c string) bool {
				return slices.ContainsFunc(gone, func(g string) bool { return strings.EqualFold(strings.TrimPrefix(c, "category/"), g) })
			})
			switch {
			case len(rest) == len(r.Category):
			case len(rest) == 0:
				all = append(all, setting.Change{Path: path, Remove: true})
			default:
				all = append(all, setting.Change{Path: append(path, "category"), Value: rest})
			}
		}
	}
	return all, nil
}

// onlyIn returns the categories that a list has and no other.
func (p *Pages) onlyIn(name string) (all []string) {
	c, _ := p.Lists.In()
	others := map[string]bool{}
	var mine []string
	for _, r := range c.Reports() {
		if r.Name == name {
			mine = c.CategoriesOf(name)
			continue
		}
		for _, x := range c.CategoriesOf(r.Name) {
			others[strings.ToLower(x)] = true
		}
	}
	for _, x := range mine {
		if !others[strings.ToLower(x)] {
			all = append(all, x)
		}
	}
	return all
}

// policies returns the policies in use, complete with what they have from their bases.
func (p *Pages) policies() (all []*policy.Policy, err error) {
	if p.Settings == nil || p.Settings.Policies == nil {
		return nil, nil
	}
	views, err := p.Settings.Policies()
	for i := range views {
		if views[i].Of != nil {
			all = append(all, views[i].Of)
		}
	}
	return all, err
}

// entriesOf returns how many entries of all kinds a list has.
func entriesOf(r *list.Report) int { return r.Entries + r.Networks + r.Exprs + r.Rules }

// checked returns the lists that the check of categories looks into.
func (l *Lists) checked() []string {
	if l.Checked == nil {
		return nil
	}
	return l.Checked()
}
