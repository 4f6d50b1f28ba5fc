package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"shuultuur/lib/setting"
)

// own are the keys of a policy that no other policy takes over: whom it covers and when, and what
// is expected of its own clients. Rules are put behind one another instead.
var own = []string{"name", "base", "networks", "users", "groups", "unknown", "schedule", "rules", "expect"}

// Complete returns the policies with what they have from their bases: each key that a policy does
// not have, and the rules of its base behind its own, without those that it switches off by name.
// has reports whether key i of the settings, such as "[1].safesearch", is there, whatever its
// value. Mistakes are a [setting.Error] whose key begins with the index of the policy.
func (c Config) Complete(has func(key string) bool) (Config, error) {
	order, err := c.basesFirst()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(c)
	for _, i := range order {
		p := &all[i]
		var base []Rule
		if b := c.named(p.Base); b >= 0 {
			base = all[b].Rules
			p.take(&all[b], func(key string) bool { return has(fmt.Sprintf("[%d].%s", i, key)) })
		}
		if p.Rules, err = behind(p.Rules, base, p.Base); err != nil {
			return nil, setting.At(fmt.Sprintf("[%d]", i), err)
		}
	}
	return all, nil
}

// take gives a policy the keys of its base that it does not have.
func (p *Policy) take(base *Policy, has func(key string) bool) {
	to, from := reflect.ValueOf(p).Elem(), reflect.ValueOf(base).Elem()
	for i := range to.NumField() {
		key, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("yaml"), ",")
		if !slices.Contains(own, key) && to.Field(i).IsZero() && !has(key) {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// behind returns the rules of a policy followed by those of its base.
func behind(rules, base []Rule, name string) ([]Rule, error) {
	all := slices.Clone(rules)
	at := map[string]int{}
	for i := range rules {
		at[rules[i].Name] = i
	}
	inBase := map[string]bool{}
	for _, r := range base {
		if r.Off {
			continue
		}
		inBase[r.Name] = true
		if i, taken := at[r.Name]; taken && rules[i].Off {
			continue
		} else if taken {
			return nil, setting.At(fmt.Sprintf("rules[%d].name", i), fmt.Errorf("the base %q has a rule %q, too; give this one another name, and switch that one off with {name: %q, off: true} if this one replaces it", name, r.Name, r.Name))
		}
		if r.From == "" {
			r.From = name
		}
		// Whoever moves the files of the settings moves those of the base once, and these once.
		r.Extension, r.Type, r.Search = slices.Clone(r.Extension), slices.Clone(r.Type), slices.Clone(r.Search)
		all = append(all, r)
	}
	for i := range rules {
		if r := &rules[i]; r.Off && r.Action == "" && !inBase[r.Name] {
			return nil, setting.At(fmt.Sprintf("rules[%d].off", i), errors.New("this switches nothing off: "+offWhat(r.Name, name)))
		}
	}
	return all, nil
}

func offWhat(rule, base string) string {
	if base == "" {
		return fmt.Sprintf("the policy has no base, and the rule %q itself says nothing", rule)
	}
	return fmt.Sprintf("the base %q has no rule %q", base, rule)
}

// named returns the index of a policy, -1 without one.
func (c Config) named(name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(c, func(p Policy) bool { return p.Name == name })
}

// basesFirst returns the indexes of the policies, each after that of its base.
func (c Config) basesFirst() (order []int, err error) {
	done := make([]bool, len(c))
	for i := range c {
		var above []int // policies that wait for their base, the first one in front
		for j := i; j >= 0 && !done[j]; {
			if n := slices.Index(above, j); n >= 0 {
				return nil, setting.At(fmt.Sprintf("[%d].base", i), fmt.Errorf("the policy %q is its own base, by way of %s", c[j].Name, c.names(above[n:])))
			}
			above = append(above, j)
			base := c[j].Base
			b := c.named(base)
			if base != "" && b < 0 {
				return nil, setting.At(fmt.Sprintf("[%d].base", j), fmt.Errorf("there is no policy %q%s", base, setting.DidYouMean(base, c.eachName())))
			}
			j = b
		}
		for _, j := range slices.Backward(above) {
			order, done[j] = append(order, j), true
		}
	}
	return order, nil
}

func (c Config) names(of []int) string {
	var all []string
	for _, i := range of {
		all = append(all, fmt.Sprintf("%q", c[i].Name))
	}
	return strings.Join(all, ", ")
}

func (c Config) eachName() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range c {
			if c[i].Name != "" && !yield(c[i].Name) {
				return
			}
		}
	}
}

// on returns the rules that are not switched off.
func on(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Off })
}

// Place returns the key of a rule where it is written, such as "[1].rules[0]", or of its policy if
// no rule of this name is there; "" if there is no such policy.
func (c Config) Place(policy, rule string) string {
	i := c.named(policy)
	if i < 0 {
		return ""
	}
	j := slices.IndexFunc(c[i].Rules, func(r Rule) bool { return rule != "" && r.Name == rule && !r.Off })
	switch {
	case j < 0:
		return fmt.Sprintf("[%d]", i)
	case c[i].Rules[j].From != "":
		return c.Place(c[i].Rules[j].From, rule)
	}
	return fmt.Sprintf("[%d].rules[%d]", i, j)
}
