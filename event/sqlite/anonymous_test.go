package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event/eventtest"
	"shuultuur/test/race"
)

func TestOldRowsAreAnonymised(t *testing.T) {
	race.Without(t)
	eventtest.Anonymous(t, open, true)
}

// The boundary between old and young rows moves through segments, totals and rows that have
// neither, while rows are written and another process reads.
func TestTheIndexAgreesWhileRowsForgetTheirClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	now := time.Now().UTC().Truncate(time.Microsecond)
	rows := manyRows(now, 12*smallRows+80)
	s := openGrouped(t, path, year)
	defer func() { s.Close() }()
	written := smallRows + 40
	fill(t, s, rows[:written])
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := 0
	for _, old := range []int{300, 301, 3*smallRows + 9, 1500, 7*smallRows + 20, len(rows) - 7} {
		upTo := min(old+60, len(rows))
		fill(t, s, rows[written:upTo])
		written = upTo
		agree(t, s, rows[:written], now)
		s.Anonymise(now.Sub(rows[old].Time))
		for s.nameless.next = (time.Time{}); s.nameless.next.IsZero(); {
			if err := s.forgetClients(t.Context(), now, 0); err != nil {
				t.Fatal(err)
			}
		}
		for ; done < old; done++ {
			rows[done].Anonymise()
		}
		agree(t, s, rows[:written], now)
	}
	if err := s.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	agree(t, s, rows, now)
	agree(t, r, rows, now)

	// An index rebuilt from the rows is the same.
	if err := s.w.exec("DELETE FROM segment; DELETE FROM part; DELETE FROM total"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openGrouped(t, path, year)
	if err := s.Write(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	agree(t, s, rows, now)
}
