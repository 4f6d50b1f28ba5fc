package exchange

import (
	"io"
	"math"

	"shuultuur/content"
	"shuultuur/lib/message"
)

// This file handles pages that are forwarded before they are judged completely, in a coding
// that cannot be ended in the middle: br, zstd, or nested codings. They are forwarded without
// their coding, so that a notice can follow the part already sent if the verdict changes.

// An uncodedBody is such a page.
type uncodedBody struct {
	derivedBody
	x       *Exchange
	in      *inspection
	decoder content.Body
	vec     [][]byte
	err     error // returned when ready is empty
}

// uncode makes the page of b pass without its coding, if that can be decoded.
func uncode(b *inspection, s *message.Response) {
	h := b.content.Head()
	if b.over || b.open || h.Deflated() || !h.DecodedByBrowsers() || b.content.Type() != "text/html" || b.x.part.combined {
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
	u.advance()
	u.ready.Set(p)
	b.x.uncoded = u
	weaken(s)
	for _, name := range [...]string{"Content-Encoding", "Accept-Ranges", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest"} {
		s.Del(name)
	}
	s.Body, s.Length = u, message.Chunked
}

// append gives released bytes to the decoder.
func (u *uncodedBody) append() {
	u.vec = u.in.Ready(u.vec[:0])
	for _, p := range u.vec {
		u.decoder.Append(p)
	}
}

// advance records that the decoder has read the bytes it was given, which stay in memory until
// more are released.
func (u *uncodedBody) advance() {
	for _, p := range u.vec {
		u.in.Skip(len(p))
	}
	clear(u.vec)
}

// next decodes until there are bytes to forward, or the page is over. Bytes after the end of a
// coding are judged but not forwarded.
func (u *uncodedBody) next() error {
	for ended := false; u.ready.Remaining() == 0 && !u.over; {
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
		case u.in.AtEnd():
			u.over = ended
			u.decoder.Finish()
		default:
			u.decoder.Forget()
			if u.err = u.in.next(); u.err == ErrCut {
				u.in.noticed = true
				u.ready.Set(notice(u.x))
			}
			u.append()
			u.advance()
		}
	}
	return nil
}

// free releases everything that u holds.
func (u *uncodedBody) free() {
	u.ready.Close()
	u.decoder.Release()
}
