package ingest

import "sync"

// A Group has those who come while the disk is busy share the next write, as a
// [Log] does, for what is kept in another form than a log: a file that others
// read, a table. The zero value is ready.
type Group[T any] struct {
	turn    sync.Mutex // held while one writes for all
	mu      sync.Mutex
	waiting []*share[T] // guarded by mu
}

// A share is what one caller wants written. Its other fields are guarded by turn.
type share[T any] struct {
	what []T
	done bool
	errs []error
}

// Do has write called with what, as [Group.DoAll] does.
func (g *Group[T]) Do(what T, write func(all []T, errs []error)) error {
	return g.DoAll([]T{what}, write)[0]
}

// DoAll has write called with what, and with what others gave that came before it
// was this one's turn, in the order in which they came. write sets the error of
// each. DoAll returns when what was written, with its errors. Only one write runs
// at a time.
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

// Waiting is how many callers wait for their turn.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
