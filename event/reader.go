package event

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// A Store keeps rows. One goroutine writes. A store that is a [Reader] as well
// may be read by others at the same time.
type Store interface {
	// Name is what metrics and messages call the store: "sqlite".
	Name() string
	// Write keeps all rows or none: after an error the same rows are given
	// again. It must not hold on to rows. It is called with no rows about once
	// a minute in quiet times, for upkeep.
	Write(ctx context.Context, rows []Row) error
	Close() error
}

// A Reader answers questions about a record. Any number of goroutines may ask
// at the same time, also while rows are written.
type Reader interface {
	// Query yields the rows that f wants in the order they were recorded, as p
	// says. Rows that are recorded after it began are not seen. After an error
	// nothing follows.
	Query(ctx context.Context, f Filter, p Page) iter.Seq2[Row, error]
	// Count answers several questions at once, each with the tallies that have
	// most events, ties in the order of their names. Rows that have nothing in
	// the field of a question are not counted by it.
	Count(ctx context.Context, questions ...Question) ([][]Tally, error)
}

// A Page is a part of what a filter wants.
type Page struct {
	Newest bool  // newest first
	Limit  int   // at most so many rows; 0 for all
	After  int64 // only rows that come after the one with this Seq; 0 for all
}

// A Question asks for the most frequent values of a field among the rows that a
// filter wants.
type Question struct {
	Filter Filter
	By     Field // Text for one tally of all rows; ID, Monitored and Signature cannot be counted by
	Top    int   // at most so many tallies; 0 for all, of which there may be 1,000,000
}

// Countable reports whether rows can be counted by f, in words for a person.
func Countable(f Field) error {
	if f == ID || f == Conversation || f == Picture || f == Monitored || f == Signature || f > lastField {
		return fmt.Errorf("events cannot be counted by %s: use client, host, category, rule, user, policy, action, proto, method, status, type, learned, source, unread or cache", f)
	}
	return nil
}

// A Tally counts rows that have something in common.
type Tally struct {
	Name    string `json:"name"` // what they have in common; of rules policy/rule; "" for all rows
	Events  int    `json:"events"`
	Blocked int    `json:"blocked"`          // of them with the action block
	Called  string `json:"called,omitempty"` // the name of a client's device, where a page knows it
}

// ErrNone reports that there is no row with the ID asked for.
var ErrNone = errors.New("no event has this ID")

// One returns the row of the transaction id, or [ErrNone].
func One(ctx context.Context, r Reader, id string) (Row, error) {
	f := Filter{Terms: []Term{{Field: ID, Values: []string{id}}}}
	for row, err := range r.Query(ctx, f, Page{Newest: true, Limit: 1}) {
		return row, err
	}
	return Row{}, fmt.Errorf("%q: %w", id, ErrNone)
}

// tailEvery is how often Tail looks for new rows.
const tailEvery = 500 * time.Millisecond

// Tail yields the rows that f wants as they are recorded, from now on until ctx
// ends, which is no error.
func Tail(ctx context.Context, r Reader, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		last := int64(0)
		for row, err := range r.Query(ctx, Filter{}, Page{Newest: true, Limit: 1}) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			last = row.Seq
		}
		tick := time.NewTicker(tailEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// Not f: rows it does not want move last on as well.
			for row, err := range r.Query(ctx, Filter{}, Page{After: last}) {
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					yield(Row{}, err)
					return
				}
				last = row.Seq
				if f.Match(&row) && !yield(row, nil) {
					return
				}
			}
		}
	}
}
