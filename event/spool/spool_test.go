package spool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/jsonl"
	"shuultuur/event/spool"
	"shuultuur/lib/wait/waittest"
)

// A receiver takes events, or fails as if it were away.
type receiver struct {
	mu     sync.Mutex
	away   bool
	refuse bool
	got    []string
}

func (r *receiver) Name() string { return "receiver" }
func (r *receiver) Close() error { return nil }

func (r *receiver) Write(_ context.Context, rows []event.Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.away:
		return errors.New("away")
	case r.refuse && len(rows) > 0:
		return &event.Refused{Err: errors.New("never")}
	}
	for _, x := range rows {
		r.got = append(r.got, x.ID)
	}
	return nil
}

func (r *receiver) set(away, refuse bool) {
	r.mu.Lock()
	r.away, r.refuse = away, refuse
	r.mu.Unlock()
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.got...)
}

func open(t *testing.T, r *receiver, dir string, limit int64) *spool.Store {
	t.Helper()
	s, err := spool.Open(r, dir, limit, jsonl.Codec, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rows returns n rows, beginning with number first.
func rows(first, n int) (all []event.Row) {
	for i := range n {
		all = append(all, event.Row{ID: fmt.Sprint(first + i), Time: time.Unix(1, 0), URL: "http://h.example/"})
	}
	return all
}

// run runs a log over a store, and returns the function that ends it.
func run(t *testing.T, s event.Store) (*event.Log, func()) {
	t.Helper()
	l, err := event.New(event.Config{Every: 10 * time.Millisecond, Queue: 100_000}, slog.New(slog.DiscardHandler), s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return l, func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// ordered reports whether the events from 0 to n-1 are there, in order.
func ordered(got []string, n int) error {
	if len(got) != n {
		return fmt.Errorf("%d events, want %d", len(got), n)
	}
	for i, id := range got {
		if id != fmt.Sprint(i) {
			return fmt.Errorf("event %d is %s", i, id)
		}
	}
	return nil
}

// TestNothingIsLostWhileTheReceiverIsAway: a restart loses nothing either, and the order stays.
func TestNothingIsLostWhileTheReceiverIsAway(t *testing.T) {
	r, dir := &receiver{}, t.TempDir()
	l, end := run(t, open(t, r, dir, 1<<20))
	add := func(first, n int) {
		for _, x := range rows(first, n) {
			l.Add(x)
		}
	}
	add(0, 100)
	waittest.Until(t, "the first are there", func() bool { return len(r.all()) == 100 })
	r.set(true, false)
	add(100, 500)
	waittest.Until(t, "they are on the disk", func() bool { s := l.Stats()[0]; return s.Spooled == 500 && s.Err != nil })
	add(600, 100)
	end()
	l, end = run(t, open(t, r, dir, 1<<20))
	defer end()
	if n := l.Stats()[0].Spooled; n != 600 {
		t.Errorf("%d events wait after a restart, want 600", n)
	}
	r.set(false, false)
	waittest.Until(t, "all are there", func() bool { return len(r.all()) >= 700 })
	add(700, 50)
	waittest.Until(t, "the last are there", func() bool { return len(r.all()) >= 750 })
	if err := ordered(r.all(), 750); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "nothing waits", func() bool {
		s := l.Stats()[0]
		return s.Spooled == 0 && s.Queued == 0 && s.Dropped == 0 && s.Err == nil
	})
}

func TestAFullSpoolLeavesRowsInTheQueue(t *testing.T) {
	r := &receiver{away: true}
	s := open(t, r, t.TempDir(), 10_000)
	defer s.Close()
	n, err := 0, error(nil)
	for ; err == nil && n < 1000; n++ {
		err = s.Write(t.Context(), rows(n, 1))
	}
	if err == nil {
		t.Fatal("Write never reaches the limit of the spool")
	}
	if waiting, _, _ := s.Spooled(); waiting != uint64(n-1) {
		t.Errorf("%d events wait, want %d", waiting, n-1)
	}
}

// TestRowsRefusedForGoodAreDroppedAndCounted covers events sent directly and from the disk.
func TestRowsRefusedForGoodAreDroppedAndCounted(t *testing.T) {
	r := &receiver{refuse: true}
	l, end := run(t, open(t, r, t.TempDir(), 1<<20))
	defer end()
	for _, x := range rows(0, 10) {
		l.Add(x)
	}
	waittest.Until(t, "they are dropped", func() bool { return l.Stats()[0].Dropped == 10 })
	r.set(true, false)
	for _, x := range rows(0, 10) {
		l.Add(x)
	}
	waittest.Until(t, "they are on the disk", func() bool { return l.Stats()[0].Spooled == 10 })
	r.set(false, true)
	waittest.Until(t, "they are dropped too", func() bool { s := l.Stats()[0]; return s.Dropped == 20 && s.Spooled == 0 })
}

// A batcher wants 50 rows at once, or fewer after a while.
type batcher struct {
	receiver
	every time.Duration
	sizes []int
}

func (b *batcher) Batch() (int, time.Duration) { return 50, b.every }

func (b *batcher) Write(ctx context.Context, rows []event.Row) error {
	err := b.receiver.Write(ctx, rows)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.sizes = append(b.sizes, len(rows))
	}
	return err
}

// TestRowsAreGathered: for a receiver that wants many rows at once, rows wait on disk, even
// across restarts. Stopping sends those that wait.
func TestRowsAreGathered(t *testing.T) {
	b, dir := &batcher{every: time.Hour}, t.TempDir()
	open := func() *spool.Store {
		s, err := spool.Open(b, dir, 1<<20, jsonl.Codec, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	write := func(s *spool.Store, first, n, want int) {
		t.Helper()
		if err := s.Write(t.Context(), rows(first, n)); err != nil {
			t.Fatal(err)
		}
		if got := len(b.all()); got != want {
			t.Errorf("after event %d the receiver has %d, want %d", first+n, got, want)
		}
	}
	s := open()
	write(s, 0, 20, 0)
	write(s, 20, 29, 0)
	write(s, 49, 1, 50)
	write(s, 50, 10, 50)
	if waiting, _, err := s.Spooled(); waiting != 10 || err != nil {
		t.Errorf("%d events wait, %v; want 10", waiting, err)
	}
	b.set(true, false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	write(s, 60, 45, 50) // away
	b.set(false, false)
	waittest.Until(t, "the receiver has all but a few", func() bool {
		if err := s.Write(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return len(b.all()) >= 100
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ordered(b.all(), 105); err != nil {
		t.Error(err)
	}
	b.every = time.Millisecond
	s = open()
	defer s.Close()
	if err := s.Write(t.Context(), rows(105, 1)); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "time has passed", func() bool {
		_ = s.Write(t.Context(), nil)
		return len(b.all()) == 106
	})
}
