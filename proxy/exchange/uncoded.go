package exchange

import (
	"io"
	"math"

	"shuultuur/content"
	"shuultuur/message"
)

// This file is about pages that begin to pass before they are judged to the end,
// in a coding that nobody can end in the middle: br, zstd, one coding upon
// another. They pass without their coding, so that a notice can stand behind
// what is out when the verdict changes.

// An uncodedBody is such a page.
type uncodedBody struct {
	filled
	x       *Exchange
	in      *inspection
	decoder content.Body
	vec     [][]byte
	err     error // when ready is empty
}

// uncode has the page that b begins to pass leave without its coding, if that
// can be undone.
func uncode(b *inspection, s *message.Response) {
	h := b.content.Head()
	if b.over || b.open || h.Deflated() || !h.Undone() || b.content.Type() != "text/html" || b.x.part != "" {
		return
	}
	u := &uncodedBody{x: b.x, in: b}
	u.src, u.fill = b, u.next
	u.decoder.Reset(h, content.Limits{Decoded: math.MaxInt64, Ratio: math.MaxInt, Memory: &b.windows})
	u.append()
	p, err := u.decoder.Next()
	if err != nil {
		u.decoder.Release() // it passes as it is
		return
	}
	u.took()
	u.ready.Set(p)
	b.x.uncoded = u
	weaken(s)
	for _, name := range [...]string{"Content-Encoding", "Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		s.Del(name)
	}
	s.Body, s.Length = u, message.Chunked
}

// append shows the decoder what is cleared.
func (u *uncodedBody) append() {
	u.vec = u.in.Ready(u.vec[:0])
	for _, p := range u.vec {
		u.decoder.Append(p)
	}
}

// took notes that the decoder has what it was shown, which stays in memory until
// more is cleared.
func (u *uncodedBody) took() {
	for _, p := range u.vec {
		u.in.Skip(len(p))
	}
	clear(u.vec)
}

// next decodes until there is something to pass on, or the page is over. What
// follows the end of a coding is judged, and passes no more.
func (u *uncodedBody) next() error {
	for ended := false; u.ready.Left() == 0 && !u.over; {
		if u.err != nil {
			return u.err
		}
		var p []byte
		var err error
		if !ended {
			p, err = u.decoder.Next()
		}
		switch {
		case err == io.EOF:
			ended = true
		case err != nil:
			u.err = err
		case p != nil:
			u.ready.Set(p)
		case u.in.Done():
			u.over = ended
			u.decoder.Finish()
		default:
			u.decoder.Forget()
			if u.err = u.in.next(); u.err == ErrCut {
				u.ready.Set(notice(u.x))
			}
			u.append()
			u.took()
		}
	}
	return nil
}

// free gives back what u holds.
func (u *uncodedBody) free() {
	u.ready.Close()
	u.decoder.Release()
}
