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
	what T
	done bool
	err  error
}

// Do has write called with what, and with what others gave that came before it
// was this one's turn, in the order in which they came. write sets the error of
// each. Do returns when what was written, with its error. Only one write runs at
// a time.
func (g *Group[T]) Do(what T, write func(all []T, errs []error)) error {
	s := &share[T]{what: what}
	g.mu.Lock()
	g.waiting = append(g.waiting, s)
	g.mu.Unlock()
	g.turn.Lock()
	defer g.turn.Unlock()
	if s.done {
		return s.err
	}
	g.mu.Lock()
	shares := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	all, errs := make([]T, len(shares)), make([]error, len(shares))
	for n, s := range shares {
		all[n] = s.what
	}
	write(all, errs)
	for n, s := range shares {
		s.done, s.err = true, errs[n]
	}
	return s.err
}

// Waiting is how many callers wait for their turn.
func (g *Group[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}
