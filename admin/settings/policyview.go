package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"shuultuur/lib/setting"
	"shuultuur/policy"
)

// PolicyViewer makes the views of the settings in use, and keeps them: many pages need them, and in a
// large text they are thousands of rules.
type PolicyViewer struct {
	mu  sync.Mutex
	of  *setting.Text
	all []PolicyView
}

// Views is PolicyViews. What it returns may be changed by the caller.
func (k *PolicyViewer) Views(text *setting.Text, policies policy.Config) ([]PolicyView, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of != text {
		all, err := PolicyViews(text, policies)
		if err != nil {
			return nil, err
		}
		k.of, k.all = text, all
	}
	all := slices.Clone(k.all)
	for i := range all {
		all[i].Rules = slices.Clone(all[i].Rules)
	}
	return all, nil
}

// PolicyViews returns the policies with their text in the settings.
func PolicyViews(text *setting.Text, policies policy.Config) ([]PolicyView, error) {
	value, err := text.Value("policies")
	if err != nil {
		return nil, err
	}
	list, _ := value.([]any)
	all := []PolicyView{}
	for i, v := range list {
		m, _ := v.(map[string]any)
		p := PolicyView{Name: fmt.Sprint(m["name"]), Rules: []RuleView{}, Of: &policies[i]}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			switch key {
			case "name", "rules", "expect":
			case "base":
				p.Base = policies[i].Base
			case "schedule":
				p.Times = NewTimes(policies[i].Schedule)
			case "quotas":
				quotas, _ := m[key].([]any)
				for j, q := range quotas {
					p.Quotas = append(p.Quotas, "a day: "+plain(q))
					part, err := text.Part("policies", i, "quotas", j)
					var f *ruleFields
					if err == nil {
						f, err = fieldsIn(string(part), quotaKeys)
					}
					if err != nil {
						return nil, err
					}
					p.limits = append(p.limits, f)
				}
			case "networks", "users", "groups":
				p.Whom = append(p.Whom, key+": "+plain(m[key]))
			default:
				p.Says = append(p.Says, key+": "+plain(m[key]))
			}
		}
		p.Rules = append(p.Rules, ruleViews(text, i, m, policies[i].Rules)...)
		all = append(all, p)
	}
	for i, p := range policies {
		for _, r := range p.Rules {
			from := slices.IndexFunc(all, func(p PolicyView) bool { return r.From != "" && p.Name == r.From })
			if from < 0 {
				continue
			}
			at := slices.IndexFunc(all[from].Rules, func(of RuleView) bool { return of.Name == r.Name })
			if at < 0 {
				continue
			}
			view := all[from].Rules[at]
			view.From, view.Text = r.From, ""
			all[i].Rules = append(all[i].Rules, view)
		}
	}
	return all, nil
}

// ruleViews returns the rules that a policy itself has.
func ruleViews(text *setting.Text, i int, m map[string]any, of []policy.Rule) (all []RuleView) {
	rules, _ := m["rules"].([]any)
	for j, v := range rules {
		m, _ := v.(map[string]any)
		r := RuleView{Name: of[j].Name, Action: of[j].Action, Off: of[j].Off, When: []string{}, Times: NewTimes(of[j].Schedule)}
		if own, err := text.Part("policies", i, "rules", j); err == nil {
			r.Text = string(own)
			r.fields, _ = fieldsIn(r.Text, ruleKeys) // the settings in use can be read
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !slices.Contains([]string{"name", "action", "off"}, key) && (key != "schedule" || r.Week == nil) {
				r.When = append(r.When, key+": "+plain(m[key]))
			}
		}
		all = append(all, r)
	}
	return all
}

// plain writes a value of the settings for people.
func plain(v any) string {
	switch v := v.(type) {
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, plain(x))
		}
		return strings.Join(all, ", ")
	case map[string]any:
		var all []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			all = append(all, k+" "+plain(v[k]))
		}
		return strings.Join(all, ", ")
	case nil:
		return "–"
	}
	return fmt.Sprint(v)
}
