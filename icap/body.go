package icap

import (
	"bufio"
	"bytes"
	"io"

	"shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
)

// A body is the body of the HTTP message in an ICAP request: its preview and
// the chunks that follow. It implements [message.Body].
type body struct {
	r         *bufio.Reader
	net       *timedConn
	preview   []byte // the whole preview, in reused storage
	pre       []byte // the unread part of preview
	left      int64  // unread bytes of the current chunk
	begun     bool   // the CRLF of the current chunk is still unread
	more      bool   // more chunks follow
	continued bool   // the client was asked for the rest after the preview
	done      bool
	err       error
}

// begin makes b the body of the request whose heads have been read. It reads the
// preview, at most limit bytes; a negative limit means that there is none.
func (b *body) begin(present bool, limit int) error {
	*b = body{r: b.r, net: b.net, preview: b.preview[:0]}
	switch {
	case !present:
		b.done = true
		return nil
	case limit < 0:
		b.more = true
		return nil
	}
	for {
		n, last, err := b.chunk()
		switch {
		case err != nil:
			return err
		case n == 0:
			if err := wire.SkipTrailer(b.r); err != nil {
				return err
			}
			b.pre, b.more = b.preview, !last
			b.done = !b.more && len(b.pre) == 0
			b.begun = false
			return nil
		case n > int64(limit-len(b.preview)):
			return wire.Bad("more in the preview than the %d bytes that it says", limit)
		}
		at := len(b.preview)
		b.preview = append(b.preview, make([]byte, n)...)
		if _, err := io.ReadFull(b.r, b.preview[at:]); err != nil {
			return wire.Unexpected(err)
		}
	}
}

// chunk reads the line before a chunk. ieof is the extension for a body that
// ends within its preview (RFC 3507, 4.5).
func (b *body) chunk() (n int64, ieof bool, err error) {
	if b.begun {
		if err := wire.EndChunk(b.r); err != nil {
			return 0, false, err
		}
	}
	n, ext, err := wire.ReadChunk(b.r)
	b.begun = n > 0
	return n, bytes.EqualFold(ext, []byte("ieof")), err
}

// advance makes data of a chunk available, or finds the end of the body.
func (b *body) advance() error {
	if b.left > 0 || b.done || b.err != nil {
		return b.err
	}
	if !b.more {
		b.done = true
		return nil
	}
	n, _, err := b.chunk()
	if err == nil && n == 0 {
		if err = wire.SkipTrailer(b.r); err == nil {
			b.done, b.more = true, false
		}
	}
	b.left, b.err = n, err
	return err
}

// Read implements [message.Body].
func (b *body) Read(p []byte) (int, error) {
	if len(b.pre) > 0 {
		n := copy(p, b.pre)
		b.Skip(n)
		return n, nil
	}
	if err := b.advance(); err != nil {
		return 0, err
	}
	if b.done {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil {
		b.err = wire.Unexpected(err)
		return n, b.err
	}
	b.peekEnd()
	return n, nil
}

// peekEnd reads the end of the body if it has already arrived, so that no caller has to wait
// for it.
func (b *body) peekEnd() {
	if b.left > 0 || !b.more {
		return
	}
	if p, _ := b.r.Peek(min(b.r.Buffered(), 7)); string(p) == "\r\n0\r\n\r\n" {
		b.err = b.advance()
	}
}

// Ready implements [message.Body].
func (b *body) Ready(dst [][]byte) [][]byte {
	if len(b.pre) > 0 {
		return append(dst, b.pre)
	}
	if n := int(min(int64(b.r.Buffered()), b.left)); n > 0 {
		p, _ := b.r.Peek(n)
		return append(dst, p)
	}
	return dst
}

// Skip implements [message.Body].
func (b *body) Skip(n int) {
	if len(b.pre) > 0 {
		b.pre = b.pre[n:]
		b.done = len(b.pre) == 0 && !b.more
		return
	}
	_, _ = b.r.Discard(n) // these bytes are buffered
	b.left -= int64(n)
	b.peekEnd()
}

// Copy implements [message.Body].
func (b *body) Copy(w io.Writer, max int64) (n int64, err error) {
	p := make([]byte, 16<<10)
	for n < max && !b.AtEnd() {
		m, err := b.Read(p[:min(int64(len(p)), max-n)])
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
		k, err := w.Write(p[:m])
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Remaining implements [message.Body].
func (b *body) Remaining() int64 {
	switch {
	case b.done:
		return 0
	case !b.more:
		return int64(len(b.pre))
	}
	return message.Chunked
}

// AtEnd implements [message.Body].
func (b *body) AtEnd() bool { return b.done }

// Trailer implements [message.Body]. ICAP bodies lose their trailers.
func (b *body) Trailer() message.Fields { return nil }

// Close implements [message.Body]. Afterwards the start of the next request is
// unknown.
func (b *body) Close() error {
	b.net.stop()
	return nil
}

// discard reads the rest, at most max bytes, and reports whether that was all.
func (b *body) discard(max int64) bool {
	_, err := b.Copy(io.Discard, max)
	return err == nil && b.AtEnd()
}
