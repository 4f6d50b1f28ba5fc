package cache

import (
	"context"
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

// pace keeps the collector's percentage right until ctx ends, unless the one who
// runs the process has said what it is to be.
func (s *shelf) pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	const usual = 100
	var mu sync.Mutex // of what follows
	ended, last := false, usual
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	afterCollections(func() bool {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return false
		}
		metrics.Read(live)
		next := garbagePercent(int64(live[0].Value.Uint64()), s.held())
		if d := next - last; d > last/16 || d < -last/16 {
			debug.SetGCPercent(next)
			last = next
		}
		return true
	})
	<-ctx.Done()
	mu.Lock()
	defer mu.Unlock()
	ended = true
	debug.SetGCPercent(usual)
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
