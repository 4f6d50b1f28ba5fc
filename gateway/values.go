package gateway

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/policy"
)

// values returns the policies with the lists that conditions of rules name as
// "@FILE" read in their place: extensions, media types and searches of
// e2guardian.
func (e *Engine) values() (policy.Config, error) {
	policies := slices.Clone(e.settings.Policies)
	for i := range policies {
		p := &policies[i]
		p.Rules = slices.Clone(p.Rules)
		for j := range p.Rules {
			r := &p.Rules[j]
			for _, c := range []struct {
				kind string
				to   *[]string
			}{{list.Extensions, &r.Extension}, {list.MediaTypes, &r.Type}, {list.Searches, &r.Search}} {
				var err error
				if *c.to, err = e.expand(*c.to, c.kind); err != nil {
					return nil, filter.Setting(fmt.Sprintf("policies[%d].rules[%d]", i, j), err)
				}
			}
		}
	}
	return policies, nil
}

func (e *Engine) expand(values []string, kind string) ([]string, error) {
	if !slices.ContainsFunc(values, func(s string) bool { return strings.HasPrefix(s, "@") }) {
		return values, nil
	}
	var all []string
	for i, s := range values {
		file, named := strings.CutPrefix(s, "@")
		if !named {
			all = append(all, s)
			continue
		}
		v, err := list.ReadValues(e.settings.path(file), kind)
		if err != nil {
			return nil, filter.Setting(fmt.Sprintf("%s[%d]", kind, i), err)
		}
		e.files = append(e.files, v.Files...)
		e.odd = append(e.odd, v.Problems...)
		all = append(all, v.Values...)
	}
	if len(all) == 0 { // a rule without the condition would fit everything
		return nil, filter.Setting(kind, fmt.Errorf("there is nothing in %s; leave the rule out", strings.Join(values, ", ")))
	}
	return all, nil
}
