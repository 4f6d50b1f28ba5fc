package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/filter"
)

// TestADayOfAHome: ten names a second, a tenth of them refused, in a batch each minute. What two hours
// write to the disk, with the index, is at most 200 MB in a day.
func TestADayOfAHome(t *testing.T) {
	const hours = 2
	s, err := openStore(filepath.Join(t.TempDir(), "events.db"), year, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Now().UTC().Truncate(time.Microsecond).Add(-hours * time.Hour)
	before := writtenBytes(t)
	for minute := range hours * 60 {
		if err := s.Write(t.Context(), homeRows(r, begin.Add(time.Duration(minute)*time.Minute), 600)); err != nil {
			t.Fatal(err)
		}
	}
	written := writtenBytes(t) - before
	if written == 0 {
		t.Skip("this file system counts no bytes")
	}
	day := written * 24 / hours
	t.Logf("a day writes %d MB", day/1e6)
	if day > 200e6 {
		t.Errorf("a day writes %d bytes, want 200 MB at most", day)
	}
}

// writtenBytes returns how many bytes this process has had written to disks.
func writtenBytes(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "write_bytes: %d", &n)
	}
	return n
}

// homeRows returns what a name server at home records in a minute.
func homeRows(r *rand.Rand, from time.Time, n int) []event.Row {
	rows := make([]event.Row, n)
	for i := range rows {
		row := &rows[i]
		*row = event.Row{
			Time: from.Add(time.Duration(i) * time.Minute / time.Duration(n)), Duration: time.Duration(r.IntN(900)) * time.Microsecond,
			ID: fmt.Sprintf("1k1j%07x", r.IntN(1<<28)), Client: netip.AddrFrom4([4]byte{192, 168, 1, byte(10 + r.IntN(20))}),
			Policy: "everyone", Method: []string{"A", "AAAA", "HTTPS"}[r.IntN(3)], Host: fmt.Sprintf("www.host%d.example", r.IntN(2000)),
			Proto: filter.DNS, BytesIn: 40, BytesOut: 60,
		}
		if r.IntN(10) == 0 {
			row.Action, row.Rule, row.Category = filter.Block, "ads", "ads"
			row.Evidence = fmt.Sprintf(`"%s" in lists/ads.txt:%d`, row.Host, r.IntN(400))
			row.Findings = fmt.Sprintf(`[{"check":"category","category":"ads","score":0,"evidence":%q}]`, row.Evidence)
		}
	}
	return rows
}

// TestARareBatchIsOnTheDisk: what Write has kept is in the database file alone, which is synchronised:
// nothing of it waits in a log.
func TestARareBatchIsOnTheDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s, err := openStore(path, year, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 700)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if n, err := s.w.int("PRAGMA synchronous"); n != 2 || err != nil {
		t.Errorf("synchronous is %d, %v; want 2, FULL", n, err)
	}
	cut := filepath.Join(t.TempDir(), "events.db")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := countAll(t, cut); n != len(rows) {
		t.Errorf("a power cut leaves %d of %d rows", n, len(rows))
	}
}

// TestTheJournalFollowsThePace: a database changes between its two ways when it is opened alone; beside
// another process it stays as it is, and both write.
func TestTheJournalFollowsThePace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond).Add(-time.Hour), 500)
	written := 0
	write := func(s *Store) {
		t.Helper()
		if err := s.Write(t.Context(), rows[written:written+50]); err != nil {
			t.Fatal(err)
		}
		written += 50
	}
	hasLog := func() bool {
		_, err := os.Stat(path + "-wal")
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, every := range []time.Duration{time.Second, time.Minute, time.Second, rare, time.Second} {
		s, err := openStore(path, year, every)
		if err != nil {
			t.Fatal(err)
		}
		write(s)
		if hasLog() != (every < rare) {
			t.Errorf("every %v: there is a write-ahead log: %v", every, hasLog())
		}
		beside, err := openStore(path, year, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		write(beside)
		write(s)
		if hasLog() != (every < rare) {
			t.Errorf("every %v, beside another: there is a write-ahead log: %v", every, hasLog())
		}
		if n := countAll(t, path); n != written {
			t.Errorf("every %v: %d rows of %d", every, n, written)
		}
		if err := errors.Join(s.Close(), beside.Close()); err != nil {
			t.Error(err)
		}
		rows = append(rows, eventtest.Rows(rows[len(rows)-1].Time.Add(time.Second), 200)...)
	}
}

// countAll returns how many rows a database has.
func countAll(t *testing.T, path string) (n int) {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, err := range r.Query(t.Context(), event.Filter{}, event.Page{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	return n
}
