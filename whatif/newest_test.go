package whatif

import (
	"context"
	"iter"
	"testing"
	"time"

	"shuultuur/event"
)

// rowsEach has a row for each second before now, newest first.
type rowsEach struct {
	event.Reader
	now time.Time
	n   int
}

func (r rowsEach) Query(_ context.Context, f event.Filter, _ event.Page) iter.Seq2[event.Row, error] {
	return func(yield func(event.Row, error) bool) {
		for i := range r.n {
			if at := r.now.Add(-time.Duration(i) * time.Second); at.Before(f.Since) || !yield(event.Row{Time: at}, nil) {
				return
			}
		}
	}
}

func TestNewestReportsOmittedRows(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		rows  int
		most  int
		until time.Time
		given int
		cut   bool
		since time.Duration // before now
	}{
		{"all", 1000, 1000, time.Time{}, 1000, false, time.Hour},
		{"all in time", 1000, 1000, now.Add(time.Hour), 1000, false, time.Hour},
		{"too many", 1001, 1000, time.Time{}, 1000, true, 999 * time.Second},
		{"too late", 1000, 1000, now.Add(-time.Second), 63, true, 62 * time.Second},
		{"older than asked for", 5000, 5000, time.Time{}, 3601, false, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := &NewestReader{Reader: rowsEach{now: now, n: c.rows}, Since: now.Add(-time.Hour), Most: c.most, Until: c.until}
			given := 0
			for _, err := range n.Query(t.Context(), event.Filter{}, event.Page{}) {
				if err != nil {
					t.Fatal(err)
				}
				given++
			}
			if given != c.given || n.Cut != c.cut || !n.Since.Equal(now.Add(-c.since)) {
				t.Errorf("gave %d rows, cut %v, since %v before now; want %d, %v, %v", given, n.Cut, now.Sub(n.Since), c.given, c.cut, c.since)
			}
		})
	}
}
