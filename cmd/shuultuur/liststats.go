package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/list"
)

const statsHelp = `
Shows what is in the compiled lists of the settings.`

func listStats(ctx context.Context, e env, args []string) int {
	config, names, status := withConfig(e, "stats", args, 0, 1000)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return statsThere(ctx, e, names)
	}
	lists, err := configuration.OpenLists(ctx, config)
	if err != nil {
		return fail(e, err)
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(lists))
	}
	for _, name := range names {
		if lists[name] == nil {
			return fail(e, fmt.Errorf("the settings have no list %s; they have %s", name, strings.Join(slices.Sorted(maps.Keys(lists)), ", ")))
		}
		r, err := lists[name].Report()
		if err != nil {
			return fail(e, err)
		}
		printReport(e, name, r)
	}
	return 0
}

// statsThere prints the contents of lists in numbers.
func statsThere(ctx context.Context, e env, names []string) int {
	names, err := namesThere(ctx, e, names, false)
	return eachList(e, names, err, func(name string) error {
		l, err := e.at.List(ctx, name, false)
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%s: %d entries, %d networks, %d expressions, %d rules; %d lines, %d refused, %d there already\n",
			name, l.Entries, l.Networks, l.Exprs, l.Rules, l.Lines, l.Refused, l.Twice)
		for _, c := range slices.Sorted(maps.Keys(l.Categories)) {
			fmt.Fprintf(e.stdout, "%9d  %s\n", l.Categories[c], printable(c))
		}
		return nil
	})
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
