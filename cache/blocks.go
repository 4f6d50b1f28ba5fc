package cache

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// blocks are the memory of a body that is or was fetched. Most bodies are never
// asked for again: their memory goes from the one that leaves the cache to the
// next that comes, so that the collector of garbage has nothing to do with it.
//
// That is only for memory that nobody can have: whoever is not sure keeps a hold
// for good, and leaves the blocks to the collector.
type blocks struct {
	list  [][]byte
	holds atomic.Int32
}

func newBlocks() *blocks {
	b := new(blocks)
	b.holds.Store(1)
	return b
}

// hold keeps the memory from being used again until free is called. It says
// no where it is too late for that.
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
			m = m[:0]
			unused[c].Put(&m)
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
	} else if p, _ := unused[c].Get().(*[]byte); p != nil {
		m = *p
	} else {
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

// Blocks that are used again have sizes of these classes: eight from one power of
// two to the next, so that at most an eighth of a block is empty.
const (
	leastClass  = 12 // 4 KiB
	mostClass   = 20 // 1 MiB
	classShare  = 8
	sizeClasses = (mostClass-leastClass)*classShare + 1
)

// unused are blocks by class. What is not needed soon goes to the collector.
var unused [sizeClasses]sync.Pool

// classOf returns the class for n bytes and the size of its blocks, and -1 and n
// where there is none.
func classOf(n int) (class, size int) {
	if n < 1<<leastClass || n > 1<<mostClass {
		return -1, n
	}
	power := bits.Len(uint(n)) - 1
	step := 1 << power / classShare
	up := (n - 1<<power + step - 1) / step
	return (power-leastClass)*classShare + up, 1<<power + up*step
}
