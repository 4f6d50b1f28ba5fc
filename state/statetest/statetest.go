// Package statetest is the conformance suite of the stores of package state: the behaviour
// of one store ([Run]), and of two that share values ([RunNodes]).
package statetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"testing"
	"time"

	"shuultuur/state"
)

// A Store is the part of a store that the tests need.
type Store interface {
	Get(ctx context.Context, key [16]byte) (value []byte, ok bool)
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
	Count(ctx context.Context, counts []state.Count)
	CountHere(counts []state.Count)
	Forget(ctx context.Context, keys ...[16]byte) error
	Erase(match func(*state.Instruction) bool, dry bool) (int, error)
	Issue(all ...state.Instruction) error
	InForce(topic string) []state.Instruction
	Follow(ctx context.Context, do func(ctx context.Context, all []state.Instruction) error)
}

// Key returns a key for a number.
func Key(n uint64) (k [16]byte) {
	binary.BigEndian.PutUint64(k[8:], n)
	return k
}

// verdicts are the tests of Get and Put.
var verdicts = map[string]func(t *testing.T, s Store){
	"an unknown key is not there":             unknownIsAbsent,
	"a value is there until its time is over": endsInTime,
	"the last put counts, time included":      lastPutCounts,
	"a put without time removes":              putRemoves,
	"an empty value is a value":               emptyIsValue,
	"the caller may change its slice":         copies,
	"binary values come back as they are":     binaryValues,
	"many use it at once":                     manyUse,
}

// Run tests a store. with makes an empty one for each test. Tests sleep for a few seconds in
// all; a store within this process runs them in a synctest bubble, where that takes no time.
func Run(t *testing.T, with func(t *testing.T, test func(t *testing.T, s Store))) {
	tests := maps.Clone(verdicts)
	maps.Copy(tests, counting)
	maps.Copy(tests, instructing)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { with(t, test) })
	}
}

func unknownIsAbsent(t *testing.T, s Store) {
	absent(t, s, 1)
}

func endsInTime(t *testing.T, s Store) {
	s.Put(t.Context(), Key(1), []byte("one"), 1500*time.Millisecond)
	s.Put(t.Context(), Key(2), []byte("two"), time.Hour)
	present(t, s, 1, "one")
	time.Sleep(1600 * time.Millisecond)
	absent(t, s, 1)
	present(t, s, 2, "two")
}

func lastPutCounts(t *testing.T, s Store) {
	s.Put(t.Context(), Key(1), []byte("old"), 500*time.Millisecond)
	s.Put(t.Context(), Key(1), []byte("new"), time.Hour)
	time.Sleep(600 * time.Millisecond)
	present(t, s, 1, "new")
}

func putRemoves(t *testing.T, s Store) {
	s.Put(t.Context(), Key(1), []byte("old"), time.Hour)
	s.Put(t.Context(), Key(1), []byte("new"), 0)
	absent(t, s, 1)
}

func emptyIsValue(t *testing.T, s Store) {
	s.Put(t.Context(), Key(1), nil, time.Hour)
	present(t, s, 1, "")
}

func copies(t *testing.T, s Store) {
	b := []byte("mine")
	s.Put(t.Context(), Key(1), b, time.Hour)
	copy(b, "ruin")
	present(t, s, 1, "mine")
}

func binaryValues(t *testing.T, s Store) {
	v := make([]byte, 256)
	for i := range v {
		v[i] = byte(i)
	}
	s.Put(t.Context(), Key(1), v, time.Hour)
	present(t, s, 1, string(v))
}

func manyUse(t *testing.T, s Store) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				want := binary.BigEndian.AppendUint64(nil, uint64(i%10))
				s.Put(t.Context(), Key(uint64(i%10)), want, time.Hour)
				if got, ok := s.Get(t.Context(), Key(uint64(i%10))); ok && !bytes.Equal(got, want) {
					t.Errorf("goroutine %d: key %d = %x, want %x", g, i%10, got, want)
				}
			}
		})
	}
	wg.Wait()
}

func present(t *testing.T, s Store, key uint64, want string) {
	t.Helper()
	if got, ok := s.Get(t.Context(), Key(key)); !ok || string(got) != want {
		t.Errorf("key %d = %q, %v; want %q", key, got, ok, want)
	}
}

func absent(t *testing.T, s Store, key uint64) {
	t.Helper()
	if got, ok := s.Get(t.Context(), Key(key)); ok {
		t.Errorf("key %d = %q, want it gone", key, got)
	}
}
