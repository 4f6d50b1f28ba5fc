//go:build !small

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/tool/eventcopy"
)

const eventsCopyHelp = `
Copies the rows of one store to another, oldest first. FROM and TO are a kind
and a file:

  shuultuur events copy sqlite:data/events.db jsonl:events.jsonl
  shuultuur events copy jsonl:events.jsonl sqlite:new.db

FROM is sqlite, jsonl, postgres (postgres://USER@HOST/DATABASE) or clickhouse
(clickhouse:http://USER:PASSWORD@HOST:8123/DATABASE), and may be in
use. TO is one of these, squid or dansguardian, and must not exist or be empty: to copy twice would double the
rows. FILTER says which rows are wanted, as for "shuultuur events".`

func eventsCopy(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "events copy", "FROM TO [FILTER]", eventsCopyHelp)
	if status := parse(filterLast(f, args), 0, -1); status >= 0 {
		return status
	}
	if f.NArg() < 2 {
		return fail(e, errors.New("two stores are needed: write FROM and TO, such as sqlite:events.db jsonl:events.jsonl"))
	}
	filter, err := event.ParseFilter(strings.Join(f.Args()[2:], " "), time.Now())
	if err != nil {
		return fail(e, fmt.Errorf("filter: %w", err))
	}
	n, err := eventcopy.Copy(ctx, f.Arg(0), f.Arg(1), filter)
	if err != nil {
		return fail(e, fmt.Errorf("copying events, after %d rows: %w", n, err))
	}
	fmt.Fprintf(e.stdout, "%d rows copied\n", n)
	return 0
}
