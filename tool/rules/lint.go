//go:build !small

package rules

import (
	"fmt"
	"io"
	"slices"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/rule"
)

// Lint writes every mistake in rule files to w, and with verbose also the rules that are inactive
// in the gateway. groups has the groups that rules refer to. It returns the number of mistakes.
func Lint(w io.Writer, groups *Set, verbose bool, files ...string) (int, error) {
	parser := rule.NewParser()
	rules, mistakes, err := parser.ReadFiles(files...)
	if err != nil {
		return 0, err
	}
	kept, twice := rule.Unique(rules)
	// Mistakes in addresses, ports, transforms, scripts and lists appear when rules are
	// compiled.
	c := engine.Config{Rules: kept, Beside: parser.Beside, Classes: engine.Classes(), Packets: true, Scripts: lua.NewPool(lua.Limits{}).Load}
	if c.Vars, c.Ports, err = groups.groups(address.Clients); err != nil {
		return 0, err
	}
	_, more, err := engine.New(c)
	if err != nil {
		return 0, err
	}
	mistakes = append(mistakes, more...)
	for _, m := range slices.Concat(mistakes, twice) {
		fmt.Fprintln(w, m)
	}
	packet, foreign, skipped := 0, 0, 0
	for _, r := range rules {
		why := ""
		switch {
		case r.Skip != "":
			skipped++
			why = r.Skip
		case len(r.Foreign) > 0:
			foreign++
			why = fmt.Sprintf("%s looks at a protocol, service or event that is not inspected", r.Foreign[0])
		case len(r.Packet) > 0:
			packet++
			why = fmt.Sprintf("%s needs packets: the rule counts in captures only", r.Packet[0])
		}
		for _, x := range r.Conditions {
			if x, ok := x.(*rule.Word); ok && verbose && why == "" && rule.Idle(x.Keyword) {
				fmt.Fprintf(w, "%s:%d: sid %d matches, but %s has no effect\n", r.File, r.Line, r.SID, x.Keyword)
			}
		}
		if verbose && why != "" {
			fmt.Fprintf(w, "%s:%d: sid %d is inactive: %s\n", r.File, r.Line, r.SID, why)
		}
	}
	_, err = fmt.Fprintf(w, "%d rules, %d mistakes, %d given twice, %d for captures only, %d inactive, %d not for this version\n",
		len(kept), len(mistakes), len(twice), packet, foreign, skipped)
	return len(mistakes), err
}
