package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/list/source"
	"shuultuur/tool/replay"
)

const updateHelp = `
Fetches anew what the settings have fetched, all or what is named. A version with
far fewer entries, or one that is no list, is not taken. A gateway that runs
takes new ones into use by itself. The exit status is 1 when one could not be
updated.`

const historyHelp = `
Shows the versions kept of what is fetched, and which is in use (*).`

const rollbackHelp = `
Takes the version before the one in use into use. The one that is left is not
taken again when it is fetched; a newer one is.`

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

func (s shelf) update(ctx context.Context, e env, args []string) int {
	store, items, names, status := s.open(e, "update", "[-config FILE] [NAME...]", updateHelp, args, 0)
	if status >= 0 {
		return status
	}
	if e.at != nil {
		return fetchThere(ctx, e, names, false)
	}
	status = 0
	for _, name := range names {
		c, err := updateOne(ctx, e, store, name, items[name])
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

// updateOne updates one item, with a progress bar on a terminal.
func updateOne(ctx context.Context, e env, store *source.Store, name string, it source.Item) (c source.Change, err error) {
	var done, total atomic.Int64
	store.Progress = func(_ string, d, t int64) { done.Store(d); total.Store(t) }
	err = replay.Watched(e.stderr, false, func() replay.Meter {
		return replay.Meter{Done: done.Load(), Total: total.Load(), Words: fmt.Sprintf("%s  %.1f MB", name, float64(done.Load())/1e6)}
	}, func() error {
		c, err = store.Update(ctx, name, it)
		return err
	})
	return c, err
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
