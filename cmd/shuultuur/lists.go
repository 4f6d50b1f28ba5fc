package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"shuultuur/list"
)

const listHelp = `
SOURCE is a file or folder; its format is guessed unless -format names one of

  FORMATS

The gateway compiles the lists of its settings by itself; compile, look, add and
remove are for a look at a list alone, and for single entries: they are written
beside the list, and worked in when they are more than a hundredth of it. A
gateway that has the list open sees them at its next reload. With -at, FILE is
the name of a list of the gateway elsewhere, which uses them at once.`

// listCommands are the subcommands of list.
func listCommands() []command {
	return append([]command{
		{name: "compile", args: "[flags] SOURCE FILE", what: "Compiles a list into FILE and says what became of its lines.", run: listCompile, here: ofFiles},
		{name: "look", args: "FILE NAME...", what: "Looks hosts or URLs up in a compiled list. The exit status is 1 when one is not listed.", run: listLook, here: `it reads a file; with -at there are "list search NAME" and "list add NAME ENTRY..."`},
		{name: "add", args: "[-category CATEGORY] FILE ENTRY...", what: "Adds hosts or URLs to a compiled list.", run: changeList("add", false)},
		{name: "remove", args: "[-category CATEGORY] FILE ENTRY...", what: "Removes hosts or URLs from a compiled list.", run: changeList("remove", true)},
		{name: "update", args: "[-config FILE] [NAME...]", what: updateHelp, run: listShelf().update},
		{name: "catalogue", args: "[WORD]", what: catalogueHelp, run: inJSON(showCatalogue), here: ofFiles},
		{name: "history", args: "[-config FILE] [NAME...]", what: historyHelp, run: inJSON(listShelf().history)},
		{name: "rollback", args: "[-config FILE] NAME...", what: rollbackHelp, run: listShelf().rollback},
		{name: "stats", args: "[-config FILE] [NAME...]", what: statsHelp, run: inJSON(listStats)},
		{name: "search", args: "[-config FILE] HOST|URL", what: searchHelp, run: inJSON(searchLists)},
		{name: "lint", args: "[-config FILE | -format FORMAT SOURCE...] [NAME...]", what: lintHelp, run: inJSON(lintLists)},
	}, compareCommands()...)
}

func lists(ctx context.Context, e env, args []string) int {
	if i := slices.IndexFunc(args, isListVerb); i > 0 && strings.HasPrefix(args[0], "-") { // flags may come first
		args = slices.Concat(args[i:i+1], args[:i], args[i+1:])
	}
	var formats strings.Builder
	for i, name := range list.FormatNames() {
		switch {
		case i > 0 && i%8 == 0:
			formats.WriteString("\n  ")
		case i > 0:
			formats.WriteString(" ")
		}
		formats.WriteString(name)
	}
	help := strings.Replace(listHelp, "FORMATS", formats.String(), 1)
	return group(ctx, e, "list", help, listCommands(), args)
}

func isListVerb(arg string) bool {
	return slices.Contains([]string{"compile", "look", "add", "remove"}, arg)
}

// listFlags is [flags] for one of listCommands.
func listFlags(e env, name string) (*flag.FlagSet, parser) {
	all := listCommands()
	c := all[slices.IndexFunc(all, func(c command) bool { return c.name == name })]
	return flags(e, "list "+name, c.args, c.what)
}

// withConfig parses the arguments of one of listCommands. status is -1 if it
// may continue.
func withConfig(e env, name string, args []string, least, most int) (config string, rest []string, status int) {
	f, parse := listFlags(e, name)
	file := f.String("config", "", "settings `file`")
	if status := parse(args, least, most); status >= 0 {
		return "", nil, status
	}
	if err := e.needs(f); err != nil {
		return "", nil, fail(e, err)
	}
	return askedFile(*file), f.Args(), -1
}

// namesThere returns names or, if none are given, the names of all lists; with fetched, only
// of the fetched ones.
func namesThere(ctx context.Context, e env, names []string, fetched bool) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	all, err := e.at.Lists(ctx)
	for _, l := range all {
		if l.Web || !fetched {
			names = append(names, l.Name)
		}
	}
	return names, err
}

// eachList calls do for each list.
func eachList(e env, names []string, err error, do func(name string) error) int {
	if err != nil {
		return fail(e, err)
	}
	status := 0
	for _, name := range names {
		if err := do(name); err != nil {
			status = fail(e, fmt.Errorf("list %s: %w", name, err))
		}
	}
	return status
}
