//go:build !small

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"shuultuur/check/signature/engine"
	"shuultuur/check/signature/lua"
	"shuultuur/check/signature/rule"
)

const rulesHelp = `
FILE is a rule file, plain or gzip, a tarball of rule files, or a folder.`

// rulesCommands are the subcommands of "shuultuur rules".
func rulesCommands() []command {
	return []command{
		{name: "lint", args: "[-v] FILE...", what: "report every mistake with file, line, keyword and remedy", run: rulesLint, here: ofFiles},
		{name: "stats", args: "[-json] FILE...", what: "count rules, actions, protocols, classes and keywords", run: rulesStats, here: ofFiles},
		{name: "keywords", args: "[WORD...]", what: "list the keywords of the language and where they count", run: rulesKeywords, here: ofFiles},
		{name: "explain", args: "-rules FILE SID...", what: "show what a rule waits for and why it is slow", run: rulesExplain, here: ofFiles},
		{name: "test", args: "-rules FILE MESSAGE...", what: "show how far each rule gets on a capture, a HAR file or a message", run: rulesTest, here: ofFiles},
		{name: "update", args: "[-config FILE] [NAME...]", what: "fetch the rules of the settings again", run: ruleShelf().update, here: ofShelf},
		{name: "history", args: "[-config FILE] [NAME...]", what: "show the kept versions of fetched rules, and which is in use", run: ruleShelf().history, here: ofShelf},
		{name: "rollback", args: "[-config FILE] NAME...", what: "return to the previous version", run: ruleShelf().rollback, here: ofShelf},
		{name: "profile", args: "[-config FILE | -rules FILE CAPTURE...]", what: "show what each rule costs in the running gateway, or on captures", run: rulesProfile},
	}
}

func rulesCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "rules", rulesHelp, rulesCommands(), args)
}

// rulesLint prints the mistakes in rule files. The exit status is 1 if there
// are any.
func rulesLint(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "rules lint", "[flags] FILE...", "Reports every mistake in rule files. Rules that are inactive in the gateway are counted, and listed with -v.")
	verbose := f.Bool("v", false, "also name rules that are inactive, and why")
	var groups ruleFlags
	groups.defineGroups(f)
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	parser := rule.NewParser()
	rules, mistakes, err := parser.ReadFiles(f.Args()...)
	if err != nil {
		return fail(e, err)
	}
	kept, twice := rule.Unique(rules)
	// Mistakes in addresses, ports, transforms, scripts and lists appear when rules are
	// compiled.
	c := engine.Config{Rules: kept, Beside: parser.Beside, Classes: engine.Classes(), Packets: true, Scripts: lua.NewPool(lua.Limits{}).Load}
	if c.Vars, c.Ports, err = groups.groups(engine.Clients); err != nil {
		return fail(e, err)
	}
	_, more, err := engine.New(c)
	if err != nil {
		return fail(e, err)
	}
	mistakes = append(mistakes, more...)
	for _, m := range slices.Concat(mistakes, twice) {
		fmt.Fprintln(e.stdout, m)
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
			why = fmt.Sprintf("%s looks at a protocol or service that is not inspected", r.Foreign[0])
		case len(r.Packet) > 0:
			packet++
			why = fmt.Sprintf("%s needs packets: the rule counts in captures only", r.Packet[0])
		}
		if *verbose && why != "" {
			fmt.Fprintf(e.stdout, "%s:%d: sid %d is inactive: %s\n", r.File, r.Line, r.SID, why)
		}
	}
	fmt.Fprintf(e.stdout, "%d rules, %d mistakes, %d given twice, %d for captures only, %d inactive, %d not for this version\n",
		len(kept), len(mistakes), len(twice), packet, foreign, skipped)
	if len(mistakes) > 0 {
		return 1
	}
	return 0
}

// rulesStats counts the rules in rule files by their properties.
func rulesStats(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "rules stats", "[flags] FILE...", "Counts rules by action, protocol, class and keyword.")
	asJSON := f.Bool("json", false, "print one JSON object")
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	p := rule.NewParser()
	p.Options = true
	rules, mistakes, err := p.ReadFiles(f.Args()...)
	if err != nil {
		return fail(e, err)
	}
	count := map[string]map[string]int{"action": {}, "protocol": {}, "class": {}, "keyword": {}, "counts": {}}
	for _, r := range rules {
		count["action"][r.Action.String()]++
		count["protocol"][r.Proto]++
		count["class"][r.Class]++
		seen := map[string]bool{}
		for _, o := range r.Options {
			if !seen[o.Name] {
				seen[o.Name] = true
				count["keyword"][o.Name]++
			}
		}
		switch {
		case r.Skip != "":
			count["counts"]["not for this version"]++
		case len(r.Foreign) > 0:
			count["counts"]["inactive"]++
		case len(r.Packet) > 0:
			count["counts"]["captures only"]++
		default:
			count["counts"]["gateway and captures"]++
		}
	}
	if *asJSON {
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(map[string]any{"rules": len(rules), "mistakes": len(mistakes), "by": count}); err != nil {
			return fail(e, err)
		}
		return 0
	}
	fmt.Fprintf(e.stdout, "%d rules, %d mistakes\n", len(rules), len(mistakes))
	for _, by := range []string{"counts", "action", "protocol", "class", "keyword"} {
		fmt.Fprintf(e.stdout, "\n%s\n", by)
		m := count[by]
		for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
			if m[a] != m[b] {
				return m[b] - m[a]
			}
			if a < b {
				return -1
			}
			return 1
		}) {
			fmt.Fprintf(e.stdout, "%8d  %s\n", m[k], k)
		}
	}
	return 0
}

// rulesKeywords lists the keywords.
func rulesKeywords(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "rules keywords", "[WORD...]", "Lists keywords and where they work: in the rule itself, in messages, in packets of captures, or nowhere.")
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	unknown := 0
	known := map[string]rule.Class{}
	for _, k := range rule.Keywords() {
		known[k.Name] = k.Class
		if f.NArg() == 0 {
			fmt.Fprintf(e.stdout, "%-40s %s\n", k.Name, k.Class)
		}
	}
	for _, w := range f.Args() {
		if known[w] == rule.Unknown {
			unknown = 1
		}
		fmt.Fprintf(e.stdout, "%-40s %s\n", w, known[w])
	}
	return unknown
}
