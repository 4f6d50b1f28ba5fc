package statetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/state"
)

// one carries out one count and returns its result.
func one(t *testing.T, s Store, n state.Count) state.Count {
	t.Helper()
	counts := []state.Count{n}
	s.Count(t.Context(), counts)
	if !counts[0].Known {
		t.Errorf("%+v: not known", counts[0])
	}
	return counts[0]
}

// here carries out one count by the sums that the store itself knows, without
// waiting.
func here(s Store, n state.Count) state.Count {
	counts := []state.Count{n}
	s.CountHere(counts)
	return counts[0]
}

// in returns a time that is later than the end of a test.
func in(d time.Duration) time.Time { return time.Now().Add(d) }

// counting holds the tests of Count and CountHere.
var counting = map[string]func(t *testing.T, s Store){
	"sums add up, each for itself":         sumsAddUp,
	"a counter ends when its time is over": countersEnd,
	"a member counts once":                 membersCountOnce,
	"no sum exceeds its limit":             limitsHold,
	"all or nothing":                       allOrNothing,
	"a window slides":                      windowsSlide,
	"counting without waiting counts too":  countsHere,
	"of many only one is the first":        oneIsFirst,
	"many may count at once":               manyCount,
	"a counter that is forgotten is new":   forgotten,
}

func forgotten(t *testing.T, s Store) {
	until := in(time.Hour)
	counts := []state.Count{
		{Key: Key(1), Until: until, Add: 5}, {Key: Key(2), Until: until, Add: 5}, {Key: Key(3), Window: time.Minute, Add: 5},
		{Key: Key(4), Until: until, Set: true, Member: 7},
	}
	for _, n := range counts {
		one(t, s, n)
	}
	keys := [][16]byte{Key(1), Key(4), Key(99)}
	keys = append(keys, counts[2].Keys(time.Now())...)
	if err := s.Forget(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 6, 1, 1} {
		n := counts[i]
		if n.Add = 1; n.Set {
			n.Add, n.Member = 0, 8
		}
		if got := one(t, s, n).Sum; got != want {
			t.Errorf("counter %d has %d, want %d", i, got, want)
		}
	}
}

func sumsAddUp(t *testing.T, s Store) {
	for i, add := range []int64{1, 5, 0, 1 << 40} {
		want := []int64{1, 6, 6, 6 + 1<<40}[i]
		if got := one(t, s, state.Count{Key: Key(1), Until: in(time.Hour), Add: add}).Sum; got != want {
			t.Errorf("after adding %d: %d, want %d", add, got, want)
		}
	}
	if got := one(t, s, state.Count{Key: Key(2), Until: in(time.Hour)}).Sum; got != 0 {
		t.Errorf("another counter holds %d, want 0", got)
	}
}

func countersEnd(t *testing.T, s Store) {
	until := time.Now().Add(500 * time.Millisecond)
	one(t, s, state.Count{Key: Key(1), Until: until, Add: 7})
	time.Sleep(600 * time.Millisecond)
	if got := one(t, s, state.Count{Key: Key(1), Until: in(time.Hour), Add: 1}).Sum; got != 1 {
		t.Errorf("it holds %d, want 1", got)
	}
}

func membersCountOnce(t *testing.T, s Store) {
	for i, m := range []int{5, 5, 700, 2047, -1} {
		want := []int64{1, 1, 2, 3, 3}[i]
		if got := one(t, s, state.Count{Key: Key(1), Until: in(time.Hour), Set: true, Member: m}).Sum; got != want {
			t.Errorf("with %d: %d members, want %d", m, got, want)
		}
	}
}

func limitsHold(t *testing.T, s Store) {
	for i := range 5 {
		n := one(t, s, state.Count{Key: Key(1), Until: in(time.Hour), Add: 2, Most: 5})
		if want := i >= 2; n.Over != want || n.Sum > 5 {
			t.Errorf("add %d: over %v with sum %d, want %v", i, n.Over, n.Sum, want)
		}
		if n.Over && (n.After < 59*time.Minute || n.After > time.Hour) {
			t.Errorf("room after %v, want an hour", n.After)
		}
	}
	for m := range 3 {
		n := one(t, s, state.Count{Key: Key(2), Until: in(time.Hour), Set: true, Member: m, Most: 2})
		if want := m == 2; n.Over != want {
			t.Errorf("member %d: over %v, want %v", m, n.Over, want)
		}
	}
}

