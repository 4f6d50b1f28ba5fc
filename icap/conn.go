package icap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"shuultuur/lib/message"
	wire "shuultuur/lib/message/icap"
)

const (
	readSize  = wire.MaxLine
	writeSize = 32 << 10
	// maxUnread is how much of an unwanted body is read to keep its connection
	// usable.
	maxUnread = 256 << 10
)

// A conn is one connection of an ICAP client.
type conn struct {
	s    *Server
	l    *listener
	net  *timedConn
	peer netip.Addr
	idle atomic.Bool // the connection waits for a request

	r     *bufio.Reader
	h     head
	heads []byte // the encapsulated HTTP heads
	body  body
	src   bytes.Reader // of http
	http  *message.Reader
	asked message.Request // of a response without a known request

	engine *Engine // for the current request
	out    []byte
	parts  [][]byte
	bufs   net.Buffers
	buf    []byte // for copying bodies
	key    []byte
	id     string // of the request that the answer lets pass, "" for other answers
}

func newConn(s *Server, l *listener, nc net.Conn) *conn {
	c := &conn{s: s, l: l, net: &timedConn{Conn: nc, limit: s.idle}, http: message.NewReader(nil, 4<<10, wire.MaxHeads)}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.peer = a.AddrPort().Addr().Unmap().WithZone("")
	}
	c.h.names = s.names
	c.r = bufio.NewReaderSize(c.net, readSize)
	c.body = body{r: c.r, net: c.net}
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	for {
		if c.r.Buffered() == 0 {
			c.idle.Store(true)
			err := net.ErrClosed
			if !c.l.ending.Load() {
				_, err = c.r.Peek(1)
			}
			c.idle.Store(false)
			if err != nil && c.l.ending.Load() {
				err = c.lastCall()
			}
			if err != nil {
				return
			}
		}
		if !c.request(c.l.ctx) {
			return
		}
	}
}

// lastCallTime is how long a connection that waits for a request stays open at a stop: a request that was
// sent before the client could know is served.
const lastCallTime = 250 * time.Millisecond

// lastCall waits for a last request. If there is none, it ends our side first, so that the client sees
// an end and no failure.
func (c *conn) lastCall() error {
	c.net.woken.Store(false)
	usual := c.net.limit
	c.net.limit, c.net.read = lastCallTime, time.Time{}
	_, err := c.r.Peek(1)
	c.net.limit, c.net.read = usual, time.Time{}
	if err != nil {
		message.Linger(c.net.Conn)
	}
	return err
}

// request serves one request and reports whether another may follow.
func (c *conn) request(ctx context.Context) bool {
	c.net.wrote = false
	c.engine = c.s.engine.Load()
	c.out, c.id = c.out[:0], ""
	err := c.h.read(c.r)
	if err == nil {
		err = c.readHeads()
	}
	if err == nil {
		err = c.body.begin(c.h.parts.Body || c.h.parts.Options, c.h.preview)
	}
	if err == nil {
		err = c.serve(ctx)
	}
	if err != nil {
		c.fail(err)
		return false
	}
	if !c.body.done && !c.final() && !c.body.discard(maxUnread) {
		message.Linger(c.net.Conn)
		return false
	}
	return !c.h.close && !c.net.stopped.Load()
}

// final reports whether the client sends no more of the body, because it waited for an answer
// to its preview and got a final one.
func (c *conn) final() bool { return c.h.preview >= 0 && c.body.more && !c.body.continued }

// readHeads reads the encapsulated heads.
func (c *conn) readHeads() error {
	p := &c.h.parts
	if !p.Present {
		if c.h.method != "OPTIONS" {
			return wire.Bad("%s without Encapsulated", c.h.method)
		}
		return nil
	}
	n := max(p.Req, 0) + max(p.Res, 0)
	if cap(c.heads) < n {
		c.heads = make([]byte, n)
	}
	c.heads = c.heads[:n]
	_, err := io.ReadFull(c.r, c.heads)
	return wire.Unexpected(err)
}

