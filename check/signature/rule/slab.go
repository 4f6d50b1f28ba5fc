package rule

// A Slab makes values that live as long as all of its others: beside one another, without
// the garbage of reading rules between them, which would keep the memory around it in use.
// The zero value is ready.
type Slab[T any] struct{ free []T }

// slabValues is how many values are made room for at once.
const slabValues = 64

// Slice returns n zero values without room to grow.
func (s *Slab[T]) Slice(n int) []T {
	if n > len(s.free) {
		s.free = make([]T, max(n, slabValues))
	}
	out := s.free[:n:n]
	s.free = s.free[n:]
	return out
}

// New returns a zero value.
func (s *Slab[T]) New() *T { return &s.Slice(1)[0] }
