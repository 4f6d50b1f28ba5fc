package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"shuultuur/configuration"
	"shuultuur/list"
	"shuultuur/list/source"
	"shuultuur/replay"
)

// listCommands are the subcommands of list that have their own flags; most are
// about the lists of the settings.
func listCommands() []command {
	return append([]command{
		{name: "update", args: "[-config FILE] [NAME...]", what: updateHelp, run: listShelf().update},
		{name: "catalogue", args: "[WORD]", what: catalogueHelp, run: showCatalogue, here: ofFiles},
		{name: "history", args: "[-config FILE] [NAME...]", what: historyHelp, run: listShelf().history},
		{name: "rollback", args: "[-config FILE] NAME...", what: rollbackHelp, run: listShelf().rollback},
		{name: "stats", args: "[-config FILE] [NAME...]", what: statsHelp, run: listStats},
		{name: "search", args: "[-config FILE] HOST|URL", what: searchHelp, run: searchLists},
		{name: "lint", args: "[-config FILE | -format FORMAT SOURCE...] [NAME...]", what: lintHelp, run: lintLists},
	}, compareCommands()...)
}

const updateHelp = `
Fetches anew what the settings have fetched, all or what is named. A version with
far fewer entries, or one that is no list, is not taken. A gateway that runs
takes new ones into use by itself. The exit status is 1 when one could not be
updated.`

const catalogueHelp = `
Shows the well-known sources that a list can name, all or those with WORD in
them. Addresses, licences and sizes may have changed; the homepage knows.`

const historyHelp = `
Shows the versions kept of what is fetched, and which is in use (*).`

const rollbackHelp = `
Takes the version before the one in use into use. The one that is left is not
taken again when it is fetched; a newer one is.`

const statsHelp = `
Shows what is in the compiled lists of the settings.`

const searchHelp = `
Says which of the compiled lists of the settings have a host or URL, and where
it is written. The exit status is 1 when none has.`

// A shelf is one kind of item that the settings fetch: lists or signature
// rules. Its methods are subcommands.
type shelf struct {
	command string // above them
	read    func(config string) (*source.Store, source.Items, error)
}

func listShelf() shelf {
	return shelf{"list", func(config string) (*source.Store, source.Items, error) {
		v, err := configuration.ReadLists(config)
		if err != nil {
			return nil, nil, err
		}
		return v.Store, v.Fetched, nil
	}}
}

func ruleShelf() shelf { return shelf{"rules", configuration.ReadRules} }

// open parses the arguments of a subcommand and returns the names in them.
// status is -1 if the subcommand may continue.
func (s shelf) open(e env, name, usage, help string, args []string, least int) (store *source.Store, items source.Items, names []string, status int) {
	f, parse := flags(e, s.command+" "+name, usage, help)
	file := f.String("config", "", "settings `file`")
	if status := parse(args, least, 1000); status >= 0 {
		return nil, nil, nil, status
	}
	if e.at != nil {
		if err := e.needs(f); err != nil {
			return nil, nil, nil, fail(e, err)
		}
		return nil, nil, f.Args(), -1
	}
	store, items, err := s.read(askedFile(*file))
	if err == nil {
		names, err = items.Of(f.Args()...)
	}
	if err != nil {
		return nil, nil, nil, fail(e, err)
	}
	return store, items, names, -1
}

// withConfig parses the arguments of one of listCommands. status is -1 if it
// may continue.
func withConfig(e env, name string, args []string, least, most int) (config string, rest []string, status int) {
	all := listCommands()
	c := all[slices.IndexFunc(all, func(c command) bool { return c.name == name })]
	f, parse := flags(e, "list "+name, c.args, c.what)
	file := f.String("config", "", "settings `file`")
	if status := parse(args, least, most); status >= 0 {
		return "", nil, status
	}
	if err := e.needs(f); err != nil {
		return "", nil, fail(e, err)
	}
	return askedFile(*file), f.Args(), -1
}

func (s shelf) update(ctx context.Context, e env, args []string) int {
	store, items, names, status := s.open(e, "update", "[-config FILE] [NAME...]", updateHelp, args, 0)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return fetchThere(ctx, e, names, false)
	}
	file, ok := e.stderr.(*os.File)
	live := ok && terminal(file)
	status = 0
	for _, name := range names {
		c, err := updateOne(ctx, e, store, name, items[name], live)
		switch {
		case err != nil:
			status = fail(e, err)
		case c.Updated:
			fmt.Fprintf(e.stdout, "%s: updated, %d entries (were %d), %d bytes\n", name, c.Entries, c.Was, c.Bytes)
		default:
			fmt.Fprintf(e.stdout, "%s: unchanged, %d entries\n", name, c.Entries)
		}
	}
	return status
}

