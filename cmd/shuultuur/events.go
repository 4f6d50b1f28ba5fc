package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/filter"
	"shuultuur/lib/dns"
)

const eventsHelp = `
Asks the record of transactions, newest first, also while the gateway runs; the
last second may not be written yet. FILTER says which are wanted:

  shuultuur events host:example.com action:block,warn -category:ads since:2d

Words are searched for in addresses, rules, evidence and notes. field:value
looks at one field, field:one,other at several values; a minus sign in front
excludes. Fields: client, user, host, action, policy, rule, category, proto,
method, status, type, id, since, until and those of docs/events.md. With -top
it counts the transactions instead. "shuultuur events copy" copies a record.`

// filterLast moves words of a filter that begin with a minus sign after the
// flags and "--".
func filterLast(f *flag.FlagSet, args []string) []string {
	var first, last []string
	for i := 0; i < len(args); i++ {
		name, _, given := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		known := f.Lookup(name)
		switch {
		case !strings.HasPrefix(args[i], "-"), known == nil && (strings.Contains(name, ":") || len(last) > 0) && name != "h" && name != "help":
			last = append(last, args[i])
			continue
		}
		first = append(first, args[i])
		if known != nil && !given && i+1 < len(args) {
			if b, ok := known.Value.(interface{ IsBoolFlag() bool }); !ok || !b.IsBoolFlag() {
				i++
				first = append(first, args[i])
			}
		}
	}
	return append(append(first, "--"), last...)
}

func events(ctx context.Context, e env, args []string) int {
	for _, c := range eventsCommands() {
		if len(args) > 0 && args[0] == c.name {
			return c.run(ctx, e, args[1:])
		}
	}
	f, parse := flags(e, "events", "[flags] [FILTER]", eventsHelp)
	config := f.String("config", "", "settings `file` that names the store of events")
	top := f.String("top", "", "count by this `field`, the most frequent first")
	limit := f.Int("n", 50, "at most so many; 0 for all; 10 with -top by default")
	oldest := f.Bool("oldest", false, "oldest first")
	follow := f.Bool("follow", false, "follow new rows")
	asJSON := f.Bool("json", false, "print JSON lines")
	if status := parse(filterLast(f, args), 0, -1); status >= 0 {
		return status
	}
	words := strings.Join(f.Args(), " ")
	filter, err := event.ParseFilter(words, time.Now())
	if err != nil {
		return fail(e, fmt.Errorf("filter: %w", err))
	}
	if err := e.needs(f, "n", "json", "top", "oldest", "follow"); err != nil {
		return fail(e, err)
	}
	if *top != "" {
		given := false
		f.Visit(func(f *flag.Flag) { given = given || f.Name == "n" })
		if !given {
			*limit = 10
		}
	}
	switch {
	case e.at != nil && *top != "":
		all, err := e.at.Top(ctx, words, *top, *limit)
		if err != nil {
			return fail(e, err)
		}
		return printTop(e, all, *top, *asJSON)
	case e.at != nil:
		return printEvents(ctx, e, &eventPrinter{json: *asJSON, out: e.stdout}, e.at.Events(ctx, words, *limit, *oldest), e.at.Follow(ctx, words), *follow)
	}
	file := askedFile(*config)
	store, closeStore, err := configuration.Events(file)
	if err != nil {
		return fail(e, err)
	}
	defer closeStore()
	names, err := configuration.ClientNames(file)
	if err != nil {
		return fail(e, err)
	}
	if *top != "" {
		return topEvents(ctx, e, store, event.Question{Filter: filter, Top: *limit}, *top, *asJSON, names)
	}
	p := eventPrinter{json: *asJSON, out: e.stdout, names: names}
	return printEvents(ctx, e, &p, store.Query(ctx, filter, event.Page{Newest: !*oldest, Limit: *limit}), event.Tail(ctx, store, filter), *follow)
}

// printEvents prints rows, and with follow also new ones as they arrive.
func printEvents(ctx context.Context, e env, p *eventPrinter, rows, fresh iter.Seq2[event.Row, error], follow bool) int {
	err := p.print(ctx, rows, false)
	if err == nil && follow {
		err = p.print(ctx, fresh, true)
	}
	return finish(e, err)
}

// An eventPrinter prints rows as JSON lines or as a table.
type eventPrinter struct {
	json   bool
	out    io.Writer
	names  func(context.Context, []netip.Addr) map[netip.Addr]string // nil: unknown
	titled bool
}

// print prints rows, with atOnce each as it arrives.
func (p *eventPrinter) print(ctx context.Context, rows iter.Seq2[event.Row, error], atOnce bool) error {
	tw := tabwriter.NewWriter(p.out, 0, 8, 2, ' ', 0)
	defer tw.Flush()
	if !p.json && !p.titled {
		fmt.Fprintln(tw, "TIME\tCLIENT\tSTATUS\tVERDICT\tWHY\tREQUEST")
		p.titled = true
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if p.json {
			_, _ = p.out.Write(jsonl.AppendLine(nil, &row))
			continue
		}
		name := ""
		if p.names != nil {
			name = p.names(ctx, []netip.Addr{row.Client})[row.Client]
		}
		printRow(tw, &row, name)
		if atOnce {
			tw.Flush()
		}
	}
	return nil
}

// topEvents prints the most frequent values of a field.
func topEvents(ctx context.Context, e env, store event.Reader, q event.Question, by string, asJSON bool, names func(context.Context, []netip.Addr) map[netip.Addr]string) int {
	field, ok := event.FieldNamed(by)
	if !ok || field == event.Text {
		return fail(e, fmt.Errorf("-top: %q is not a field: write client, host, category, rule or user", by))
	}
	q.By = field
	tops, err := store.Count(ctx, q)
	if err != nil {
		return fail(e, err)
	}
	top := tops[0]
	if field == event.Client {
		for i := range top {
			if a, err := netip.ParseAddr(top[i].Name); err == nil {
				top[i].Called = names(ctx, []netip.Addr{a})[a]
			}
		}
	}
	return printTop(e, top, by, asJSON)
}

func printTop(e env, top []event.Tally, by string, asJSON bool) int {
	if asJSON {
		out := json.NewEncoder(e.stdout)
		for _, t := range top {
			_ = out.Encode(t)
		}
		return 0
	}
	tw := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "EVENTS\tBLOCKED\t%s\n", strings.ToUpper(by))
	for _, t := range top {
		fmt.Fprintf(tw, "%d\t%d\t%s\n", t.Events, t.Blocked, printable(event.WithDeviceName(t.Name, t.Called)))
	}
	tw.Flush()
	return 0
}

// printRow prints a row, with the name of the client's device.
func printRow(w *tabwriter.Writer, r *event.Row, name string) {
	if name == r.User {
		name = ""
	}
	status := strconv.Itoa(r.Status)
	if r.Proto == filter.DNS {
		status = dns.RcodeName(uint16(r.Status))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s %s\n", r.Time.Local().Format("2006-01-02 15:04:05"), printable(event.WithDeviceName(r.Who(), name)), status, r.Action,
		printable(r.Why()), r.Method, printable(r.What()))
}

// printable escapes texts of clients, so that they cannot control the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
