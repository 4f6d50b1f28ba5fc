package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

func listCompile(ctx context.Context, e env, args []string) int {
	var cfg list.Config
	f, parse := listFlags(e, "compile")
	format := f.String("format", "", "`format` of the source")
	f.StringVar(&cfg.Category, "category", "", "`category` of every entry")
	f.StringVar(&cfg.Match, "match", "", "how URLs match: `boundary` or prefix")
	all := f.Bool("v", false, "print every refused or odd line")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	source, file := f.Arg(0), f.Arg(1)
	cfg.Path, cfg.Format, cfg.Accept = setting.Source(source), list.FormatName(*format), (*list.Report).Useless
	name := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
	r, err := list.Compile(ctx, name, cfg, file)
	if err != nil {
		return fail(e, err)
	}
	if *all {
		for _, p := range r.Problems {
			fmt.Fprintln(e.stdout, p)
		}
	}
	printReport(e, file, r)
	return 0
}

func listLook(_ context.Context, e env, args []string) int {
	f, parse := listFlags(e, "look")
	if status := parse(args, 2, -1); status >= 0 {
		return status
	}
	l, err := list.Open(f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	defer l.Close()
	return lookUp(e, l, f.Arg(0), f.Args()[1:])
}

// changeList returns the command that adds entries to a list, or removes them: a compiled file,
// or a list of the gateway given by -at.
func changeList(name string, remove bool) func(context.Context, env, []string) int {
	return func(ctx context.Context, e env, args []string) int {
		f, parse := listFlags(e, name)
		category := f.String("category", "", "`category` of every entry")
		if status := parse(args, 2, -1); status >= 0 {
			return status
		}
		var changes []list.Change
		for _, entry := range f.Args()[1:] {
			changes = append(changes, list.Change{Entry: entry, Category: *category, Remove: remove})
		}
		var err error
		if e.at != nil {
			err = e.at.ChangeList(ctx, f.Arg(0), changes)
		} else {
			err = list.Amend(ctx, f.Arg(0), changes...)
		}
		if err != nil {
			return fail(e, err)
		}
		return 0
	}
}
