package rule

import "unsafe"

// A Slab allocates values that live equally long next to one another. Without it, garbage from
// parsing would lie between them and keep the memory in use. The zero value is ready.
type Slab[T any] struct{ free []T }

// slabBytes is the size of an allocation.
const slabBytes = 8 << 10

// Slice returns n zero values without spare capacity.
func (s *Slab[T]) Slice(n int) []T {
	if n > len(s.free) {
		var x T
		s.free = make([]T, max(n, slabBytes/int(unsafe.Sizeof(x))))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// Copy returns a copy of values without spare capacity; nil if there are none.
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
