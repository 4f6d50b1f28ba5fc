package sqlite

import (
	"context"
	"log/slog"
	"math"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
)

const year = 365 * 24 * time.Hour

func open(path string) (event.Store, error) { return Open(path, year) }

func TestStore(t *testing.T) { eventtest.Run(t, open) }
func TestAWrongClockForgetsNothing(t *testing.T) {
	eventtest.Clock(t, true, func(path string, keep time.Duration) (event.Store, error) { return Open(path, keep) })
}

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
			t.Fatalf("%d rows, want %d, after write %d", got, want, i)
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
	for r, err := range s.Query(t.Context(), event.Filter{Until: now.Add(time.Hour)}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Time)
	}
	if len(got) != len(right) || got[0] != right[0].Time {
		t.Errorf("after the clock was wrong: found %v, want the %d rows from %v on", got, len(right), now)
	}

	// New rows skip ids that are taken.
	s.last = ahead[0].Time.UnixMicro() - 1
	last, err := s.index.write(s.w, s.last, math.MaxInt64, ahead[:1])
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
	if err := s.w.exec("PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, year); err == nil {
		s.Close()
		t.Fatal("Open returns no error")
	}
}

func TestFullDiskKeepsNothingOfABatch(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "events.db"), year)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(eventtest.Start(), 5000)
	if err := s.Write(t.Context(), rows[:100]); err != nil {
		t.Fatal(err)
	}
	if err := s.w.exec("PRAGMA max_page_count = 25"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Write(t.Context(), rows[100:]); err == nil || !strings.Contains(err.Error(), "full") {
			t.Errorf("Write returned %v, want an error about a full disk", err)
		}
		if got := count(t, s); got != 100 {
			t.Errorf("%d rows, want 100", got)
		}
	}
	if err := s.w.exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), rows[100:]); err != nil {
		t.Error(err)
	}
	if got := count(t, s); got != 5000 {
		t.Errorf("%d rows, want 5000", got)
	}
}

func TestReaderOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	if r, err := OpenReader(path); err == nil {
		r.Close()
		t.Fatal("OpenReader returns no error although there is no database")
	}
	s, err := Open(path, year)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(eventtest.Start(), 3*pageRows)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	for got, err := range r.Query(t.Context(), event.Filter{}, event.Page{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Seq = 0; got != rows[n] {
			t.Fatalf("row %d differs", n)
		}
		if n++; n == 10 { // rows that are written now do not belong to the answer
			if err := s.Write(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != len(rows) {
		t.Errorf("%d rows, want %d", n, len(rows))
	}
	if _, err := r.db.Exec("DELETE FROM event"); err == nil {
		t.Error("a reader can delete rows")
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
	if err := s.db.QueryRow("SELECT time, action, host, ms FROM events").Scan(&at, &action, &host, &ms); err != nil {
		t.Fatal(err)
	}
	if want := rows[0].Time.Format("2006-01-02 15:04:05"); at[:len(want)] != want || action != "block" || host != rows[0].Host || ms != 1 {
		t.Errorf("the view shows %q %q %q %v, want %q block %q 1", at, action, host, ms, want, rows[0].Host)
	}
}

// BenchmarkPipeline measures everything that recording a transaction costs: row, queue, batch
// and insert.
func BenchmarkPipeline(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "events.db"), year)
	if err != nil {
		b.Fatal(err)
	}
	l, err := event.New(event.Config{}, slog.New(slog.DiscardHandler), s)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t := &filter.Transaction{
		ID: "0jabc12345678", Client: filter.Client{Addr: netip.MustParseAddr("10.1.2.3"), User: "anna"},
		Host: "www.site-1.example.com", Port: 443, URL: "https://www.site-1.example.com/articles/2026/01/page-1.html?ref=home",
		Request:  &message.Request{Method: "GET"},
		Response: &message.Response{Fields: message.Fields{{Name: []byte("Content-Type"), Value: []byte("text/html; charset=utf-8")}}},
		Findings: []filter.Finding{{Check: "phrase", Category: "phrase", Score: 34, Evidence: "gambling: casino (w.list:12) 34"}},
		Verdict:  filter.Verdict{Reason: filter.Reason{Policy: "pupils"}},
		Record:   filter.Record{Status: 200, BytesOut: 20_000, Looked: 20_000, Duration: time.Millisecond},
	}
	b.ReportAllocs()
	n, start := 0, platform.CPU()
	for b.Loop() {
		for n%1000 == 0 && l.Stats()[0].Queued > 20_000 {
			runtime.Gosched()
		}
		t.Start = time.Now()
		l.Add(event.NewRow(t))
		n++
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(platform.CPU()-start)/float64(n), "cpu-ns/row")
	b.ReportMetric(float64(l.Stats()[0].Dropped), "dropped")
}

// largeRecord returns a record of n rows, the last of which is current.
func largeRecord(t testing.TB, n int) (*Store, time.Time) {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "events.db"), year)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	now := time.Now().UTC().Truncate(time.Microsecond)
	rows := eventtest.Rows(now.Add(-time.Duration(n)*50*time.Microsecond), n)
	for part := range slices.Chunk(rows, 10_000) {
		if err := s.Write(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	return s, now
}

func TestAPersonIsErased(t *testing.T) {
	eventtest.Erases(t, func(path string) (event.Store, error) { return Open(path, 365*24*time.Hour) })
}

func TestQuestionsInsideQuestionsShareTheConnections(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "events.db"), year)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(time.Now().UTC().Truncate(time.Microsecond), 3*pageRows)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	var first []event.Row // the first row of each query, while the others continue
	var ask func(depth int)
	ask = func(depth int) {
		n := 0
		for r, err := range s.Query(t.Context(), event.Filter{}, event.Page{Newest: depth%2 == 1}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 1 {
				first = append(first, r)
				if depth < 2*maxRowReaders {
					ask(depth + 1)
				}
			}
		}
		if n != len(rows) {
			t.Errorf("question %d has %d rows, want %d", depth, n, len(rows))
		}
	}
	ask(0)
	for depth, r := range first {
		want := rows[0]
		if depth%2 == 1 {
			want = rows[len(rows)-1]
		}
		if r.Seq = 0; r != want {
			t.Errorf("question %d began with %+v, want %+v", depth, r, want)
		}
	}
}
