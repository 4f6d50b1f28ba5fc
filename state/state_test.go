package state

import (
	"context"
	"encoding/binary"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func open(t *testing.T, cfg Config) *Memory {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func number(n uint64) (k [16]byte) {
	binary.BigEndian.PutUint64(k[:], n)
	return k
}

func TestMemoryForgetsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Config{})
		m.Put(t.Context(), number(1), []byte("x"), time.Hour)
		time.Sleep(59 * time.Minute)
		if _, ok := m.Get(t.Context(), number(1)); !ok {
			t.Error("the verdict is gone after 59 minutes, want it kept for an hour")
		}
		time.Sleep(2 * time.Minute)
		if _, ok := m.Get(t.Context(), number(1)); ok {
			t.Error("the verdict is there after 61 minutes, want it gone after an hour")
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	const size = 1 << 20
	m := open(t, Config{Size: size})
	value := make([]byte, 1000)
	for i := range uint64(10_000) {
		m.Put(t.Context(), number(i), value, time.Hour)
	}
	if got := m.cache.Bytes(); got > size {
		t.Errorf("entries take %d bytes, want at most %d", got, size)
	}
	n := 0
	for i := range uint64(10_000) {
		if _, ok := m.Get(t.Context(), number(i)); ok {
			n++
		}
	}
	if n < 500 {
		t.Errorf("%d entries are left, want at least 500 of the 900 that have room", n)
	}
	m.Put(t.Context(), number(1), make([]byte, size), time.Hour)
	if _, ok := m.Get(t.Context(), number(1)); ok {
		t.Error("the store keeps a value as large as itself")
	}
}

func TestCountersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(100 * 365 * 24 * time.Hour) // a clock before the program was built is not believed
		var logged strings.Builder
		s, err := Open(Config{}, "", slog.New(slog.NewTextHandler(&logged, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { s.Run(ctx) })
		until := time.Now().Add(time.Hour)
		add := func(i uint64) Count {
			n := []Count{{Key: number(i * 0x9e3779b97f4a7c15), Until: until, Add: 1}}
			s.Count(ctx, n)
			return n[0]
		}
		for i := range uint64(1000) { // counters from before the flood
			add(i)
		}
		for i := range uint64(2 * maxCounters) {
			add(i + 1000)
		}
		for i := range uint64(1000) {
			if n := add(i); n.Sum != 2 || !n.Known {
				t.Fatalf("counter %d holds %d, known %v, after a flood of others; want 2, true", i, n.Sum, n.Known)
			}
		}
		if n := add(1 << 40); n.Sum != 0 || n.Known {
			t.Errorf("a counter without room has %d, known %v; want 0, false", n.Sum, n.Known)
		}
		if st := s.Stats(); st.Counters > maxCounters || st.Counters < maxCounters*9/10 || st.Uncounted < maxCounters {
			t.Errorf("%d counters are held, %d counts found no room; want up to %d, and the others without room", st.Counters, st.Uncounted, maxCounters)
		}
		time.Sleep(sweepEvery / 2) // between two searches for room
		for range 5 {
			time.Sleep(sweepEvery)
			add(1 << 40)
		}
		time.Sleep(2 * time.Hour)
		if n := s.Stats().Counters; n != 0 {
			t.Errorf("%d counters are held after all have expired, want none", n)
		}
		stop()
		run.Wait()
		if n := strings.Count(logged.String(), "no room for more counters"); n != 1 {
			t.Errorf("the log says %d times that there is no room, want once:\n%s", n, logged.String())
		}
	})
}

func TestNewRefusesASizeOfNoUse(t *testing.T) {
	if _, err := New(Config{Size: 1000}); err == nil {
		t.Error("New accepts a size of 1000 bytes")
	}
}

func BenchmarkGet(b *testing.B) {
	m, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	m.Put(b.Context(), number(1), []byte("x"), time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		m.Get(b.Context(), number(1))
	}
}
