package exchange

import (
	"io"

	"shuultuur/lib/message"
)

// A derivedBody is a body whose bytes fill produces piece by piece from another body. Its
// length is unknown until it is over.
type derivedBody struct {
	src   message.Body
	fill  func() error       // puts the next bytes into ready, or sets over
	ready message.MemoryBody // bytes to read next
	over  bool
}

// Ready implements [message.Body].
func (b *derivedBody) Ready(dst [][]byte) [][]byte { return b.ready.Ready(dst) }

// Skip implements [message.Body].
func (b *derivedBody) Skip(n int) { b.ready.Skip(n) }

// Read implements [message.Body].
func (b *derivedBody) Read(p []byte) (int, error) {
	if err := b.fill(); err != nil {
		return 0, err
	}
	return b.ready.Read(p)
}

// Copy implements [message.Body].
func (b *derivedBody) Copy(w io.Writer, max int64) (n int64, err error) {
	for n < max && !b.AtEnd() {
		if err := b.fill(); err != nil {
			return n, err
		}
		m, err := b.ready.Copy(w, max-n)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Remaining implements [message.Body].
func (b *derivedBody) Remaining() int64 {
	if b.over {
		return b.ready.Remaining()
	}
	return message.Chunked
}

// AtEnd implements [message.Body].
func (b *derivedBody) AtEnd() bool { return b.over && b.ready.Remaining() == 0 }

// Trailer implements [message.Body].
func (b *derivedBody) Trailer() message.Fields { return b.src.Trailer() }

// Close implements [message.Body].
func (b *derivedBody) Close() error { return b.src.Close() }
