package exchange

import (
	"io"

	"shuultuur/message"
)

// A filled is a body that is derived from another one piece by piece. Its length is unknown
// until it is over.
type filled struct {
	src   message.Body
	fill  func() error       // puts the next bytes into ready, or sets over
	ready message.MemoryBody // bytes to read next
	over  bool
}

// Ready implements [message.Body].
func (b *filled) Ready(dst [][]byte) [][]byte { return b.ready.Ready(dst) }

// Skip implements [message.Body].
func (b *filled) Skip(n int) { b.ready.Skip(n) }

// Read implements [message.Body].
func (b *filled) Read(p []byte) (int, error) {
	if err := b.fill(); err != nil {
		return 0, err
	}
	return b.ready.Read(p)
}

// Copy implements [message.Body].
func (b *filled) Copy(w io.Writer, max int64) (n int64, err error) {
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
func (b *filled) Remaining() int64 {
	if b.over {
		return b.ready.Remaining()
	}
	return message.Chunked
}

// AtEnd implements [message.Body].
func (b *filled) AtEnd() bool { return b.over && b.ready.Remaining() == 0 }

// Trailer implements [message.Body].
func (b *filled) Trailer() message.Fields { return b.src.Trailer() }

// Close implements [message.Body].
func (b *filled) Close() error { return b.src.Close() }
