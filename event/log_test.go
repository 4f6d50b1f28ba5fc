package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/lib/setting"
)

// memory is a store that keeps rows in memory and fails on request.
type memory struct {
	mu      sync.Mutex
	rows    []Row
	batches []int
	fail    error
	stuck   time.Duration // how long a write takes
	closed  bool
}

func (m *memory) Name() string { return "memory" }

func (m *memory) Write(ctx context.Context, rows []Row) error {
	select {
	case <-time.After(m.stuck):
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.rows = append(m.rows, rows...)
	m.batches = append(m.batches, len(rows))
	return nil
}

func (m *memory) Close() error {
	m.closed = true
	return nil
}

func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows)
}

// start runs a log over stores; stop ends it and returns the result of Run.
func start(t *testing.T, cfg Config, stores ...Store) (l *Log, stop func() error) {
	t.Helper()
	l, err := New(cfg, slog.New(slog.DiscardHandler), stores...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	return l, func() error {
		cancel()
		return <-done
	}
}

func TestBatchesOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		l, stop := start(t, Config{}, m)
		for i := range 10 {
			l.Add(Row{Score: i})
			time.Sleep(300 * time.Millisecond)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(m.batches), "[4 3 3]"; got != want {
			t.Errorf("batches %v, want %v", got, want)
		}
		for i, r := range m.rows {
			if r.Score != i {
				t.Errorf("the store's row %d is number %d", i, r.Score)
			}
		}
		if !m.closed {
			t.Error("the store was not closed")
		}
	})
}

func TestBatchAtTenThousandRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		l, stop := start(t, Config{}, m)
		for range 25_000 {
			l.Add(Row{})
		}
		synctest.Wait()
		if got := m.len(); got < 10_000 {
			t.Errorf("%d rows were written before the end of the second, want at least 10000", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		for _, n := range m.batches {
			if n > 10_000 {
				t.Errorf("a batch has %d rows, want at most 10000", n)
			}
		}
		if got := l.Stats()[0]; got.Written != 25_000 || got.Dropped != 0 || got.Queued != 0 || got.Bytes != 0 {
			t.Errorf("counters %+v, want 25000 written, none dropped or queued", got)
		}
	})
}

func TestFullQueueDropsAndCounts(t *testing.T) {
	for name, c := range map[string]struct {
		row  Row
		rows uint64 // that fit
	}{
		"rows":  {Row{}, 1000},
		"bytes": {Row{URL: strings.Repeat("u", queueBytes/10-rowSize)}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, other := &memory{stuck: time.Hour}, &memory{}
				l, stop := start(t, Config{Queue: 1000}, m, other)
				for range 1500 {
					l.Add(c.row)
				}
				s := l.Stats()[0]
				if uint64(s.Queued) != c.rows || s.Dropped != 1500-c.rows {
					t.Errorf("queued %d, dropped %d; want %d and %d", s.Queued, s.Dropped, c.rows, 1500-c.rows)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				// The other store may have begun to write before its queue was full.
				if s := l.Stats()[1]; s.Written < c.rows || s.Written+s.Dropped != 1500 {
					t.Errorf("the other store's counters are %+v, want that it writes on", s)
				}
				for range 10 {
					l.Add(Row{})
				}
				err := stop() // the stuck store gives up after ten seconds
				if err == nil || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run returned %v, want the number of lost rows", err)
				}
				s = l.Stats()[0]
				if s.Dropped != 1510 || s.Written != 0 || s.Queued != 0 {
					t.Errorf("counters at the end %+v", s)
				}
				if s := l.Stats()[1]; s.Written+s.Dropped != 1510 || uint64(other.len()) != s.Written {
					t.Errorf("the other store has %d rows, its counters are %+v", other.len(), s)
				}
			})
		})
	}
}

func TestFailingStoreIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &memory{fail: errors.New("disk full")}, &memory{}
		l, stop := start(t, Config{}, bad, good)
		for i := range 100 {
			l.Add(Row{Score: i})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if got := good.len(); got < 99 {
			t.Errorf("the working store has %d rows, want at least 99", got)
		}
		if s := l.Stats()[0]; s.Failed < 40 || s.Failed > 100 || s.Queued != 100 || s.Err == nil || time.Since(s.Since) < 90*time.Second {
			t.Errorf("counters of the failing store: %+v", s)
		}
		if s := l.Stats()[1]; s.Err != nil {
			t.Errorf("the working store reports an error: %+v", s)
		}
		bad.set(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := bad.len(); got != 100 || l.Stats()[0].Err != nil {
			t.Errorf("%d rows after the store works again, want 100; error %v", got, l.Stats()[0].Err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i, r := range bad.rows {
			if r.Score != i {
				t.Fatalf("row %d is number %d", i, r.Score)
			}
		}
	})
}

// TestFlushDoesNotWaitForTheBatch: rows are written at once where somebody waits for them, by the
// stores that are meant, and also when rows were dropped before; a store that fails is tried again.
func TestFlushDoesNotWaitForTheBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := &memory{}, &memory{}
		l, stop := start(t, Config{Every: time.Minute, Queue: 100}, one, other)
		for range 60 { // fewer than a batch, which would not wait
			l.Add(Row{})
		}
		begin := time.Now()
		if err := l.Flush(t.Context(), one); err != nil || one.len() != 60 || other.len() != 0 {
			t.Errorf("%v; %d and %d rows are written, want 60 and 0", err, one.len(), other.len())
		}
		if err := l.Flush(t.Context()); err != nil || other.len() != 60 {
			t.Errorf("%v; %d rows are written, want 60", err, other.len())
		}
		if err := l.Flush(t.Context()); err != nil { // of nothing
			t.Error(err)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %v", took)
		}

		one.set(errors.New("the disk is full"))
		l.Add(Row{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := l.Flush(ctx, one); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that fails: %v", err)
		}
		time.AfterFunc(5*time.Second, func() { one.set(nil) })
		if err := l.Flush(t.Context(), one); err != nil || one.len() != 61 || time.Since(begin) > 13*time.Second {
			t.Errorf("%v; %d rows are written after %v", err, one.len(), time.Since(begin))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := l.Flush(t.Context()); err != nil { // after the end
			t.Error(err)
		}
	})
}

func TestStopWritesEverythingOrSaysWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fail: errors.New("disk full")}
		l, stop := start(t, Config{}, m)
		for range 10 {
			l.Add(Row{})
		}
		go func() {
			time.Sleep(5 * time.Second)
			m.set(nil)
		}()
		if err := stop(); err != nil {
			t.Errorf("Run returned %v although the store worked again in time", err)
		}
		if m.len() != 10 {
			t.Errorf("the store has %d rows, want 10", m.len())
		}
		l.Add(Row{})
		if s := l.Stats()[0]; s.Dropped != 1 || s.Written != 10 {
			t.Errorf("counters after the end: %+v, want 1 dropped and 10 written", s)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := &memory{fail: errors.New("disk full")}
		l, stop := start(t, Config{}, m)
		for range 10 {
			l.Add(Row{})
		}
		if err := stop(); err == nil || !strings.Contains(err.Error(), "memory: 10 events lost: disk full") {
			t.Errorf("Run returned %v, want the number of lost rows and the reason", err)
		}
	})
}

func TestQuietStoreIsKeptUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		l, stop := start(t, Config{}, m)
		for range 5000 {
			l.Add(Row{})
		}
		time.Sleep(5*time.Minute + 2*time.Second)
		synctest.Wait()
		if q := l.lanes[0]; cap(q.rows) != 0 || cap(q.taken) != 0 {
			t.Errorf("empty queues keep room for %d and %d rows, want none", cap(q.rows), cap(q.taken))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got, want := fmt.Sprint(m.batches), "[5000 0 0 0 0 0]"; got != want {
			t.Errorf("batches %v, want %v", got, want)
		}
	})
}

func TestManyAdd(t *testing.T) {
	m := &memory{}
	l, stop := start(t, Config{Every: 10 * time.Millisecond}, m)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				l.Add(Row{ID: "x"})
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if m.len() != 16_000 {
		t.Errorf("the store has %d rows, want 16000", m.len())
	}
}

func TestConfig(t *testing.T) {
	if c, err := (Config{}).WithDefaults(); err != nil || c.Queue == 0 || c.Every != time.Second || c.Keep != setting.Duration(90*24*time.Hour) {
		t.Errorf("defaults of empty settings: %+v, %v", c, err)
	}
	for key, c := range map[string]Config{"keep": {Keep: 1}, "every": {Every: time.Hour}, "queue": {Queue: -1}} {
		_, err := c.WithDefaults()
		var s *setting.Error
		if !errors.As(err, &s) || s.Key != key {
			t.Errorf("settings %+v: %v, want an error about %q", c, err, key)
		}
	}
}

type nowhere struct{}

func (nowhere) Name() string                       { return "nowhere" }
func (nowhere) Write(context.Context, []Row) error { return nil }
func (nowhere) Close() error                       { return nil }

func BenchmarkAdd(b *testing.B) {
	l, err := New(Config{Every: 100 * time.Millisecond, Queue: 1_000_000}, slog.New(slog.DiscardHandler), nowhere{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	r := Row{URL: "http://example.com/", Host: "example.com"}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(l.Stats()[0].Dropped)/float64(b.N), "dropped/op")
}
