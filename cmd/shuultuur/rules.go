//go:build !small

package main

import (
	"context"
	"fmt"

	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/rules"
)

const rulesHelp = `
FILE is a rule file, plain or gzip, a tarball of rule files, or a folder.`

// rulesCommands are the subcommands of "shuultuur rules".
func rulesCommands() []command {
	return []command{
		{name: "lint", args: "[-v] FILE...", what: "report every mistake with file, line, keyword and remedy", run: inJSON(rulesLint), here: ofFiles},
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
	var groups rules.Set
	groupFlags(f, &groups)
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	mistakes, err := rules.Lint(e.stdout, &groups, *verbose, f.Args()...)
	if err != nil {
		return fail(e, err)
	}
	return min(mistakes, 1)
}

// rulesStats counts the rules in rule files by their properties.
func rulesStats(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "rules stats", "[flags] FILE...", "Counts rules by action, protocol, class and keyword.")
	asJSON := f.Bool("json", false, "print one JSON object")
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	c, err := rules.Count(f.Args()...)
	if err != nil {
		return fail(e, err)
	}
	write := c.Text
	if *asJSON {
		write = c.JSON
	}
	if err := write(e.stdout); err != nil {
		return fail(e, err)
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
