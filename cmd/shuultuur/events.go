package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/sqlite"
	"shuultuur/filter"
	"shuultuur/gateway"
)

const eventsHelp = `
Asks the record of transactions, newest first. It may be asked while the
gateway runs; the last second may not be written yet. With -top it counts the
transactions that the other flags let through instead.`

func events(ctx context.Context, e env, args []string) int {
	var q event.Filter
	f, parse := flags(e, "events", "[flags]", eventsHelp)
	config := f.String("config", "", "settings `file` that says where the events are")
	since := f.String("since", "", "only after this `time`: 2h, 3d, 2026-01-31 or 2026-01-31T08:00")
	until := f.String("until", "", "only before this `time`")
	client := f.String("client", "", "client `address`")
	f.StringVar(&q.User, "user", "", "user `name`")
	f.StringVar(&q.Host, "host", "", "`host`, with everything below it")
	f.StringVar(&q.Action, "action", "", "pass, allow, warn, block or redirect")
	f.StringVar(&q.Policy, "policy", "", "`policy` that decided")
	f.StringVar(&q.Category, "category", "", "`category` that decided")
	f.StringVar(&q.Text, "text", "", "`part` of URL, rule, evidence, note or ID")
	top := f.String("top", "", "count by client, host, category, rule or user, the most `frequent` first")
	f.IntVar(&q.Limit, "n", 50, "at most so many; 0 for all; with -top 10 unless given")
	oldest := f.Bool("oldest", false, "oldest first")
	asJSON := f.Bool("json", false, "print JSON lines")
	if status := parse(args); status >= 0 {
		return status
	}
	q.Newest = !*oldest
	var err error
	if q.Since, err = moment(*since); err != nil {
		return fail(e, fmt.Errorf("-since: %w", err))
	}
	if q.Until, err = moment(*until); err != nil {
		return fail(e, fmt.Errorf("-until: %w", err))
	}
	if *client != "" {
		if q.Client, err = netip.ParseAddr(*client); err != nil {
			return fail(e, fmt.Errorf("-client: %q is not an address", *client))
		}
	}
	file, _, err := settingsFile(*config)
	if err != nil {
		return fail(e, err)
	}
	store, closeStore, err := gateway.Events(file)
	if err != nil {
		return fail(e, err)
	}
	defer closeStore()
	names, err := gateway.ClientNames(file)
	if err != nil {
		return fail(e, err)
	}
	if *top != "" {
		n := 10
		f.Visit(func(given *flag.Flag) {
			if given.Name == "n" {
				n = q.Limit
			}
		})
		return topEvents(ctx, e, store, q, *top, n, *asJSON, names)
	}
	show := func(w *tabwriter.Writer, r *event.Row) {
		printRow(w, r, names(ctx, []netip.Addr{r.Client})[r.Client])
	}
	tw := tabwriter.NewWriter(e.stdout, 0, 8, 2, ' ', 0)
	defer tw.Flush()
	if *asJSON {
		show = func(_ *tabwriter.Writer, r *event.Row) { _, _ = e.stdout.Write(jsonl.AppendLine(nil, r)) }
	} else {
		fmt.Fprintln(tw, "TIME\tCLIENT\tSTATUS\tVERDICT\tWHY\tREQUEST")
	}
	for row, err := range store.Query(ctx, q) {
		if err != nil {
			tw.Flush()
			return fail(e, err)
		}
		show(tw, &row)
	}
	return 0
}

// topEvents prints what most transactions have in common.
func topEvents(ctx context.Context, e env, store event.Querier, q event.Filter, by string, n int, asJSON bool, names func(context.Context, []netip.Addr) map[netip.Addr]string) int {
	db, ok := store.(*sqlite.Reader)
	if !ok {
		return fail(e, errors.New("-top counts in SQLite, which these settings do not keep: name a file at events.sqlite"))
	}
	top, err := db.Top(ctx, q, by, n)
	if err != nil {
		return fail(e, err)
	}
	if by == "client" {
		for i := range top {
			if a, err := netip.ParseAddr(top[i].Name); err == nil {
				top[i].Called = names(ctx, []netip.Addr{a})[a]
			}
		}
	}
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
		fmt.Fprintf(tw, "%d\t%d\t%s\n", t.Events, t.Blocked, printable(event.Named(t.Name, t.Called)))
	}
	tw.Flush()
	return 0
}

// printRow prints a row, with what the client's device is called.
func printRow(w *tabwriter.Writer, r *event.Row, name string) {
	if name == r.User {
		name = ""
	}
	status := strconv.Itoa(r.Status)
	if r.Proto == filter.DNS {
		status = filter.RcodeName(uint16(r.Status))
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s %s\n", r.Time.Local().Format("2006-01-02 15:04:05"), printable(event.Named(r.Who(), name)), status, r.Action,
		printable(r.Why()), r.Method, printable(r.What()))
}

// printable keeps what a client sent from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// moment reads a time: how long ago, a day, or a minute of a day.
func moment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	var ago filter.Duration
	if err := ago.UnmarshalText([]byte(s)); err == nil {
		return time.Now().Add(-time.Duration(ago)), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: write 2h, 3d, 2026-01-31 or 2026-01-31T08:00", s)
}
