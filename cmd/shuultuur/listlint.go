package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

const lintHelp = `
Reads lists and says what is wrong or of no use in them, with file and line:
lines that are refused or odd, entries that are there twice, entries that a
wider one covers, exceptions from nothing. Without -format it is about the
lists of the settings, all or those named, and if none is named about the phrase
lists too; with it, about files and folders ("-format auto" guesses, "-format
phrase" is for phrase lists). Of phrase lists it names phrases that can never
match, those that another line overrules, and with -harmless those that are on
too many pages that should pass. Nothing is written. The exit status is 1 when a
line was refused, or a phrase does not do what it should.`

func lintLists(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "list lint", "[-config FILE] [NAME...] | -format FORMAT SOURCE...", lintHelp)
	file := f.String("config", "", "settings `file`")
	format := f.String("format", "", "`format` of the sources")
	harmless, share := harmlessFlags(f)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	lists, status := map[string]list.Config{}, 0
	names := f.Args()
	if e.at != nil {
		if err := e.needs(f); err != nil {
			return fail(e, err)
		}
		return lintThere(ctx, e, names)
	}
	if *format == "phrase" {
		if len(names) == 0 {
			return reportMistake(e, f, "with -format, files are looked at: name one")
		}
		return lintPhraseLists(ctx, e, "", names, *harmless, *share)
	}
	if *format != "" {
		if len(names) == 0 {
			return reportMistake(e, f, "with -format, files are looked at: name one")
		}
		for _, path := range names {
			lists[path] = list.Config{Format: list.FormatName(*format), Path: setting.Source(path)}
		}
	} else {
		l, err := configuration.ReadLists(askedFile(*file))
		if err != nil {
			return fail(e, err)
		}
		lists = l.Configs
		maps.DeleteFunc(lists, func(name string, _ list.Config) bool { return l.Missing(name) })
		if len(names) == 0 {
			names = slices.Sorted(maps.Keys(lists))
			status = max(0, lintPhraseLists(ctx, e, askedFile(*file), nil, *harmless, *share))
		}
	}
	for _, name := range names {
		cfg, ok := lists[name]
		if !ok {
			status = fail(e, fmt.Errorf("list %s is not one of the settings", name))
			continue
		}
		l, err := list.Examine(ctx, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), cfg)
		if err != nil {
			status = fail(e, err)
			continue
		}
		for _, p := range l.All() {
			fmt.Fprintln(e.stdout, p)
		}
		printTotals(e, name, l)
		if l.Bad > 0 {
			status = max(status, 1)
		}
	}
	return status
}

// printTotals prints the numbers of a list and of its odd lines.
func printTotals(e env, name string, l *list.Lint) {
	fmt.Fprintf(e.stdout, "%s: %d lines, %d entries; %d refused, %d there already, %d covered by a wider entry, %d exceptions from nothing\n",
		name, l.Lines, l.Entries, l.Bad, l.Duplicates, l.Shadows, l.Voids)
}

// lintThere prints odd lines of lists.
func lintThere(ctx context.Context, e env, names []string) int {
	names, err := namesThere(ctx, e, names, false)
	bad := 0
	status := eachList(e, names, err, func(name string) error {
		l, err := e.at.List(ctx, name, true)
		if err != nil {
			return err
		}
		if l.Odd == nil {
			return errors.New(l.Error)
		}
		for _, p := range l.Odd.All() {
			fmt.Fprintln(e.stdout, printable(p.String()))
		}
		printTotals(e, name, l.Odd)
		bad += l.Odd.Bad
		return nil
	})
	if bad > 0 {
		status = max(status, 1)
	}
	return status
}
