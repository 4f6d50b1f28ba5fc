package content

import (
	"io"
	"iter"

	"shuultuur/content/coding"
)

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
	if b.in.Forgotten() {
		return nil, ErrLate
	}
	t := &takerPass{owner: owner, taker: open(), in: &b.in}
	t.stream.Reset(&b.in, b.main())
	b.takings = append(b.takings, t)
	return t.taker, t.advance()
}

// HasTaker reports whether an owner has a Taker of b.
func HasTaker(b *Body, owner any) bool {
	for _, t := range b.takings {
		if t.owner == owner {
			return true
		}
	}
	return false
}

// AwaitsVerdict reports whether a Taker has a verdict at the end of the body, so that the last piece
// must wait for it. Messages of an endless stream never wait.
func (b *Body) AwaitsVerdict() bool {
	h := b.Head()
	return len(b.takings) > 0 && !h.IsStream() && !h.Lines()
}

// Available reports whether the body is complete and Blocks returns all of it.
func (b *Body) Available() bool {
	return b.in.Complete() && (!b.in.Forgotten() || b.Wait.kept != nil)
}

// Blocks returns the decoded bytes of an available body, block by block. They are valid until
// the next block and not kept: each use decodes again.
func (b *Body) Blocks() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		switch {
		case !b.Available():
			yield(nil, ErrLate)
			return
		case b.in.Forgotten():
			again(b, yield)
			return
		}
		var s coding.Stream
		s.Reset(&b.in, b.main())
		defer s.Close()
		for {
			p, err := s.Pull()
			if len(p) > 0 && !yield(p, nil) {
				return
			}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				b.Stop(s.Reason())
				yield(nil, err)
				return
			}
		}
	}
}

// again passes the decoded bytes of a kept body on, of which pieces were discarded.
func again(b *Body, yield func([]byte, error) bool) {
	all := b.in.Same()
	var s coding.Stream
	s.Reset(&all, b.main())
	defer s.Close()
	next := func() bool {
		for {
			p, err := s.Pull()
			if len(p) > 0 && !yield(p, nil) {
				return false
			}
			switch {
			case err == io.EOF:
				b.Stop(all.Unread())
				return false
			case err != nil:
				b.Stop(s.Reason())
				yield(nil, err)
				return false
			case p == nil:
				return true
			}
		}
	}
	for p, err := range b.Wait.kept {
		if err != nil {
			yield(nil, err)
			return
		}
		all.Append(p)
		if !next() {
			return
		}
		s.Forget()
		all.Forget()
	}
	all.Finish()
	next()
}
