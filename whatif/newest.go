package whatif

import (
	"context"
	"iter"
	"time"

	"shuultuur/event"
)

// A NewestReader returns at most Most rows of a record since a time, whatever page is asked for:
// the newest, unless InOrder is set.
type NewestReader struct {
	event.Reader
	Since time.Time // time of the oldest returned row, if rows were omitted
	Most  int       // limit of rows
	Until time.Time // deadline: no rows are returned after that; zero for none
	Cut   bool      // there were more

	// InOrder has the oldest rows come first. Where there are more than Most, the newest are
	// left out.
	InOrder bool
}

// Query implements [event.Reader].
func (n *NewestReader) Query(ctx context.Context, f event.Filter, _ event.Page) iter.Seq2[event.Row, error] {
	f.Since = n.Since
	return func(yield func(event.Row, error) bool) {
		given, oldest := 0, f.Since
		for row, err := range n.Reader.Query(ctx, f, event.Page{Newest: !n.InOrder, Limit: n.Most + 1}) {
			late := given%64 == 63 && !n.Until.IsZero() && time.Now().After(n.Until)
			if given++; err == nil && (given > n.Most || late) {
				if n.Cut = true; !n.InOrder {
					n.Since = oldest
				}
				return
			}
			oldest = row.Time
			if !yield(row, err) {
				return
			}
		}
	}
}
