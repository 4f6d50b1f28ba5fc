//go:build !small

// Package rules is for authors of signature rules. A [Set] names rule files with their groups,
// classes and thresholds, and compiles them; [Lint] and [Count] say what is in rule files;
// [Replay] tries rules on captures and writes alerts as Suricata does, and [Read] feeds them
// other inputs to test a rule on.
package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"shuultuur/check/signature"
	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/rule"
	"shuultuur/lib/suricata/state"
)

// Private are the clients that rules protect in captures: Suricata's HOME_NET.
const Private = "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"

// A Set names rules and what they refer to.
type Set struct {
	Files       []string // rule files, tarballs or folders
	Vars, Ports []string // groups, NAME=VALUE
	Suricata    string   // suricata.yaml, whose groups are used; "" for none
	Classes     string   // classification.config; "" for only the usual classes
	Limits      string   // threshold.config; "" for none
}

// groups returns the address and port groups. home is HOME_NET unless it is set.
func (r *Set) groups(home string) (vars, ports map[string]string, err error) {
	vars, ports = address.Groups()
	vars["HOME_NET"] = home
	if r.Suricata != "" {
		s, err := signature.ReadSuricata(r.Suricata)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(vars, s.Vars)
		maps.Copy(ports, s.Ports)
	}
	for _, s := range []struct {
		list []string
		to   map[string]string
	}{{r.Vars, vars}, {r.Ports, ports}} {
		for _, x := range s.list {
			name, value, ok := strings.Cut(x, "=")
			if !ok {
				return nil, nil, fmt.Errorf("%q is not NAME=VALUE", x)
			}
			s.to[strings.TrimPrefix(name, "$")] = value
		}
	}
	return vars, ports, nil
}

// Compile reads the rules, for the clients home unless HOME_NET is set. Mistakes go to w.
func (r *Set) Compile(home string, c engine.Config, w io.Writer) (*engine.Engine, error) {
	if len(r.Files) == 0 {
		return nil, errors.New("no rules: name them with -rules FILE")
	}
	parser := rule.NewParser()
	if r.Suricata != "" {
		s, err := signature.ReadSuricata(r.Suricata)
		if err != nil {
			return nil, err
		}
		c.Sets = s.Sets
		for _, name := range s.Off {
			delete(parser.Features, name)
		}
	}
	rules, mistakes, err := parser.ReadFiles(r.Files...)
	if err != nil {
		return nil, err
	}
	c.Rules, _ = rule.Unique(rules)
	c.Beside = parser.Beside
	if c.Vars, c.Ports, err = r.groups(home); err != nil {
		return nil, err
	}
	c.Classes = engine.Classes()
	if r.Classes != "" {
		data, err := os.ReadFile(r.Classes)
		if err == nil {
			var more map[string]*engine.Class
			more, err = engine.ReadClasses(r.Classes, bytes.NewReader(data))
			maps.Copy(c.Classes, more)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Limits != "" {
		data, err := os.ReadFile(r.Limits)
		if err == nil {
			c.Limits, err = state.ReadLimits(r.Limits, bytes.NewReader(data))
		}
		if err != nil {
			return nil, err
		}
	}
	c.Scripts = lua.NewPool(lua.Limits{}).Load
	e, more, err := engine.New(c)
	if err != nil {
		return nil, err
	}
	for _, m := range slices.Concat(mistakes, more) {
		fmt.Fprintln(w, m)
	}
	return e, nil
}
