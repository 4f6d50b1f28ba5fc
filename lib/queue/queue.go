// Package queue implements the S3-FIFO queue that caches use for eviction (Yang and others,
// "FIFO queues are all you need for cache eviction", SOSP 2023). New objects enter a first
// queue, and only those that are requested again reach the main one. So a scan of many objects
// does not evict popular ones. A [Queue] is not safe for concurrent use; a [Shared] spreads
// its keys over several queues with a lock each.
package queue

import (
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A Key is the hash of an object's name. If confusing two objects would do harm, clients that
// choose names must not be able to choose hashes.
type Key = xxh3.Uint128

// MostUses bounds the count of an object's uses.
const MostUses = 3

// firstShare is the share of a Queue for new objects. S3-FIFO uses a tenth; memory in front of
// a disk does better with a half, because it is small compared with the objects requested
// again within minutes.
const firstShare = 2

// A Queue holds objects up to a number of bytes and evicts by S3-FIFO. It is not safe for
// concurrent use, except that Get and Peek may run concurrently with one another.
type Queue[V any] struct {
	// Evicted, if not nil, is called for each evicted object.
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

// New returns a queue for size bytes. window is about how many objects it holds; it remembers
// half as many keys of evicted objects. Objects that return later than that are treated as
// new.
func New[V any](size int64, window int) *Queue[V] {
	return &Queue[V]{size: size, items: map[Key]*item[V]{}, gone: newGhosts(window / 2)}
}

// Get returns the object and the number of its uses, including this one.
func (q *Queue[V]) Get(k Key) (v V, uses int, ok bool) {
	i := q.items[k]
	if i == nil {
		return v, 0, false
	}
	n := i.uses.Load()
	if n < MostUses {
		n = i.uses.Add(1) // two concurrent calls may count one too many, which is harmless
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

// Put adds or replaces an object, and evicts others if needed. It returns false for an object
// larger than the queue.
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

// Change replaces the value of an object that is still there, and its size. Its uses and its
// place stay.
func (q *Queue[V]) Change(k Key, v V, size int64) {
	if i := q.items[k]; i != nil {
		i.in.bytes += size - i.size
		i.value, i.size = v, size
		q.fit()
	}
}

// Resize changes the size to size bytes, and evicts objects that no longer fit.
func (q *Queue[V]) Resize(size int64) {
	q.size = size
	q.fit()
}

func (q *Queue[V]) fit() {
	for q.Bytes() > q.size {
		q.evict()
	}
}

// Remove removes an object.
func (q *Queue[V]) Remove(k Key) (v V, ok bool) {
	i := q.items[k]
	if i == nil {
		return v, false
	}
	i.leave()
	delete(q.items, k)
	return i.value, true
}

// evict evicts one object, or promotes one.
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

// Len returns the number of objects, Bytes their total size.
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

// ghosts are the most recently evicted keys. 32 bits of a key suffice, because confusion is
// harmless.
type ghosts struct {
	ring []uint32
	next int
	at   map[uint32]int32 // index in ring
}

func newGhosts(n int) *ghosts {
	return &ghosts{ring: make([]uint32, max(n, 16)), at: map[uint32]int32{}}
}

func (g *ghosts) add(k Key) {
	f := uint32(k.Lo>>32) | 1 // 0 is free
	if i, ok := g.at[f]; ok {
		g.ring[i] = 0
	}
	if old := g.ring[g.next]; old != 0 {
		delete(g.at, old)
	}
	g.ring[g.next], g.at[f] = f, int32(g.next)
	g.next = (g.next + 1) % len(g.ring)
}

// take removes k and reports whether it was there.
func (g *ghosts) take(k Key) bool {
	f := uint32(k.Lo>>32) | 1
	i, ok := g.at[f]
	if ok {
		g.ring[i] = 0
		delete(g.at, f)
	}
	return ok
}
