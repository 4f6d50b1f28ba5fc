package message

import (
	"io"
	"net"
	"os"
)

// A Body is a source of the bytes of a message's body. It is not safe for concurrent use,
// except for Close.
//
// Errors of reading methods: io.EOF at the end, *Error for malformed framing,
// io.ErrUnexpectedEOF if the source ends too early.
type Body interface {
	// Close says that no more is needed. It interrupts a Read or Copy in another goroutine, and
	// releases resources.
	io.ReadCloser
	// Ready appends to dst the bytes that are available without waiting or copying. They are the
	// next to be read, and stay valid until a method other than Remaining and AtEnd is called; Skip,
	// Read and Copy consume them.
	Ready(dst [][]byte) [][]byte
	// Skip consumes n of the bytes last returned by Ready.
	Skip(n int)
	// Copy writes the rest to w, at most max bytes of it, and returns how many. The kernel moves
	// them if source and w permit: from one *net.TCPConn to another, from a file to a
	// *net.TCPConn. A caller that extends deadlines as data flows copies piece by piece until
	// AtEnd.
	Copy(w io.Writer, max int64) (int64, error)
	// Remaining returns the bytes left of a body of known length, Chunked or UntilClose for others,
	// and 0 at the end.
	Remaining() int64
	// AtEnd reports whether the body was read to its end, including trailers.
	AtEnd() bool
	// Trailer returns the fields after the body, once AtEnd reports true.
	Trailer() Fields
}

// A FileBody is a body whose rest may be in a file, from which the kernel sends it without
// copying.
type FileBody interface {
	// File returns the file and the offset of the rest of the body, or nil if there is no file.
	// The bytes do not change until Close. Use only reads with an offset, because others read
	// from the file too.
	File() (f *os.File, off int64)
}

// An ArrivedReader is a body of which more may have arrived than is buffered.
type ArrivedReader interface {
	// ReadArrived reads into p the bytes that have arrived already and returns their number, 0
	// also if that is unknown. It never waits.
	ReadArrived(p []byte) int
}

// A MemoryBody is a body in memory. The zero value is empty.
type MemoryBody struct {
	store [][]byte
	parts net.Buffers // the rest of store
	left  int64
}

// Set sets the body to the concatenation of parts. It keeps the slices, in its own memory.
func (m *MemoryBody) Set(parts ...[]byte) {
	m.store, m.left = m.store[:0], 0
	for _, p := range parts {
		if len(p) > 0 {
			m.store = append(m.store, p)
			m.left += int64(len(p))
		}
	}
	m.parts = m.store
}

// Ready implements [Body].
func (m *MemoryBody) Ready(dst [][]byte) [][]byte { return append(dst, m.parts...) }

// Skip implements [Body].
func (m *MemoryBody) Skip(n int) {
	m.left -= int64(n)
	for len(m.parts) > 0 && n >= len(m.parts[0]) {
		n -= len(m.parts[0])
		m.parts = m.parts[1:]
	}
	if n > 0 {
		m.parts[0] = m.parts[0][n:]
	}
}

// Read implements [Body].
func (m *MemoryBody) Read(p []byte) (n int, err error) {
	for n < len(p) && m.left > 0 {
		k := copy(p[n:], m.parts[0])
		n += k
		m.Skip(k)
	}
	if n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Copy implements [Body]. All parts leave in one system call if w is a connection and max
// permits.
func (m *MemoryBody) Copy(w io.Writer, max int64) (n int64, err error) {
	if m.left <= max {
		n, err = m.parts.WriteTo(w)
		m.left -= n
		return n, err
	}
	for n < max && err == nil {
		var k int
		k, err = w.Write(m.parts[0][:min(int64(len(m.parts[0])), max-n)])
		m.Skip(k)
		n += int64(k)
	}
	return n, err
}

// Remaining implements [Body].
func (m *MemoryBody) Remaining() int64 { return m.left }

// AtEnd implements [Body].
func (m *MemoryBody) AtEnd() bool { return m.left == 0 }

// Trailer implements [Body].
func (m *MemoryBody) Trailer() Fields { return nil }

// Close implements [Body].
func (m *MemoryBody) Close() error {
	clear(m.store)
	m.parts, m.left = nil, 0
	return nil
}
