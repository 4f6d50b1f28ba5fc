package message

import (
	"io"
	"net"
	"os"
)

// A Body is where the bytes of a message's body come from. One goroutine uses
// it at a time; Close may come from another.
//
// Errors of the methods that read: io.EOF at the end, *Error where the framing
// is broken, io.ErrUnexpectedEOF where the source ends too early.
type Body interface {
	// Close says that no more is wanted. It makes a Read or Copy under way in
	// another goroutine end, and gives back what the body holds.
	io.ReadCloser
	// Ready appends to dst the bytes that are at hand: nothing has to be waited
	// for or copied. They are the next to be read and stay valid until another
	// method but Left and Done is called; Skip, Read and Copy consume them.
	Ready(dst [][]byte) [][]byte
	// Skip consumes n of the bytes that Ready gave last.
	Skip(n int)
	// Copy writes the rest to w, at most max bytes of it, and returns how many.
	// The kernel moves them where source and w allow it: from one *net.TCPConn
	// to another, from a file to a *net.TCPConn. A caller that moves deadlines
	// as data flows copies piece by piece until Done.
	Copy(w io.Writer, max int64) (int64, error)
	// Left returns the bytes still to be read of a body of known length,
	// Chunked or UntilClose for others, and 0 at the end.
	Left() int64
	// Done says whether the body has been read to its end, trailers included.
	Done() bool
	// Trailer returns the fields behind the body, once it is Done.
	Trailer() Fields
}

// A Filed is a body whose rest may lie in a file as well, from which the kernel
// sends it without copying.
type Filed interface {
	// File returns the file, nil where there is none, and where in it the rest of
	// the body begins. The bytes stay what they are until Close. Only reads that
	// name an offset may be used: others read from the file too.
	File() (f *os.File, off int64)
}

// An Arriving is a body of which more may have come than is at hand.
type Arriving interface {
	// ReadArrived reads into p what has come already and returns how many bytes
	// that is, 0 also where it cannot know. It never waits.
	ReadArrived(p []byte) int
}

// A Memory is a body that lies in memory. The zero value is an empty one.
type Memory struct {
	store [][]byte
	parts net.Buffers // what is left of store
	left  int64
}

// Set makes the body be parts, one after another. It keeps the slices, and its
// own storage for them.
func (m *Memory) Set(parts ...[]byte) {
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
func (m *Memory) Ready(dst [][]byte) [][]byte { return append(dst, m.parts...) }

// Skip implements [Body].
func (m *Memory) Skip(n int) {
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
func (m *Memory) Read(p []byte) (n int, err error) {
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

// Copy implements [Body]. Parts leave in one system call where w is a
// connection and max is not in the way.
func (m *Memory) Copy(w io.Writer, max int64) (n int64, err error) {
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

// Left implements [Body].
func (m *Memory) Left() int64 { return m.left }

// Done implements [Body].
func (m *Memory) Done() bool { return m.left == 0 }

// Trailer implements [Body].
func (m *Memory) Trailer() Fields { return nil }

// Close implements [Body].
func (m *Memory) Close() error {
	clear(m.store)
	m.parts, m.left = nil, 0
	return nil
}
