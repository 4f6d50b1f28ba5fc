package event

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
)

// A Store keeps rows. One goroutine writes. A store that is also a [Reader] may
// be read concurrently.
type Store interface {
	// Name returns the store's name in metrics and messages: "sqlite".
	Name() string
	// Write stores all rows or none. After an error it gets the same rows again. It must not
	// keep the slice. When there are no events, it is called about once a minute without rows,
	// for upkeep.
	Write(ctx context.Context, rows []Row) error
	Close() error
}

// A Reader answers questions about a record. It is safe for concurrent use,
// also while rows are written.
type Reader interface {
	// Query yields the rows that match f in the order of recording, within p. It
	// does not see rows that are recorded after it began. After an error nothing
	// follows.
	Query(ctx context.Context, f Filter, p Page) iter.Seq2[Row, error]
	// Count answers several questions at once. Each answer has the tallies with the most
	// events; equal ones are sorted by name. Rows without a value in the field of a question
	// are not counted.
	Count(ctx context.Context, questions ...Question) ([][]Tally, error)
}

// freshEvery is the shortest interval at which [Fresh] renews. Somebody who looks does not see more
// than a second less than there is, and many who look at once write once.
const freshEvery = time.Second

// Fresh returns r with a renewal before its questions: renew brings the record up to date. Rows that
// are written once a minute are seen at once, and the disk sleeps while nobody asks.
func Fresh(r Reader, renew func(context.Context)) Reader { return &fresh{Reader: r, renew: renew} }

type fresh struct {
	Reader
	renew func(context.Context)
	mu    sync.Mutex // held while renewing, so that who comes meanwhile sees the same
	last  time.Time
}

// Query implements [Reader].
func (r *fresh) Query(ctx context.Context, f Filter, p Page) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		r.renewed(ctx)
		r.Reader.Query(ctx, f, p)(yield)
	}
}

// Count implements [Reader].
func (r *fresh) Count(ctx context.Context, questions ...Question) ([][]Tally, error) {
	r.renewed(ctx)
	return r.Reader.Count(ctx, questions...)
}

func (r *fresh) renewed(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.last) >= freshEvery {
		r.renew(ctx)
		r.last = time.Now()
	}
}

// A Page selects a part of the matching rows.
type Page struct {
	Newest bool  // newest first
	Limit  int   // most rows; 0 for all
	After  int64 // only rows after the one with this Seq; 0 for all
}

// A Question asks for the most frequent values of a field among the rows that
// match a filter.
type Question struct {
	Filter Filter
	By     Field // Text for one tally of all rows; ID, Monitored and Signature cannot be counted by
	Top    int   // most tallies; 0 for all, at most 1,000,000
}

// Countable returns an error for a person if rows cannot be counted by f.
func Countable(f Field) error {
	if f == ID || f == Conversation || f == Picture || f == Monitored || f == Signature || f > lastField {
		return fmt.Errorf("events cannot be counted by %s: use client, host, category, rule, user, policy, action, proto, method, status, type, learned, source, unread or cache", f)
	}
	return nil
}

// A Tally counts rows with the same value.
type Tally struct {
	Name    string `json:"name"` // the value; for rules policy/rule; "" for all rows
	Events  int    `json:"events"`
	Blocked int    `json:"blocked"`          // events with the action block
	Called  string `json:"called,omitempty"` // the name of a client's device, if a page knows it
}

// ErrNone reports that there is no row with the ID asked for.
var ErrNone = errors.New("no event has this ID")

// RowByID returns the row of the transaction id, or [ErrNone].
func RowByID(ctx context.Context, r Reader, id string) (Row, error) {
	f := Filter{Terms: []Term{{Field: ID, Values: []string{id}}}}
	for row, err := range r.Query(ctx, f, Page{Newest: true, Limit: 1}) {
		return row, err
	}
	return Row{}, fmt.Errorf("%q: %w", id, ErrNone)
}

// tailEvery is the interval at which Tail looks for new rows.
const tailEvery = 500 * time.Millisecond

// Tail yields rows that match f as they are recorded, from now until ctx ends. It does not report the end of
// ctx as an error. Rows that a wrong clock has put into the future do
// not hide those that follow them: a store may place these before.
func Tail(ctx context.Context, r Reader, f Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		t := tail{r: r, known: map[int64]bool{}}
		if err := t.begin(ctx); err != nil {
			yield(Row{}, err)
			return
		}
		tick := time.NewTicker(tailEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for row, err := range t.news(ctx) {
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					yield(Row{}, err)
					return
				}
				if f.Match(&row) && !yield(row, nil) {
					return
				}
			}
		}
	}
}

const (
	// ahead is how far in the future the time of a row may be before its clock counts as wrong.
	ahead = time.Hour
	// mostAhead is how many rows of a wrong clock are remembered; further ones hide what follows them.
	mostAhead = 10_000
)

// A tail is a place in a record.
type tail struct {
	r     Reader
	last  int64          // the newest row whose time is right
	known map[int64]bool // rows behind it, of a wrong clock
}

// begin places the tail behind the rows that are there.
func (t *tail) begin(ctx context.Context) error {
	newest := int64(0)
	for row, err := range t.r.Query(ctx, Filter{}, Page{Newest: true, Limit: mostAhead}) {
		if err != nil {
			return err
		}
		newest = max(newest, row.Seq)
		if !t.isAhead(&row) {
			t.last = row.Seq
			return nil
		}
		t.known[row.Seq] = true
	}
	if len(t.known) == mostAhead {
		t.last, t.known = newest, map[int64]bool{}
	}
	return nil
}

func (t *tail) isAhead(row *Row) bool {
	return row.Time.After(time.Now().Add(ahead)) && len(t.known) < mostAhead
}

// news yields the rows that it has not yielded. Its filter is empty, because rows that nobody wants are
// passed, too.
func (t *tail) news(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for row, err := range t.r.Query(ctx, Filter{}, Page{After: t.last}) {
			if err == nil && t.known[row.Seq] {
				continue
			}
			if err == nil {
				t.pass(&row)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// pass notes that a row was yielded.
func (t *tail) pass(row *Row) {
	if t.isAhead(row) {
		t.known[row.Seq] = true
		return
	}
	t.last = row.Seq
	for seq := range t.known {
		if seq <= t.last {
			delete(t.known, seq)
		}
	}
}
