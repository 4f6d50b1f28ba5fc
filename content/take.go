package content

import (
	"errors"
	"io"
	"iter"
)

// A Taker processes a body for one check while it arrives. The bytes are not kept.
type Taker interface {
	// Take processes the next decoded bytes. They are valid during the call.
	Take(p []byte)
	// Close ends the Taker, because the body is released.
	Close()
}

// A takerPass is a pass over the body for one Taker.
type takerPass struct {
	owner  any
	taker  Taker
	stream stream
}

// ErrLate reports that the beginning of a body was discarded before it was needed.
var ErrLate = errors.New("the beginning of the body has already passed")

// FeedTaker returns the Taker of an owner after passing on everything that has arrived. At the
// owner's first call, open makes the Taker. The error is io.EOF if nothing more will come;
// Unread then says whether the body was complete. Any other error says why the rest is
// unavailable.
func (b *Body) FeedTaker(owner any, open func() Taker) (Taker, error) {
	for _, t := range b.takings {
		if t.owner == owner {
			return t.taker, t.advance()
		}
	}
	if b.forgotten {
		return nil, ErrLate
	}
	t := &takerPass{owner: owner, taker: open()}
	t.stream.reset(b, b.main())
	b.takings = append(b.takings, t)
	return t.taker, t.advance()
}

// AwaitsVerdict reports whether a Taker has a verdict at the end of the body, so that the last piece
// must wait for it. Messages of an endless stream never wait.
func (b *Body) AwaitsVerdict() bool {
	h := b.Head()
	return len(b.takings) > 0 && !h.IsStream() && !h.Lines()
}

// advance passes on everything that has arrived.
func (t *takerPass) advance() error {
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

// AllInMemory reports whether the body is complete and all of it is in memory.
func (b *Body) AllInMemory() bool { return b.done && !b.forgotten }

// Blocks returns the decoded bytes of a held body, block by block. They are valid until the
// next block and not kept: each use decodes again.
func (b *Body) Blocks() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if !b.AllInMemory() {
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
