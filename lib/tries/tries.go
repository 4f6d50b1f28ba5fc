// Package tries limits wrong guesses at secrets. A try counts from its beginning: no more are
// tested at once than may still be wrong, so that many at the same time are no more than one
// after the other. A try that was right is not counted in the end.
package tries

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrTooMany says that there were too many wrong guesses.
var ErrTooMany = errors.New("too many wrong guesses")

// A Limit bounds the wrong guesses of each K, such as an address or an account. Its fields are
// set before it is used. It is safe for concurrent use.
type Limit[K comparable] struct {
	Most     int           // wrong guesses …
	Within   time.Duration // … in this time, counted from the first, after which no more are tested
	Remember int           // Ks that are remembered
	// Now returns the time; nil for time.Now.
	Now func() time.Time

	mu sync.Mutex
	of map[K]*count
}

type count struct {
	wrong   int
	first   time.Time
	testing int           // tries that have begun
	ended   chan struct{} // closed when one of them ends; nil if nobody waits for that
}

// A Try is one guess that is being tested. End must be called once.
type Try[K comparable] struct {
	limit *Limit[K]
	of    *count
	k     K
}

// Begin begins a try. While all that may still be wrong are being tested, it waits for one of
// them. It returns ErrTooMany if too many were wrong, or the error of ctx.
func (l *Limit[K]) Begin(ctx context.Context, k K) (*Try[K], error) {
	for {
		ended, t := l.begin(k)
		switch {
		case t != nil:
			return t, nil
		case ended == nil:
			return nil, ErrTooMany
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// begin returns a try, or a channel that is closed when it is worth asking again, or neither if
// there were too many.
func (l *Limit[K]) begin(k K) (<-chan struct{}, *Try[K]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of[k]
	if c == nil {
		if l.of == nil {
			l.of = map[K]*count{}
		}
		if len(l.of) >= l.Remember {
			l.makeRoom()
		}
		c = &count{}
		l.of[k] = c
	}
	if l.over(c) {
		c.wrong = 0
	}
	switch {
	case c.wrong >= l.Most:
		return nil, nil
	case c.wrong+c.testing >= l.Most:
		if c.ended == nil {
			c.ended = make(chan struct{})
		}
		return c.ended, nil
	}
	c.testing++
	return nil, &Try[K]{l, c, k}
}

// End says whether the guess was wrong.
func (t *Try[K]) End(wrong bool) {
	t.limit.mu.Lock()
	defer t.limit.mu.Unlock()
	c := t.of
	c.testing--
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
	switch {
	case wrong && (c.wrong == 0 || t.limit.over(c)):
		c.wrong, c.first = 1, t.limit.now()
	case wrong:
		c.wrong++
	case c.wrong == 0 && c.testing == 0 && t.limit.of[t.k] == c:
		delete(t.limit.of, t.k)
	}
}

// Left returns how long k is barred for wrong guesses; 0 if it is not.
func (l *Limit[K]) Left(k K) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of[k]
	if c == nil || c.wrong < l.Most {
		return 0
	}
	return max(0, l.Within-l.now().Sub(c.first))
}

// Add counts a wrong guess that was tested elsewhere.
func (l *Limit[K]) Add(k K) {
	if _, t := l.begin(k); t != nil {
		t.End(true)
	}
}

// Forget forgets the wrong guesses of k, which has shown that it knows the secret.
func (l *Limit[K]) Forget(k K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.of[k]; c != nil {
		c.wrong = 0
	}
}

// Len returns how many are remembered.
func (l *Limit[K]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}

func (l *Limit[K]) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// over reports whether the time of the wrong guesses is over.
func (l *Limit[K]) over(c *count) bool {
	return c.wrong > 0 && l.now().Sub(c.first) >= l.Within
}

// makeRoom forgets those whose time is over, or some others without a try in progress.
func (l *Limit[K]) makeRoom() {
	for k, c := range l.of {
		if c.testing == 0 && (c.wrong == 0 || l.over(c)) {
			delete(l.of, k)
		}
	}
	for k, c := range l.of {
		if len(l.of) < l.Remember {
			return
		}
		if c.testing == 0 {
			delete(l.of, k)
		}
	}
}
