package rule

import "unsafe"

// A Slab makes values that live as long as all of its others: beside one another, without
// the garbage of reading rules between them, which would keep the memory around it in use.
// The zero value is ready.
type Slab[T any] struct{ free []T }

// slabBytes is how much room is made at once.
const slabBytes = 8 << 10

// Slice returns n zero values without room to grow.
func (s *Slab[T]) Slice(n int) []T {
	if n > len(s.free) {
		var x T
		s.free = make([]T, max(n, slabBytes/int(unsafe.Sizeof(x))))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Copy returns a copy of values without room to grow: nil of none.
func (s *Slab[T]) Copy(values []T) []T {
	if len(values) == 0 {
		return nil
	}
	out := s.Slice(len(values))
	copy(out, values)
	return out
}

// New returns a zero value.
func (s *Slab[T]) New() *T { return &s.Slice(1)[0] }