// updateOne updates one item, with a progress bar if live is set.
func updateOne(ctx context.Context, e env, store *source.Store, name string, it source.Item, live bool) (source.Change, error) {
	if !live {
		return store.Update(ctx, name, it)
	}
	var done, total atomic.Int64
	store.Progress = func(_ string, d, t int64) { done.Store(d); total.Store(t) }
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		replay.Watch(e.stderr, true, stop, func() replay.Meter {
			return replay.Meter{Done: done.Load(), Total: total.Load(), Words: fmt.Sprintf("%s  %.1f MB", name, float64(done.Load())/1e6)}
		})
	}()
	c, err := store.Update(ctx, name, it)
	close(stop)
	<-stopped
	return c, err
}

func showCatalogue(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "list catalogue", "[WORD]", catalogueHelp)
	if status := parse(args, 0, 1); status >= 0 {
		return status
	}
	w := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tWHAT\tFORMAT\tSIZE\tLICENCE\tHOMEPAGE")
	found := 0
	for _, k := range source.Catalogue() {
		if !strings.Contains(k.Name+" "+k.What, f.Arg(0)) {
			continue
		}
		found++
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.What, k.Format, k.Size, k.Licence, k.Home)
	}
	if found == 0 {
		fmt.Fprintf(e.stderr, "shuultuur: the catalogue has nothing with %q\n", f.Arg(0))
		return 1
	}
	w.Flush()
	return 0
}

func (s shelf) history(ctx context.Context, e env, args []string) int {
	store, _, names, status := s.open(e, "history", "[-config FILE] [NAME...]", historyHelp, args, 0)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return historyThere(ctx, e, names)
	}
	for _, name := range names {
		st, err := store.State(name)
		if err != nil {
			return fail(e, err)
		}
		asked := "never asked"
		if !st.Checked.IsZero() {
			asked = "asked " + st.Checked.Local().Format(time.DateTime)
		}
		fmt.Fprintf(e.stdout, "%s: %s, %d versions\n", name, asked, len(st.Versions))
		printVersions(e, st.Versions, func(v *source.Version) bool { return v.Current })
		if st.Problem != "" {
			fmt.Fprintf(e.stdout, "  %s\n", st.Problem)
		}
	}
	return 0
}

// printVersions lists versions, with a mark at the one in use.
func printVersions(e env, all []source.Version, current func(*source.Version) bool) {
	for _, v := range all {
		mark := " "
		if current(&v) {
			mark = "*"
		}
		left := ""
		if v.Left {
			left = "  rolled back"
		}
		fmt.Fprintf(e.stdout, "%s %s  %9d entries  %10d bytes  %s%s\n", mark, v.Fetched.Local().Format(time.DateTime), v.Entries, v.Bytes, v.SHA256[:min(12, len(v.SHA256))], left)
	}
}

func (s shelf) rollback(ctx context.Context, e env, args []string) int {
	store, _, names, status := s.open(e, "rollback", "[-config FILE] NAME...", rollbackHelp, args, 1)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return fetchThere(ctx, e, names, true)
	}
	for _, name := range names {
		v, err := store.Rollback(name)
		if err != nil {
			return fail(e, err)
		}
		fmt.Fprintf(e.stdout, "%s: back to the version of %s, %d entries\n", name, v.Fetched.Local().Format(time.DateTime), v.Entries)
	}
	return 0
}

func listStats(ctx context.Context, e env, args []string) int {
	config, names, status := withConfig(e, "stats", args, 0, 1000)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return statsThere(ctx, e, names)
	}
	files, err := compiledLists(config)
	if err != nil {
		return fail(e, err)
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(files))
	}
	for _, name := range names {
		if files[name] == "" {
			return fail(e, fmt.Errorf("list %s is not compiled yet; \"shuultuur check\" compiles it", name))
		}
		f, err := list.Open(files[name])
		if err != nil {
			return fail(e, err)
		}
		r, err := f.Report()
		f.Close()
		if err != nil {
			return fail(e, err)
		}
		printReport(e, name, r)
	}
	return 0
}

func searchLists(ctx context.Context, e env, args []string) int {
	config, wanted, status := withConfig(e, "search", args, 1, 1)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return searchThere(ctx, e, wanted[0])
	}
	files, err := compiledLists(config)
	if err != nil {
		return fail(e, err)
	}
	found := false
	for _, name := range slices.Sorted(maps.Keys(files)) {
		var messages strings.Builder
		if status := lookUp(env{stdin: e.stdin, stdout: &messages, stderr: e.stderr}, files[name], wanted); status == 0 {
			found = true
			for line := range strings.Lines(messages.String()) {
				fmt.Fprintf(e.stdout, "%s: %s", name, line)
			}
		} else if status == 2 {
			return status
		}
	}
	if !found {
		fmt.Fprintf(e.stdout, "%s: not in any of %d lists\n", wanted[0], len(files))
		return 1
	}
	return 0
}

// compiledLists returns the compiled lists of the settings, by name.
func compiledLists(config string) (map[string]string, error) {
	l, err := configuration.ReadLists(config)
	if err != nil {
		return nil, err
	}
	return l.Compiled()
}

func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
