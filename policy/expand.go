package policy

import (
	"fmt"
	"slices"
	"strings"

	"shuultuur/lib/setting"
)

// Expand returns the policies with "@FILE" in conditions (extensions, media types and
// searches) replaced by the list. read reads a list for the condition of a key.
func (c Config) Expand(read func(file, key string) ([]string, error)) (Config, error) {
	all := slices.Clone(c)
	for i := range all {
		all[i].Rules = slices.Clone(all[i].Rules)
		for j := range all[i].Rules {
			r := &all[i].Rules[j]
			for _, of := range []struct {
				key string
				to  *[]string
			}{{"extension", &r.Extension}, {"type", &r.Type}, {"search", &r.Search}} {
				var err error
				if *of.to, err = expand(*of.to, of.key, read); err != nil {
					return nil, setting.At(fmt.Sprintf("[%d].rules[%d]", i, j), err)
				}
			}
		}
	}
	return all, nil
}

func expand(values []string, key string, read func(file, key string) ([]string, error)) ([]string, error) {
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
		more, err := read(file, key)
		if err != nil {
			return nil, setting.At(fmt.Sprintf("%s[%d]", key, i), err)
		}
		all = append(all, more...)
	}
	if len(all) == 0 { // a rule without the condition would match everything
		return nil, setting.At(key, fmt.Errorf("%s is empty; remove the rule", strings.Join(values, ", ")))
	}
	return all, nil
}
