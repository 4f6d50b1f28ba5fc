package statetest

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/lib/wait/waittest"
	"shuultuur/state"
)

// nodes holds the tests of two stores that share state.
var nodes = map[string]func(t *testing.T, a, b Store){
	"what one has put the other gets":                              verdictsAreShared,
	"what one removes is gone":                                     removedIsGone,
	"what both count adds up":                                      countsAddUp,
	"a counter that the other has filled is full at once":          fullIsFull,
	"many counts at once on each are exact":                        exactUnderLoad,
	"what one counts without waiting the other sees when it looks": looksSee,
	"what is spent once is spent on both":                          spentOnce,
	"together they do not exceed a limit":                          limitHoldsTogether,
}

// RunNodes tests that two stores share state. with makes both for each test.
func RunNodes(t *testing.T, with func(t *testing.T, test func(t *testing.T, a, b Store))) {
	tests := maps.Clone(nodes)
	maps.Copy(tests, instructed)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { with(t, test) })
	}
}

func verdictsAreShared(t *testing.T, a, b Store) {
	absent(t, b, 1)
	a.Put(t.Context(), Key(1), []byte("x"), time.Hour)
	waittest.Until(t, "the other gets it", func() bool { v, ok := b.Get(t.Context(), Key(1)); return ok && string(v) == "x" })
}

func removedIsGone(t *testing.T, a, b Store) {
	a.Put(t.Context(), Key(1), []byte("x"), time.Hour)
	waittest.Until(t, "the other gets it", func() bool { _, ok := b.Get(t.Context(), Key(1)); return ok })
	a.Put(t.Context(), Key(1), nil, 0)
	absent(t, a, 1)
	waittest.Until(t, "the other has it no more", func() bool { _, ok := b.Get(t.Context(), Key(1)); return !ok })
}

func countsAddUp(t *testing.T, a, b Store) {
	until := time.Now().Add(time.Hour)
	var wg sync.WaitGroup
	for i, s := range []Store{a, b} {
		wg.Go(func() {
			for j := range 2000 {
				s.Count(context.Background(), []state.Count{
					{Key: Key(uint64(j % 10)), Until: until, Add: 1},
					{Key: Key(100), Until: until, Set: true, Member: i*300 + j%500},
				})
			}
		})
	}
	wg.Wait()
	for k := range uint64(10) {
		for _, s := range []Store{a, b} {
			waittest.Until(t, "both know of 400", func() bool { return one(t, s, state.Count{Key: Key(k), Until: until}).Sum == 400 })
		}
	}
	for _, s := range []Store{a, b} {
		waittest.Until(t, "both know of 800 members", func() bool {
			return one(t, s, state.Count{Key: Key(100), Until: until, Set: true, Member: -1}).Sum == 800
		})
	}
}

func fullIsFull(t *testing.T, a, b Store) {
	until := time.Now().Add(time.Hour)
	one(t, a, state.Count{Key: Key(1), Until: until, Add: 90, Most: 100}) // it waits for Redis, because it is near the limit
	if n := one(t, b, state.Count{Key: Key(1), Until: until, Add: 20, Most: 100}); !n.Over || n.Sum != 90 {
		t.Errorf("over %v with sum %d, want it refused at 90", n.Over, n.Sum)
	}
}

func exactUnderLoad(t *testing.T, a, b Store) {
	const each = 5000
	until := time.Now().Add(time.Hour)
	count := func(s Store, add int64) int64 {
		n := []state.Count{{Key: Key(1), Until: until, Add: add}}
		s.Count(context.Background(), n)
		return n[0].Sum
	}
	var wg sync.WaitGroup
	var begun atomic.Int64
	for _, s := range []Store{a, b} {
		wg.Go(func() {
			for range each {
				begun.Add(1)
				if sum := count(s, 1); sum > begun.Load() {
					t.Errorf("a sum of %d when %d were counted", sum, begun.Load())
				}
			}
		})
	}
	wg.Wait()
	for _, s := range []Store{a, b} {
		waittest.Until(t, "both know of all", func() bool { return count(s, 0) == 2*each })
	}
}

func looksSee(t *testing.T, a, b Store) {
	until := time.Now().Add(time.Hour)
	for want := range int64(5) {
		here(a, state.Count{Key: Key(1), Until: until, Add: 1})
		here(a, state.Count{Key: Key(2), Until: until, Set: true, Member: int(want)})
		waittest.Until(t, "the other sees it", func() bool {
			return here(b, state.Count{Key: Key(1), Until: until}).Sum == want+1 &&
				here(b, state.Count{Key: Key(2), Until: until, Set: true, Member: -1}).Sum == want+1
		})
	}
}

func spentOnce(t *testing.T, a, b Store) {
	until := time.Now().Add(time.Hour)
	for i := range uint64(20) {
		if n := one(t, a, state.Count{Key: Key(i), Until: until, Add: 1, Most: 1}); n.Over {
			t.Errorf("%d: refused before anybody has spent it", i)
		}
		if n := one(t, b, state.Count{Key: Key(i), Until: until, Add: 1, Most: 1}); !n.Over {
			t.Errorf("%d: spent once more", i)
		}
	}
	// At the same moment both may be refused, but both must not succeed.
	for i := range uint64(20) {
		var wg sync.WaitGroup
		var first atomic.Int64
		for _, s := range []Store{a, b, a, b} {
			wg.Go(func() {
				if !one(t, s, state.Count{Key: Key(100 + i), Until: until, Add: 1, Most: 1}).Over {
					first.Add(1)
				}
			})
		}
		wg.Wait()
		if n := first.Load(); n > 1 {
			t.Errorf("%d: spent %d times", 100+i, n)
		}
	}
}

func limitHoldsTogether(t *testing.T, a, b Store) {
	const most = 2000
	until := time.Now().Add(time.Hour)
	var wg sync.WaitGroup
	var taken atomic.Int64
	for _, s := range []Store{a, b, a, b} {
		wg.Go(func() {
			for range 1500 {
				counts := []state.Count{{Key: Key(1), Until: until, Add: 1, Most: most}}
				if s.Count(context.Background(), counts); !counts[0].Over {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// A node lets pass a tenth of the remainder that it last knew.
	if n := taken.Load(); n > most*11/10 || n < most*99/100 {
		t.Errorf("%d were let through, want %d", n, most)
	}
}
