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

// The garbage collector lets a heap grow to twice the memory in use. With a cache, that would
// be twice the size in the settings. Nearly all of it is bodies, which cost the collector
// nothing to scan, so it can run more often: as often as without them, and a little more often
// for the rest of the objects.

// heldShare is the share of the cache's memory that garbage may take in addition, leastGarbage
// its minimum.
const (
	heldShare    = 8
	leastGarbage = 24 << 20
)

// garbagePercent returns the percentage for [debug.SetGCPercent], for a heap with live bytes
// in use, of which the cache holds held.
func garbagePercent(live, held int64) int {
	others := max(live-held, 0)
	room := max(others, leastGarbage) + held/heldShare
	return int(min(max(room*100/max(live, 1), 10), 100))
}

// limitRoom is the memory that the process may take beyond the collector's target: memory left
// by objects of one size, which those of another size cannot use, is returned to the system
// only beyond that, or slowly in the background.
const limitRoom = 16 << 20

// memoryLimit returns the limit for [debug.SetMemoryLimit]: large enough that it never makes
// the collector run sooner than the percentage does.
func memoryLimit(m *memoryUse, percent int) int64 {
	goal := m.live + m.live/100*int64(percent)
	return goal + m.gaps + m.others + limitRoom
}

// A memoryUse is the memory of the process in bytes: objects alive at the last collection,
// gaps between objects, and everything outside the heap.
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

// pace adjusts the collector's percentage and the memory limit until ctx ends, unless the
// environment sets them.
func (s *shelf) pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	const usual = 100
	var mu sync.Mutex // guards the following
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
		next := garbagePercent(use.live, s.memoryInUse())
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

// afterCollections calls f after each collection until it returns false.
func afterCollections(f func() bool) {
	runtime.AddCleanup(new([16]byte), func(f func() bool) {
		if f() {
			afterCollections(f)
		}
	}, f)
}

// memoryInUse returns the bytes of memory of the shelf, and of bodies that are being stored.
func (s *shelf) memoryInUse() int64 {
	s.mu.RLock()
	n := s.memory.Bytes()
	s.mu.RUnlock()
	return n + s.budget.now() + unused.keptBytes()
}

// shrink limits stored objects to the memory that bodies being fetched do not need, but to no
// less than a third.
func (s *shelf) shrink(used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory.Resize(max(s.most-used-min(unused.keptBytes(), s.most/16), s.most/3))
}