func allOrNothing(t *testing.T, s Store) {
	counts := []state.Count{
		{Key: Key(1), Until: in(time.Hour), Add: 1, Most: 10},
		{Key: Key(2), Until: in(time.Hour), Add: 9, Most: 5},
		{Key: Key(3), Until: in(time.Hour), Add: 1},
	}
	s.Count(t.Context(), counts)
	if counts[0].Over || !counts[1].Over || counts[2].Over {
		t.Errorf("%+v: want the second over", counts)
	}
	for k := range uint64(3) {
		if got := one(t, s, state.Count{Key: Key(k + 1), Until: in(time.Hour)}).Sum; got != 0 {
			t.Errorf("counter %d holds %d, want nothing added", k+1, got)
		}
	}
}

func windowsSlide(t *testing.T, s Store) {
	const window, most = 500 * time.Millisecond, 10
	for try := range uint64(20) {
		take := func() state.Count {
			return one(t, s, state.Count{Key: Key(try << 32), Window: window, Add: 1, Most: most})
		}
		end := time.Now().Truncate(window).Add(2 * window)
		time.Sleep(time.Until(end.Add(-window))) // wait for the beginning of a window
		var first int
		for first < most && !take().Over {
			first++
		}
		before := time.Now()
		n := take()
		after := time.Now()
		if !after.Before(end) {
			continue // the test took longer than the window
		}
		if first != most || !n.Over {
			t.Fatalf("over at %d, then %+v; want %d, and the next over", first, n, most)
		}
		// There is room after a tenth of the next window.
		room := end.Add(window / most)
		if n.After < room.Sub(after)-time.Millisecond || n.After > room.Sub(before)+time.Millisecond {
			t.Errorf("over for %v, want between %v and %v", n.After, room.Sub(after), room.Sub(before))
		}
		time.Sleep(n.After + 20*time.Millisecond)
		if n := take(); n.Over {
			t.Errorf("over after the time it said, by %+v", n)
		}
		time.Sleep(2 * window)
		if n := take(); n.Over || n.Sum != 1 {
			t.Errorf("two windows later %+v, want a sum of 1", n)
		}
		return
	}
	t.Errorf("%d counts never took less than %v", most+1, window)
}

func countsHere(t *testing.T, s Store) {
	for i := range 5 {
		n := here(s, state.Count{Key: Key(1), Until: in(time.Hour), Add: 2, Most: 5})
		if want := i >= 2; n.Over != want || !n.Known || n.Sum > 5 {
			t.Errorf("add %d: %+v, want over: %v", i, n, want)
		}
	}
	if got := one(t, s, state.Count{Key: Key(1), Until: in(time.Hour)}).Sum; got != 4 {
		t.Errorf("it holds %d, want 4", got)
	}
}

func oneIsFirst(t *testing.T, s Store) {
	var wg sync.WaitGroup
	var first atomic.Int64
	for range 16 {
		wg.Go(func() {
			if !one(t, s, state.Count{Key: Key(1), Until: in(time.Hour), Add: 1, Most: 1}).Over {
				first.Add(1)
			}
		})
	}
	wg.Wait()
	if n := first.Load(); n != 1 {
		t.Errorf("%d were the first", n)
	}
}

func manyCount(t *testing.T, s Store) {
	var wg sync.WaitGroup
	var taken atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 100 {
				counts := []state.Count{{Key: Key(1), Until: in(time.Hour), Add: 1, Most: 300}, {Key: Key(2), Until: in(time.Hour), Add: 1}}
				if s.Count(t.Context(), counts); !counts[0].Over {
					taken.Add(1)
				}
			}
		})
	}
	wg.Wait()
	// Some counts may collide near the limit, and be undone.
	if n := taken.Load(); n > 300 || n < 290 {
		t.Errorf("%d were let through, want 300", n)
	}
	for k := range uint64(2) {
		if got := one(t, s, state.Count{Key: Key(k + 1), Until: in(time.Hour)}).Sum; got != taken.Load() {
			t.Errorf("counter %d holds %d after %d", k+1, got, taken.Load())
		}
	}
}
