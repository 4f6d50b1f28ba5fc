package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"shuultuur/list/source"
)

// The subcommands of "shuultuur -at URL list", which show and change the lists of
// another gateway.

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

// fetchThere makes the gateway fetch lists, or with back return to their
// previous version.
func fetchThere(ctx context.Context, e env, names []string, back bool) int {
	names, err := namesThere(ctx, e, names, true)
	return eachList(e, names, err, func(name string) error {
		l, taken, err := e.at.Fetch(ctx, name, back)
		switch {
		case err != nil:
			return err
		case back:
			fmt.Fprintf(e.stdout, "%s: back to the version of %s, %d entries\n", name, l.Fetched.Local().Format("2006-01-02 15:04:05"), l.Entries)
		case taken:
			fmt.Fprintf(e.stdout, "%s: updated, %d entries\n", name, l.Entries)
		default:
			fmt.Fprintf(e.stdout, "%s: unchanged, %d entries\n", name, l.Entries)
		}
		return nil
	})
}

// historyThere prints the versions of lists.
func historyThere(ctx context.Context, e env, names []string) int {
	names, err := namesThere(ctx, e, names, true)
	return eachList(e, names, err, func(name string) error {
		l, err := e.at.List(ctx, name, false)
		if err != nil {
			return err
		}
		asked := "never asked"
		if !l.Checked.IsZero() {
			asked = "asked " + l.Checked.Local().Format("2006-01-02 15:04:05")
		}
		fmt.Fprintf(e.stdout, "%s: %s, %d versions\n", name, asked, len(l.Versions))
		printVersions(e, l.Versions, func(v *source.Version) bool { return v.Fetched.Equal(l.Fetched) })
		if l.Problem != "" {
			fmt.Fprintf(e.stdout, "  %s\n", printable(l.Problem))
		}
		return nil
	})
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