// fail answers a request that cannot be understood.
func (c *conn) fail(err error) {
	if f, ok := errors.AsType[*wire.Fault](err); ok {
		c.s.add(malformed)
		c.s.log.Warn("an ICAP request is refused", "client", c.peer, "error", err)
		c.refuse(f.Status, f.Reason)
		return
	}
	if e, ok := errors.AsType[*message.Error](err); ok {
		c.s.add(malformed)
		c.s.log.Warn("an ICAP request is refused", "client", c.peer, "error", err)
		c.refuse(400, e.Reason)
		return
	}
	if c.l.ctx.Err() != nil && !c.net.wrote {
		c.refuse(503, "the gateway stops")
		return
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		c.s.log.Debug("an ICAP connection ended", "client", c.peer, "error", err)
	}
}

// refuse sends an error status and then ends the connection.
func (c *conn) refuse(status int, reason string) {
	c.h.close = true
	c.out = c.status(c.out[:0], status)
	c.out = append(c.out, "X-Reason: "...)
	for i := range len(reason) {
		if b := reason[i]; b >= ' ' && b < 0x7f {
			c.out = append(c.out, b)
		}
	}
	c.out = append(c.out, "\r\nEncapsulated: null-body=0\r\n\r\n"...)
	if _, err := c.net.Write(c.out); err != nil {
		return
	}
	message.Linger(c.net.Conn)
}

// status appends the start of a response.
func (c *conn) status(dst []byte, status int) []byte {
	dst = append(dst, "ICAP/1.0 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, ' ')
	dst = append(dst, reasons(status)...)
	dst = append(dst, "\r\n"...)
	if e := c.s.engine.Load(); e != nil {
		dst = append(append(append(dst, "ISTag: \""...), e.Tag...), "\"\r\n"...)
	}
	if c.h.close = c.h.close || c.l.draining.Load(); c.h.close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	if c.id != "" {
		dst = append(append(append(dst, idField+": "...), c.id...), "\r\n"...)
	}
	return dst
}

func reasons(status int) string {
	switch status {
	case 204:
		return "No Modifications Needed"
	case 404:
		return "ICAP Service Not Found"
	case 505:
		return "ICAP Version Not Supported"
	}
	return http.StatusText(status)
}

// A timedConn is a connection with a limit on silence.
type timedConn struct {
	net.Conn
	limit   time.Duration // 0: no limit
	read    time.Time     // the last deadlines that were set
	write   time.Time
	wrote   bool        // since it was set to false
	woken   atomic.Bool // a Read fails
	stopped atomic.Bool // all of them fail
}

func (t *timedConn) Read(p []byte) (int, error) {
	if t.limit > 0 {
		if now := time.Now(); t.read.Sub(now) < t.limit*3/4 {
			t.read = now.Add(t.limit)
			if err := t.Conn.SetReadDeadline(t.read); err != nil {
				return 0, err
			}
		}
	}
	if t.stopped.Load() || t.woken.Load() {
		return 0, net.ErrClosed
	}
	return t.Conn.Read(p)
}

func (t *timedConn) Write(p []byte) (int, error) {
	t.armWrite()
	return message.WriteOn(t.Conn, p, func() { t.write = time.Time{}; t.armWrite() })
}

func (t *timedConn) armWrite() {
	t.wrote = true
	if t.limit == 0 {
		return
	}
	if now := time.Now(); t.write.Sub(now) < t.limit*3/4 {
		t.write = now.Add(t.limit)
		_ = t.Conn.SetWriteDeadline(t.write) // a failing write returns the error
	}
}

// wake makes reads fail until woken is false again. Any goroutine may call it.
func (t *timedConn) wake() {
	t.woken.Store(true)
	_ = t.Conn.SetReadDeadline(time.Unix(1, 0)) // see stop
}

// stop makes reads fail. Any goroutine may call it.
func (t *timedConn) stop() {
	t.stopped.Store(true)
	_ = t.Conn.SetReadDeadline(time.Unix(1, 0)) // on a closed connection it fails, which does no harm
}
