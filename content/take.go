package content

import (
	"errors"
	"io"
	"iter"
)

// A Taker is what one check makes of a body while it arrives: the bytes pass
// through it and are not kept.
type Taker interface {
	// Take takes the next decoded bytes. They are valid during the call.
	Take(p []byte)
	// Close says that the body is gone.
	Close()
}

// A taking is a pass over the body for one Taker.
type taking struct {
	owner  any
	taker  Taker
	stream stream
}

// ErrLate says that the beginning of a body was gone before it was asked for.
var ErrLate = errors.New("the beginning of the body has already passed")

// Taken returns the Taker of an owner, which open makes when the owner asks for
// the first time, after it has taken all that has come. The error is io.EOF when
// nothing more comes; Unread then says whether that was the end of the body. Any
// other error says why the rest cannot be had.
func (b *Body) Taken(owner any, open func() Taker) (Taker, error) {
	for _, t := range b.takings {
		if t.owner == owner {
			return t.taker, t.advance()
		}
	}
	if b.forgotten {
		return nil, ErrLate
	}
	t := &taking{owner: owner, taker: open()}
	t.stream.reset(b, b.main())
	b.takings = append(b.takings, t)
	return t.taker, t.advance()
}

// Awaited says whether a Taker answers at the end of the body, so that its last
// piece has to wait for that. Messages of a stream without an end never wait.
func (b *Body) Awaited() bool {
	h := b.Head()
	return len(b.takings) > 0 && !h.Endless() && !h.Lines()
}

// advance hands over what has come.
func (t *taking) advance() error {
	for {
		p, err := t.stream.pull()
		if len(p) > 0 {
			t.taker.Take(p)
		}
		switch {
		case err == io.EOF:
			return err
		case err != nil:
			t.stream.body.Stop(t.stream.reason())
			return err
		case p == nil:
			return nil
		}
	}
}

// Held says whether the body is complete and all of it is at hand.
func (b *Body) Held() bool { return b.done && !b.forgotten }

// Blocks returns the decoded bytes of a body that is held, block by block. They
// are valid until the next block, and not kept: each use decodes anew.
func (b *Body) Blocks() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if !b.Held() {
			yield(nil, ErrLate)
			return
		}
		var s stream
		s.reset(b, b.main())
		defer s.close()
		for {
			p, err := s.pull()
			if len(p) > 0 && !yield(p, nil) {
				return
			}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				b.Stop(s.reason())
				yield(nil, err)
				return
			}
		}
	}
}
