package queue

import "sync"

// A Shared is a Queue that is safe for concurrent use. Each key belongs to one of its parts,
// which have equal sizes.
type Shared[V any] struct{ parts []part[V] }

type part[V any] struct {
	mu sync.RWMutex
	q  *Queue[V] // guarded by mu; Get and Peek need only RLock
	_  [64]byte  // keeps each lock on its own cache line
}

// NewShared returns a queue of so many parts for size bytes in all. Objects larger than a part
// are not kept. window is as in [New].
func NewShared[V any](size int64, window, parts int) *Shared[V] {
	s := &Shared[V]{parts: make([]part[V], parts)}
	for i := range s.parts {
		s.parts[i].q = New[V](size/int64(parts), window/parts)
	}
	return s
}

func (s *Shared[V]) of(k Key) *part[V] { return &s.parts[k.Hi%uint64(len(s.parts))] }

// Get returns the object.
func (s *Shared[V]) Get(k Key) (V, bool) {
	p := s.of(k)
	p.mu.RLock()
	defer p.mu.RUnlock()
	v, _, ok := p.q.Get(k)
	return v, ok
}

// Put adds or replaces an object.
func (s *Shared[V]) Put(k Key, v V, size int64) {
	s.Do(k, func(q *Queue[V]) { q.Put(k, v, size) })
}

// Remove removes an object.
func (s *Shared[V]) Remove(k Key) {
	s.Do(k, func(q *Queue[V]) { q.Remove(k) })
}

// Do calls f with the part of a key, under its lock.
func (s *Shared[V]) Do(k Key, f func(q *Queue[V])) {
	p := s.of(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.q)
}

// Bytes returns the total size of all objects.
func (s *Shared[V]) Bytes() (n int64) {
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.RLock()
		n += p.q.Bytes()
		p.mu.RUnlock()
	}
	return n
}

// All calls f for each object until it returns false. f must not use s.
func (s *Shared[V]) All(f func(Key, V) bool) {
	more := true
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.RLock()
		p.q.All(func(k Key, v V) bool { more = f(k, v); return more })
		p.mu.RUnlock()
		if !more {
			return
		}
	}
}
