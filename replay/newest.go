package replay

import (
	"context"
	"iter"
	"time"

	"shuultuur/event"
)

// Newest gives only the newest rows of a record since a time, whatever it is
// asked for.
type Newest struct {
	event.Reader
	Since time.Time
	Most  int  // rows that it gives
	Cut   bool // there were more
}

// Query implements [event.Reader].
func (n *Newest) Query(ctx context.Context, f event.Filter, _ event.Page) iter.Seq2[event.Row, error] {
	f.Since = n.Since
	return func(yield func(event.Row, error) bool) {
		given := 0
		for row, err := range n.Reader.Query(ctx, f, event.Page{Newest: true, Limit: n.Most + 1}) {
			if given++; given > n.Most {
				n.Cut = true
				return
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
