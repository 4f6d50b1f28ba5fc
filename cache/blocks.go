package cache

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// blocks are the pieces of memory that hold a body. Most bodies are never requested again, so
// the memory of a body that leaves the cache is reused for the next one. That spares the
// garbage collector the work.
//
// Only memory without other references is reused. Holders of other references never free their
// hold, and leave the blocks to the garbage collector.
type blocks struct {
	list  [][]byte
	holds atomic.Int32
}

func newBlocks() *blocks {
	b := new(blocks)
	b.holds.Store(1)
	return b
}

// hold prevents reuse of the memory until free is called. It returns false if it is too late.
func (b *blocks) hold() bool {
	for {
		n := b.holds.Load()
		if n == 0 {
			return false
		}
		if b.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// free ends one hold.
func (b *blocks) free() {
	if b.holds.Add(-1) > 0 {
		return
	}
	for _, m := range b.list {
		if c, size := classOf(cap(m)); c >= 0 && size == cap(m) {
			unused.put(c, m[:0])
		}
	}
	b.list = nil
}

// last returns the newest block.
func (b *blocks) last() []byte {
	if len(b.list) == 0 {
		return nil
	}
	return b.list[len(b.list)-1]
}

// add appends a block for size bytes, and returns it.
func (b *blocks) add(size int) []byte {
	c, size := classOf(size)
	var m []byte
	if c < 0 {
		m = make([]byte, 0, size)
	} else if m = unused.get(c); m == nil {
		m = make([]byte, 0, size)
	}
	b.list = append(b.list, m)
	return m
}

// grow makes the newest block n bytes longer.
func (b *blocks) grow(n int) {
	m := &b.list[len(b.list)-1]
	*m = (*m)[:len(*m)+n]
}

// Reused blocks have sizes in classes: eight between powers of two, so that at most an eighth
// of a block is empty. From 32 to 64 KiB there are four.
const (
	leastClass  = 12 // 4 KiB
	mostClass   = 20 // 1 MiB
	classShare  = 8
	sizeClasses = (mostClass-leastClass)*classShare + 1
)

// unused are the blocks that no cache needs at the moment.
var unused spareBlocks

// spareBlocks keeps blocks for reuse, by class.
type spareBlocks struct {
	mu      sync.Mutex
	classes [sizeClasses][][]byte
	bytes   int64
}

// mostUnused limits the bytes of unused blocks.
const mostUnused = 16 << 20

// put keeps a block. If there are too many, all go to the garbage collector, so that sizes no
// longer in demand do not displace others.
func (s *spareBlocks) put(class int, m []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes+int64(cap(m)) > mostUnused {
		clear(s.classes[:])
		s.bytes = 0
	}
	s.classes[class] = append(s.classes[class], m)
	s.bytes += int64(cap(m))
}

// get returns a block, nil if there is none.
func (s *spareBlocks) get(class int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.classes[class]
	if len(list) == 0 {
		return nil
	}
	m := list[len(list)-1]
	list[len(list)-1] = nil
	s.classes[class] = list[:len(list)-1]
	s.bytes -= int64(cap(m))
	return m
}

// keptBytes returns the number of bytes kept.
func (s *spareBlocks) keptBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// classOf returns the class for n bytes and the size of its blocks, or -1 and n if there is
// none.
func classOf(n int) (class, size int) {
	if n < 1<<leastClass || n > 1<<mostClass {
		return -1, n
	}
	power := bits.Len(uint(n)) - 1
	share := 1 << power / classShare
	step := share
	if n > largeObject {
		step = max(step, heapPage)
	}
	up := (n - 1<<power + step - 1) / step * step
	return (power-leastClass)*classShare + up/share, 1<<power + up
}

// Allocations larger than largeObject take whole pages of the heap.
const (
	largeObject = 32 << 10
	heapPage    = 8 << 10
)
