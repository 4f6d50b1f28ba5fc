package upstream

import (
	"net"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
)

const readSize = 8 << 10

// A conn is a connection to an origin or to the parent proxy, for HTTP/1.1.
type conn struct {
	c       net.Conn // a *net.TCPConn, or TLS on one
	raw     syscall.RawConn
	r       *message.Reader
	key     string
	since   time.Time     // when it became idle
	until   time.Time     // current deadline
	silence time.Duration // of an origin that must send or read
	peek    func(fd uintptr)
	quiet   bool // result of peek: open, and nothing to read

	wire   *wire            // below TLS, nil without TLS
	asked  bool             // the origin requested a client certificate
	faults []filter.Finding // of the origin's certificate
	peer   peer

	limited bool // a request that is not acknowledged ends it, see limit

	own     string   // its key in the Session to which it belongs, "" if it may serve anyone
	signing *signing // the sign-in whose next step it waits for
}

func newConn(t *Transport, c *net.TCPConn) (*conn, error) {
	u := &conn{c: c, silence: t.answer}
	var err error
	if u.raw, err = c.SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	u.peek = func(fd uintptr) { u.quiet = silent(fd) }
	u.read(t)
	return u, nil
}

// read makes u read messages from its connection.
func (u *conn) read(t *Transport) {
	u.r = message.NewReader(u.c, readSize, t.head)
	u.r.Relax(t.relaxed)
	u.r.Steady(func() { u.arm(time.Now(), u.silence) })
}

// arm ensures that the connection fails after a silence of about d, at least three quarters of
// it; 0 means never. Setting a deadline costs as much as parsing a head, so arm keeps one that
// is far enough away.
func (u *conn) arm(now time.Time, d time.Duration) {
	if d == 0 {
		if !u.until.IsZero() {
			u.until = time.Time{}
			u.c.SetDeadline(u.until)
		}
		return
	}
	if left := u.until.Sub(now); left < d*3/4 || left > d {
		u.until = now.Add(d)
		u.c.SetDeadline(u.until)
	}
}

// limit ends the connection if what is sent is not acknowledged for d: the peer of a kept one may be
// gone without a word. 0 means no limit.
func (u *conn) limit(d time.Duration) {
	u.limited = d > 0
	_ = u.raw.Control(func(fd uintptr) { _ = platform.LimitUnacknowledged(fd, d) }) // without it the silence of Config.Answer does
}

// unlimited prepares for a body, for which an origin may make no room for longer.
func (u *conn) unlimited() {
	if u.limited {
		u.limit(0)
	}
}

// alive reports whether an idle connection is usable: the other side has not closed it, and
// has sent nothing, which the next request would take for its response.
func (u *conn) alive() bool {
	if len(u.r.Buffered()) > 0 {
		return false
	}
	u.quiet = false
	if err := u.raw.Control(u.peek); err != nil {
		return false
	}
	return u.quiet || u.wire != nil && u.quietTLS()
}

// Close closes the connection. It is safe for concurrent use.
func (u *conn) Close() error { return u.c.Close() }

// silent reports whether a socket is open and has nothing to read.
func silent(fd uintptr) bool {
	var b [1]byte
	_, err := platform.Peek(fd, b[:])
	return err == platform.ErrWait
}
