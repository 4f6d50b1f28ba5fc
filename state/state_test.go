package state

import (
	"encoding/binary"
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
			t.Error("gone after 59 minutes, want it there for an hour")
		}
		time.Sleep(2 * time.Minute)
		if _, ok := m.Get(t.Context(), number(1)); ok {
			t.Error("there after 61 minutes, want it gone after an hour")
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
	m.cache.CleanUp()
	if got := m.cache.WeightedSize(); got > size {
		t.Errorf("entries take %d bytes, want at most %d", got, size)
	}
	n := 0
	for i := range uint64(10_000) {
		if _, ok := m.Get(t.Context(), number(i)); ok {
			n++
		}
	}
	if n < 500 {
		t.Errorf("%d entries are left of the 900 that have room", n)
	}
	m.Put(t.Context(), number(1), make([]byte, size), time.Hour)
	if _, ok := m.Get(t.Context(), number(1)); ok {
		t.Error("a value as big as the store is kept")
	}
}

func TestNewRefusesASizeOfNoUse(t *testing.T) {
	if _, err := New(Config{Size: 1000}); err == nil {
		t.Error("a memory of 1000 bytes was made")
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
