package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"shuultuur/engine/configuration"
	"shuultuur/list"
)

const searchHelp = `
Says which of the compiled lists of the settings have a host or URL, and where
it is written. The exit status is 1 when none has.`

func searchLists(ctx context.Context, e env, args []string) int {
	config, wanted, status := withConfig(e, "search", args, 1, 1)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return searchThere(ctx, e, wanted[0])
	}
	lists, err := configuration.OpenLists(ctx, config)
	if err != nil {
		return fail(e, err)
	}
	found := false
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		var messages strings.Builder
		if status := lookUp(env{stdin: e.stdin, stdout: &messages, stderr: e.stderr}, lists[name], name, wanted); status == 0 {
			found = true
			for line := range strings.Lines(messages.String()) {
				fmt.Fprintf(e.stdout, "%s: %s", name, line)
			}
		} else if status == 2 {
			return status
		}
	}
	if !found {
		fmt.Fprintf(e.stdout, "%s: not in any of %d lists\n", wanted[0], len(lists))
		return 1
	}
	return 0
}

// searchThere prints the lists that have a host or URL.
func searchThere(ctx context.Context, e env, name string) int {
	hits, err := e.at.SearchLists(ctx, name)
	if err != nil {
		return fail(e, err)
	}
	for _, h := range hits {
		not := ""
		if h.Exception {
			not = "not "
		}
		fmt.Fprintf(e.stdout, "%s: %s: %s%s, %s\n", h.List, printable(name), not, printable(h.Category), printable(h.Evidence))
	}
	if len(hits) == 0 {
		fmt.Fprintf(e.stdout, "%s: not in any list\n", printable(name))
		return 1
	}
	return 0
}

// lookUp prints what a list, which is called so, says of names. It goes on after one that is none.
func lookUp(e env, f *list.File, called string, names []string) int {
	status := 0
	for _, name := range names {
		found, err := f.Ask(name)
		if err != nil {
			fmt.Fprintf(e.stderr, "shuultuur: %s: %v\n", called, err)
			status = 2
			continue
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
