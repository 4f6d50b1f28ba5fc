// Package queue holds the S3-FIFO queue that the caches of the program evict by
// (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023):
// new objects pass through a first queue, and only those that are asked for again
// there reach the main one, so that one pass over many objects does not evict what
// is asked for often. A [Queue] is for one goroutine; a [Shared] spreads its keys
// over several queues with a lock each.
package queue

import (
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A Key is a hash of what an object is called. Whoever may choose names must not
// be able to choose hashes where one object in place of another does harm.
type Key = xxh3.Uint128

// MostUses is as far as uses of an object are counted.
const MostUses = 3

// firstShare is the share of a Queue that new objects pass through. S3-FIFO has
// a tenth; memory in front of a disk does better with a half, because it is
// small against what comes again within minutes.
const firstShare = 2

// A Queue holds objects up to a number of bytes and evicts by S3-FIFO. It is
// not for several goroutines at once, except for Get and Peek, which may be
// called by any number while nothing else is.
type Queue[V any] struct {
	// Evicted is called for each object that leaves to make room; it may be
	// nil.
	Evicted func(Key, V)

	size        int64
	items       map[Key]*item[V]
	first, main list[V]
	gone        *ghosts
}

type item[V any] struct {
	key        Key
	value      V
	size       int64
	uses       atomic.Uint32
	in         *list[V]
	prev, next *item[V]
}

// A list is a FIFO; its zero value is empty.
type list[V any] struct {
	root  *item[V] // before the newest, behind the oldest
	bytes int64
}

func (l *list[V]) push(i *item[V]) {
	if l.root == nil {
		l.root = &item[V]{}
		l.root.prev, l.root.next = l.root, l.root
	}
	i.in = l
	i.prev, i.next = l.root, l.root.next
	i.prev.next, i.next.prev = i, i
	l.bytes += i.size
}

func (l *list[V]) oldest() *item[V] {
	if l.root == nil || l.root.prev == l.root {
		return nil
	}
	return l.root.prev
}

func (i *item[V]) leave() {
	i.prev.next, i.next.prev = i.next, i.prev
	i.in.bytes -= i.size
	i.prev, i.next, i.in = nil, nil, nil
}

// New returns a queue for size bytes. window is about how many objects it holds;
// half as many keys are remembered of objects that have left, because what comes
// again later is better looked at afresh.
func New[V any](size int64, window int) *Queue[V] {
	return &Queue[V]{size: size, items: map[Key]*item[V]{}, gone: newGhosts(window / 2)}
}

// Get returns the object and how often it was used, this time included.
func (q *Queue[V]) Get(k Key) (v V, uses int, ok bool) {
	i := q.items[k]
	if i == nil {
		return v, 0, false
	}
	n := i.uses.Load()
	if n < MostUses {
		n = i.uses.Add(1) // two at once may count one too many, which does no harm
	}
	return i.value, int(n), true
}

// Peek returns the object without counting.
func (q *Queue[V]) Peek(k Key) (v V, ok bool) {
	i := q.items[k]
	if i == nil {
		return v, false
	}
	return i.value, true
}

// Put adds an object, or puts it in place of the one with its key, and evicts
// others where there is no room. It says whether it is in: one that is larger
// than the queue is not.
func (q *Queue[V]) Put(k Key, v V, size int64) bool {
	i := &item[V]{key: k, value: v, size: size}
	to := &q.first
	if q.gone.take(k) {
		i.uses.Store(1)
		to = &q.main
	}
	if old := q.items[k]; old != nil {
		to = old.in
		i.uses.Store(old.uses.Load())
		q.Remove(k)
	}
	if size > q.size {
		return false
	}
	q.items[k] = i
	to.push(i)
	q.fit()
	return q.items[k] == i
}

// Resize makes the queue one for size bytes, and evicts what has no room any more.
func (q *Queue[V]) Resize(size int64) {
	q.size = size
	q.fit()
}

func (q *Queue[V]) fit() {
	for q.Bytes() > q.size {
		q.evict()
	}
}

// Remove takes an object out.
func (q *Queue[V]) Remove(k Key) (v V, ok bool) {
	i := q.items[k]
	if i == nil {
		return v, false
	}
	i.leave()
	delete(q.items, k)
	return i.value, true
}

// evict takes one object out, or moves one on.
func (q *Queue[V]) evict() {
	if i := q.first.oldest(); i != nil && (q.first.bytes > q.size/firstShare || q.main.oldest() == nil) {
		i.leave()
		if i.uses.Load() > 0 {
			i.uses.Store(0)
			q.main.push(i)
			return
		}
		q.drop(i)
		return
	}
	i := q.main.oldest()
	i.leave()
	if n := i.uses.Load(); n > 0 {
		i.uses.Store(n - 1)
		q.main.push(i)
		return
	}
	q.drop(i)
}

func (q *Queue[V]) drop(i *item[V]) {
	delete(q.items, i.key)
	q.gone.add(i.key)
	if q.Evicted != nil {
		q.Evicted(i.key, i.value)
	}
}

// Len is the number of objects, Bytes that of their bytes.
func (q *Queue[V]) Len() int     { return len(q.items) }
func (q *Queue[V]) Bytes() int64 { return q.first.bytes + q.main.bytes }

// All calls f for each object until it returns false.
func (q *Queue[V]) All(f func(Key, V) bool) {
	for k, i := range q.items {
		if !f(k, i.value) {
			return
		}
	}
}

// ghosts are the last keys that left, without their objects. 32 bits of a key
// are enough: to take one for another does no harm.
type ghosts struct {
	ring []uint32
	next int
	at   map[uint32]int32 // position in ring
}

func newGhosts(n int) *ghosts {
	return &ghosts{ring: make([]uint32, max(n, 16)), at: map[uint32]int32{}}
}

func (g *ghosts) add(k Key) {
	f := uint32(k.Lo>>32) | 1 // 0 is an empty place
	if i, ok := g.at[f]; ok {
		g.ring[i] = 0
	}
	if old := g.ring[g.next]; old != 0 {
		delete(g.at, old)
	}
	g.ring[g.next], g.at[f] = f, int32(g.next)
	g.next = (g.next + 1) % len(g.ring)
}

// take says whether k is there, and takes it out.
func (g *ghosts) take(k Key) bool {
	f := uint32(k.Lo>>32) | 1
	i, ok := g.at[f]
	if ok {
		g.ring[i] = 0
		delete(g.at, f)
	}
	return ok
}
