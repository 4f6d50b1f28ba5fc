package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
)

const year = 365 * 24 * time.Hour

func open(path string) (event.Store, error) { return Open(path, year) }

func TestStore(t *testing.T)      { eventtest.Run(t, open) }
func BenchmarkStore(b *testing.B) { eventtest.Bench(b, open) }

// count returns how many rows s holds.
func count(t *testing.T, s *Store) int64 {
	t.Helper()
	n, err := s.w.int("SELECT count(*) FROM event")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOldRowsAreDeletedInSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := Open(path, year)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	old := eventtest.Rows(now.Add(-50*time.Hour), 7*deleteStep)
	young := eventtest.Rows(now.Add(-40*time.Hour), 100)
	for _, rows := range [][]event.Row{old, young} {
		if err := s.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, 45*time.Hour); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []int64
	for range 9 {
		if err := s.Write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		got = append(got, count(t, s))
	}
	for i, n := range got {
		if want := int64(max(0, len(old)-(i+1)*deleteStep) + len(young)); n != want {
			t.Fatalf("rows after each write: %d, want %d after write %d", got, want, i)
		}
	}
}

func TestRowsFromAClockThatRanAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := Open(path, year)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	ahead := eventtest.Rows(now.Add(10*year), 10)
	right := eventtest.Rows(now, 10)
	if err := s.Write(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), right); err != nil {
		t.Fatal(err)
	}
	var got []time.Time
	for r, err := range s.Query(t.Context(), event.Filter{Until: now.Add(time.Hour)}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Time)
	}
	if len(got) != len(right) || got[0] != right[0].Time {
		t.Errorf("found %v, want the %d rows from %v on", got, len(right), now)
	}

	// Ids that are taken are gone round.
	s.last = ahead[0].Time.UnixMicro() - 1
	last, err := s.w.write(s.last, ahead[:1])
	if err == nil {
		t.Fatalf("id %d was given twice", last)
	}
	if err := s.insert(ahead[0].Time, ahead[:1]); err != nil {
		t.Error(err)
	}
	if got, want := count(t, s), int64(21); got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSchemaOfANewerProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := Open(path, year)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.w.exec("PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, year); err == nil {
		s.Close()
		t.Fatal("no error")
	}
}

func TestViewForPeople(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "events.db"), year)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(time.Now().UTC(), 1)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	var at, action, host string
	var ms float64
	if err := s.readers.QueryRow("SELECT time, action, host, ms FROM events").Scan(&at, &action, &host, &ms); err != nil {
		t.Fatal(err)
	}
	if want := rows[0].Time.Format("2006-01-02 15:04:05"); at[:len(want)] != want || action != "block" || host != rows[0].Host || ms != 1 {
		t.Errorf("got %q %q %q %v, want %q block %q 1", at, action, host, ms, want, rows[0].Host)
	}
}
