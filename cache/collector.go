package cache

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The collector of garbage lets a heap grow to twice of what is in use. Of what a
// cache holds, that would be twice of what the settings allow. Nearly all of it is
// bodies, which cost the collector nothing to look at, so that it may as well come
// sooner: as often as without them, and a little more often for the rest that
// objects consist of.

// heldShare is the share of what the cache holds that garbage may take besides,
// leastGarbage what it may take in any case.
const (
	heldShare    = 8
	leastGarbage = 24 << 20
)

// garbagePercent is the percentage for [debug.SetGCPercent] with a heap of which
// live bytes are in use, held by the cache among them.
func garbagePercent(live, held int64) int {
	others := max(live-held, 0)
	room := max(others, leastGarbage) + held/heldShare
	return int(min(max(room*100/max(live, 1), 10), 100))
}

// limitRoom is what the process may take besides what the collector aims at: memory
// that objects of one size have left and those of another cannot use is returned
// to the system only beyond that, or slowly in the background.
const limitRoom = 16 << 20

// memoryLimit is the limit for [debug.SetMemoryLimit]: so much that it never makes
// the collector run sooner than the percentage does.
func memoryLimit(m *memoryUse, percent int) int64 {
	goal := m.live + m.live/100*int64(percent)
	return goal + m.gaps + m.others + limitRoom
}

// A memoryUse is what the process takes, in bytes: objects that were alive at the
// last collection, gaps between objects, and all that is not of the heap.
type memoryUse struct{ live, gaps, others int64 }

func (m *memoryUse) read() {
	const heap = "/memory/classes/heap/"
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: heap + "unused:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: heap + "objects:bytes"}, {Name: heap + "free:bytes"}, {Name: heap + "released:bytes"}}
	metrics.Read(s)
	v := func(i int) int64 { return int64(s[i].Value.Uint64()) }
	m.live, m.gaps = v(0), v(1)
	m.others = v(2) - v(1) - v(3) - v(4) - v(5)
}

// pace keeps the collector's percentage and the memory limit right until ctx ends,
// unless the one who runs the process has said what they are to be.
func (s *shelf) pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	const usual = 100
	var mu sync.Mutex // of what follows
	ended, last := false, usual
	limits := debug.SetMemoryLimit(-1) == math.MaxInt64
	var use memoryUse
	afterCollections(func() bool {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return false
		}
		use.read()
		next := garbagePercent(use.live, s.held())
		if d := next - last; d > last/16 || d < -last/16 {
			debug.SetGCPercent(next)
			last = next
		}
		if limits {
			debug.SetMemoryLimit(memoryLimit(&use, max(next, last)))
		}
		return true
	})
	<-ctx.Done()
	mu.Lock()
	defer mu.Unlock()
	ended = true
	debug.SetGCPercent(usual)
	if limits {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// afterCollections calls f after each collection, until it returns false.
func afterCollections(f func() bool) {
	runtime.AddCleanup(new([16]byte), func(f func() bool) {
		if f() {
			afterCollections(f)
		}
	}, f)
}

// held is how many bytes of memory the shelf holds, and bodies on their way to it.
func (s *shelf) held() int64 {
	s.mu.RLock()
	n := s.memory.Bytes()
	s.mu.RUnlock()
	return n + s.budget.now() + unused.held()
}

// shrink leaves as much of memory to objects as bodies that are being fetched do
// not need. It keeps a third in any case.
func (s *shelf) shrink(used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Resize(max(s.most-used-min(unused.held(), s.most/16), s.most/3))
}
