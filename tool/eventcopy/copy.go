// Package eventcopy copies the rows of one store of events to another: [Copy] reads the one from
// its oldest row on and writes to the other, which must be empty.
package eventcopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/event/clickhouse"
	"shuultuur/event/dansguardian"
	"shuultuur/event/jsonl"
	"shuultuur/event/postgres"
	"shuultuur/event/sqlite"
	"shuultuur/event/squid"
)

// copyRows is the number of rows written together.
const copyRows = 10_000

// forever keeps rows of any age. The settings of the gateway that will use the
// record determine how long they stay.
const forever = 200 * 365 * 24 * time.Hour

// Copy copies the rows that match filter, and returns how many it wrote. from and to are the kind
// of a store and its file or address.
func Copy(ctx context.Context, from, to string, filter event.Filter) (n int, err error) {
	source, err := openSource(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openTarget(ctx, to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	rows := make([]event.Row, 0, copyRows)
	for row, err := range source.Query(ctx, filter, event.Page{}) {
		if err != nil {
			return n, err
		}
		if rows = append(rows, row); len(rows) < copyRows {
			continue
		}
		if err := target.Write(ctx, rows); err != nil {
			return n, err
		}
		n += len(rows)
		rows = rows[:0]
	}
	if len(rows) == 0 {
		return n, nil
	}
	if err := target.Write(ctx, rows); err != nil {
		return n, err
	}
	return n + len(rows), nil
}

// kindAndFile splits the name of a store on the command line.
func kindAndFile(s string) (kind, file string, err error) {
	kind, file, ok := strings.Cut(s, ":")
	if !ok || file == "" {
		return "", "", fmt.Errorf("%q is not a store: write its kind and its file, such as sqlite:events.db, or postgres://user@host/database", s)
	}
	return kind, file, nil
}

// A rowSource is a store that can be queried.
type rowSource interface {
	event.Reader
	io.Closer
}

// lines is a file of JSON lines, which needs no closing.
type lines struct{ jsonl.Reader }

func (lines) Close() error { return nil }

func openSource(s string) (rowSource, error) {
	kind, file, err := kindAndFile(s)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "sqlite":
		return sqlite.OpenReader(file)
	case "postgres":
		return postgres.Open(s, forever, jsonl.Codec)
	case "clickhouse":
		return clickhouse.Open(file, forever, jsonl.Codec)
	case "jsonl":
		return lines{jsonl.Reader(file)}, nil
	}
	return nil, fmt.Errorf("%q cannot be read: the stores that can be are sqlite, jsonl, postgres and clickhouse", s)
}

// openTarget opens a store and requires that it is empty.
func openTarget(ctx context.Context, s string) (event.Store, error) {
	kind, file, err := kindAndFile(s)
	if err != nil {
		return nil, err
	}
	open := map[string]func() (event.Store, error){
		"sqlite": func() (event.Store, error) { return sqlite.Open(file, forever) },
		"jsonl":  func() (event.Store, error) { return jsonl.Open(file) },
		"postgres": func() (event.Store, error) {
			return postgres.Open(s, forever, jsonl.Codec)
		},
		"clickhouse":   func() (event.Store, error) { return clickhouse.Open(file, forever, jsonl.Codec) },
		"squid":        func() (event.Store, error) { return squid.Open(file) },
		"dansguardian": func() (event.Store, error) { return dansguardian.Open(file) },
	}[kind]
	if open == nil {
		return nil, fmt.Errorf("%q is not a store: its kind is one of sqlite, jsonl, postgres, clickhouse, squid and dansguardian", s)
	}
	if info, err := os.Stat(file); err == nil && info.Size() > 0 && kind != "sqlite" { // an SQLite store is checked below
		return nil, fmt.Errorf("%q already has rows: name a new file", s)
	}
	store, err := open()
	if err != nil {
		return nil, err
	}
	if r, ok := store.(event.Reader); ok {
		for _, err := range r.Query(ctx, event.Filter{}, event.Page{Limit: 1}) {
			if err == nil {
				err = fmt.Errorf("%q already has rows: name a new file", s)
			}
			return nil, errors.Join(err, store.Close())
		}
	}
	return store, nil
}
