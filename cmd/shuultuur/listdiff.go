//go:build !small

package main

import (
	"context"
	"fmt"

	"shuultuur/cmd/shuultuur/entries"
)

const diffHelp = `
Shows which hosts and URLs are in one list and not in the other: - in OLD only,
+ in NEW only. Either is a source (a file or folder, such as a version in
DATA/sources) or a compiled list. Of entries, = is a host without its
subdomains, *. subdomains without the host, @@ an exception. Networks,
expressions and rules of ad blockers are compared as they are written. Single
changes to a compiled list (list add, list remove) count when they are worked
in. The exit status is 1 when the two differ.`

func diffLists(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "list diff", "[-format FORMAT] OLD NEW", diffHelp)
	format := f.String("format", "", "`format` of sources")
	short := f.Bool("count", false, "show only the number")
	if status := parse(args, 2, 2); status >= 0 {
		return status
	}
	before, err := entries.Of(ctx, *format, f.Arg(0))
	if err != nil {
		fail(e, err)
		return 2
	}
	after, err := entries.Of(ctx, *format, f.Arg(1))
	if err != nil {
		fail(e, err)
		return 2
	}
	var added, removed, both int
	show := func(mark, entry string) {
		if !*short {
			fmt.Fprintln(e.stdout, mark, entry)
		}
	}
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			show("-", before[0])
			before = before[1:]
			removed++
		case len(before) == 0 || after[0] < before[0]:
			show("+", after[0])
			after = after[1:]
			added++
		default:
			before, after = before[1:], after[1:]
			both++
		}
	}
	fmt.Fprintf(e.stdout, "%d added, %d removed, %d in both\n", added, removed, both)
	if added+removed > 0 {
		return 1
	}
	return 0
}
