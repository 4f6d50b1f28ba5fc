package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/list"
	"shuultuur/setting"
)

const listHelp = `
compile SOURCE FILE   compile a list into FILE and say what became of its lines
look FILE NAME...     look hosts or URLs up in a compiled list
add FILE ENTRY...     add hosts or URLs to a compiled list
remove FILE ENTRY...  remove them from it

update, history, rollback, stats, search, lint, catalogue
                      the lists of the settings: "shuultuur list update -h" says more
diff OLD NEW          what two lists have that the other has not
export redis LIST...  lists as Redis commands, for programs that look there

SOURCE is a file or folder; its format is guessed unless -format names one of
ut1, domains, hosts, adblock, wildcard, dnsmasq, unbound, rpz, networks,
json, csv, e2guardian, e2guardian-regexp, expressions. The gateway compiles the lists
of its settings by itself; this is for a look at a list alone, and for single
entries: they are written beside the list, and worked in when they are more than
a hundredth of it. A gateway that has the list open sees them at its next reload.
With -at, FILE is the name of a list of the gateway elsewhere, which uses them at once.`

func lists(ctx context.Context, e env, args []string) int {
	if len(args) > 0 {
		for _, c := range listCommands() {
			if c.name == args[0] {
				return c.start(ctx, e, "list "+c.name, args[1:])
			}
		}
	}
	var cfg list.Config
	f, parse := flags(e, "list", "[flags] compile SOURCE FILE | look FILE NAME... | add|remove FILE ENTRY...", listHelp)
	f.StringVar(&cfg.Format, "format", "", "`format` of the source")
	f.StringVar(&cfg.Category, "category", "", "`category` of every entry")
	f.StringVar(&cfg.Match, "match", "", "how URLs match: `boundary` or prefix")
	all := f.Bool("v", false, "print every refused or odd line")
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	if e.at != nil {
		return changeThere(ctx, e, f, cfg.Category)
	}
	switch {
	case f.Arg(0) == "compile" && f.NArg() == 3:
		return compileList(ctx, e, cfg, f.Arg(1), f.Arg(2), *all)
	case f.Arg(0) == "look" && f.NArg() >= 3:
		return lookUp(e, f.Arg(1), f.Args()[2:])
	case (f.Arg(0) == "add" || f.Arg(0) == "remove") && f.NArg() >= 3:
		var changes []list.Change
		for _, entry := range f.Args()[2:] {
			changes = append(changes, list.Change{Entry: entry, Category: cfg.Category, Remove: f.Arg(0) == "remove"})
		}
		if err := list.Amend(ctx, f.Arg(1), changes...); err != nil {
			return fail(e, err)
		}
		return 0
	}
	if f.NArg() == 0 {
		f.Usage()
		return 2
	}
	fail(e, wrongList(f.Args()))
	return 2
}

// changeThere adds entries to a list of the gateway elsewhere, or removes them.
func changeThere(ctx context.Context, e env, f *flag.FlagSet, category string) int {
	word := f.Arg(0)
	if word != "add" && word != "remove" || f.NArg() < 3 {
		fmt.Fprintf(e.stderr, "%s: -at: %q works on this machine alone: %s; write list add NAME ENTRY..., list remove NAME ENTRY..., or one of %s\n",
			cmp.Or(e.program, "shuultuur"), strings.TrimSpace("list "+word), ofFiles, strings.Join(remoteCommands(listCommands(), ""), ", "))
		return 2
	}
	err := e.needs(f, "category")
	if err == nil {
		var changes []list.Change
		for _, entry := range f.Args()[2:] {
			changes = append(changes, list.Change{Entry: entry, Category: category, Remove: word == "remove"})
		}
		err = e.at.ChangeList(ctx, f.Arg(1), changes)
	}
	if err != nil {
		return fail(e, err)
	}
	return 0
}

// wrongList returns the error for arguments of a list command that cannot be run.
func wrongList(args []string) error {
	own := []command{{name: "compile", args: "SOURCE FILE"}, {name: "look", args: "FILE NAME..."}, {name: "add", args: "FILE ENTRY..."}, {name: "remove", args: "FILE ENTRY..."}}
	for _, c := range own {
		switch {
		case c.name != args[0]:
		case c.name == "compile" && len(args) > 3:
			return fmt.Errorf("%q is one argument too many; usage: shuultuur list %s %s", args[3], c.name, c.args)
		default:
			return fmt.Errorf("an argument is missing; usage: shuultuur list %s %s", c.name, c.args)
		}
	}
	return fmt.Errorf("there is no command %q%s; \"shuultuur list -h\" lists them", "list "+args[0], commandHint(args[0], append(own, listCommands()...)))
}

func compileList(ctx context.Context, e env, cfg list.Config, source, file string, all bool) int {
	cfg.Path = setting.Source(source)
	name := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
	r, err := list.Compile(ctx, name, cfg, file)
	if err != nil {
		return fail(e, err)
	}
	if all {
		for _, p := range r.Problems {
			fmt.Fprintln(e.stdout, p)
		}
	}
	printReport(e, file, r)
	return 0
}

func printReport(e env, name string, r list.Report) {
	fmt.Fprintf(e.stdout, "%s: %d entries (%d URLs, %d exceptions) in %d categories, %d bytes, %s\n",
		name, r.Entries, r.URLs, r.Exceptions, len(r.Categories), r.Bytes, r.Took.Round(time.Millisecond))
	if r.Networks+r.Exprs+r.Rules > 0 {
		fmt.Fprintf(e.stdout, "%d networks, %d expressions, %d rules\n", r.Networks, r.Exprs, r.Rules)
	}
	fmt.Fprintf(e.stdout, "%d lines: %d refused, %d ignored, %d there already\n", r.Lines, r.Bad, r.Ignored, r.Duplicates)
	names := make([]string, 0, len(r.Categories))
	for c := range r.Categories {
		names = append(names, c)
	}
	slices.Sort(names)
	for _, c := range names {
		fmt.Fprintf(e.stdout, "%9d  %s\n", r.Categories[c], c)
	}
}

func lookUp(e env, file string, names []string) int {
	f, err := list.Open(file)
	if err != nil {
		return fail(e, err)
	}
	defer f.Close()
	status := 0
	for _, name := range names {
		found, err := f.Ask(name)
		if err != nil {
			fmt.Fprintf(e.stderr, "shuultuur: %s: %v\n", file, err)
			return 2
		}
		if len(found) == 0 {
			fmt.Fprintf(e.stdout, "%s: not listed\n", name)
			status = max(status, 1)
		}
		for _, m := range found {
			not := ""
			if m.Exception {
				not = "not "
			}
			fmt.Fprintf(e.stdout, "%s: %s%s, %s\n", name, not, m.Category, m.Evidence)
		}
	}
	return status
}
