package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
)

// During an upgrade, the old process records its remaining requests in a
// database to which its successor writes, too.
func TestTwoProcessesWriteOneRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	start := func() *Store {
		s, err := Open(path, year)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	write := func(s *Store, rows ...event.Row) {
		t.Helper()
		if err := s.Write(t.Context(), rows); err != nil {
			t.Error(err)
		}
	}
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour), 5*segmentRows)
	before := start()
	write(before, rows[0])
	after := start()
	write(after, rows[1:2*segmentRows]...)
	write(after) // makes the segments
	segments, err := after.w.int("SELECT count(*) FROM segment")
	if err != nil || segments == 0 {
		t.Fatalf("the index has %d segments, %v; want some", segments, err)
	}

	// From here on the previous process records rows with the times of rows that its successor
	// has already recorded, and indexed.
	var late []event.Row
	for i := range 3 {
		at, err := after.w.int(fmt.Sprintf("SELECT id FROM event ORDER BY id LIMIT 1 OFFSET %d", 200*(i+1)))
		if err != nil {
			t.Fatal(err)
		}
		r := rows[0]
		r.Time, r.ID, r.Host = time.UnixMicro(at).UTC(), fmt.Sprintf("late-%d", i), fmt.Sprintf("late-%d.example", i)
		late = append(late, r)
		write(before, r)
		write(after, rows[(2+i)*segmentRows:(3+i)*segmentRows]...)
	}
	write(after)
	for _, r := range late {
		for _, term := range []event.Term{{Field: event.Host, Values: []string{r.Host}}, {Field: event.ID, Values: []string{r.ID}}} {
			n := 0
			for got, err := range after.Query(t.Context(), event.Filter{Terms: []event.Term{term}}, event.Page{}) {
				if n++; err != nil || !got.Time.Equal(r.Time) {
					t.Errorf("searching %v found a row at %v, %v; want the row at %v", term, got.Time, err, r.Time)
				}
			}
			if n != 1 {
				t.Errorf("%v is found %d times, want once", term, n)
			}
		}
	}
	if got, want := count(t, after), int64(len(rows)+len(late)); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}
