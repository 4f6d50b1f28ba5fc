package ingest

import "sync"

// A Group lets callers that arrive while the disk is busy share the next write, as a [Log]
// does. It is for data in other forms: a file that others read, or a table. The zero value is
// ready.
type Group[T any] struct {
	turn    sync.Mutex // held while one caller writes for all
	mu      sync.Mutex
	waiting []*share[T] // guarded by mu
}

// A share is the data of one caller. Its other fields are guarded by turn.
type share[T any] struct {
	what []T
	done bool
	errs []error
}

// Do is [Group.DoAll] for one value.
func (g *Group[T]) Do(what T, write func(all []T, errs []error)) error {
	return g.DoAll([]T{what}, write)[0]
}

// DoAll calls write with what, and with the values of callers that arrived before
// its turn, in order of arrival. write sets the error of each value. DoAll
// returns the errors of what when it is written. Only one write runs at a time.
func (g *Group[T]) DoAll(what []T, write func(all []T, errs []error)) []error {
	s := &share[T]{what: what}
	g.mu.Lock()
	g.waiting = append(g.waiting, s)
	g.mu.Unlock()
	g.turn.Lock()
	defer g.turn.Unlock()
	if s.done {
		return s.errs
	}
	g.mu.Lock()
	shares := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	var all []T
	for _, s := range shares {
		all = append(all, s.what...)
	}
	errs := make([]error, len(all))
	write(all, errs)
	for _, s := range shares {
		n := len(s.what)
		s.done, s.errs, errs = true, errs[:n:n], errs[n:]
	}
	return s.errs
}

// Waiting returns the number of callers that wait for their turn.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
