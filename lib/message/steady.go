package message

import (
	"errors"
	"io"
	"net"
	"os"
)

// A Steady writes to a connection whose deadline is for silence. Arm is called before each wait,
// and sets the deadline. When it passes after the peer has taken some bytes, it is set again: a
// slow peer is not a silent one.
//
// TLS cannot continue after a deadline: see [WriteOn], for the connection below it.
type Steady struct {
	net.Conn
	Arm     func()
	Passage *Passage // for what is copied to the connection; nil for blocks that count for nobody
}

// AwaitRoom implements [Receiver].
func (s *Steady) AwaitRoom() error { return AwaitRoom(s.Conn, s.Arm) }

// Write implements [io.Writer].
func (s *Steady) Write(p []byte) (n int, err error) {
	s.Arm()
	return WriteOn(s.Conn, p, s.Arm)
}

// WriteOn writes p to c. When the deadline passes after c has taken some bytes, it calls extend,
// which sets a later one, and goes on.
func WriteOn(c net.Conn, p []byte, extend func()) (n int, err error) {
	for {
		m, err := c.Write(p[n:])
		if n += m; n == len(p) || !goesOn(int64(m), err) {
			return n, err
		}
		extend()
	}
}

// WriteBuffers writes and consumes bufs, in one system call if the connection is a
// *net.TCPConn.
func (s *Steady) WriteBuffers(bufs *net.Buffers) error {
	for {
		s.Arm()
		n, err := bufs.WriteTo(s.Conn)
		if !goesOn(n, err) {
			return err
		}
	}
}

// goesOn reports whether a write that has failed after n bytes continues.
func goesOn(n int64, err error) bool { return n > 0 && errors.Is(err, os.ErrDeadlineExceeded) }

// tcp returns the TCP connection that w writes to, and the function that sets its deadline.
func tcp(w io.Writer) (c *net.TCPConn, arm func()) {
	if s, ok := w.(*Steady); ok {
		c, _ = s.Conn.(*net.TCPConn)
		return c, s.Arm
	}
	c, _ = w.(*net.TCPConn)
	return c, func() {}
}
