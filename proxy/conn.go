package proxy

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"shuultuur/lib/message"
	"shuultuur/lib/platform"
	"shuultuur/proxy/streams"
	"shuultuur/proxy/tunnel"
	"shuultuur/proxy/upstream"
)

// Sizes of a connection's own buffers: for an ordinary head, and for head and body of a short
// response together.
const (
	readSize  = 4 << 10
	writeSize = 8 << 10
)

// A conn is one client connection. It is reused for the next one.
type conn struct {
	p *Proxy
	l *listener

	c       net.Conn     // TCP, or TLS over it
	tcp     *net.TCPConn // c as plain TCP, nil otherwise
	socket  net.Conn     // the accepted socket
	ctx     context.Context
	counted bool        // it is counted in Proxy.clients
	idle    atomic.Bool // between two requests
	aborted atomic.Bool // ended by another goroutine
	vigil   vigil       // over the current request
	use     use         // of it
	until   time.Time   // current deadline of c
	lost    bool        // bytes of the client were not read: linger before closing

	r       *message.Reader
	x       request
	own     *upstream.Session             // connections to origins; nil if it belongs to another conn
	tunnel  atomic.Pointer[tunnel.Tunnel] // opened by the request, nil if none
	body    requestBody                   // of the current request
	streams atomic.Pointer[streams.Conn]  // the HTTP/2 client, nil if it speaks HTTP/1
	to      message.Steady                // c, for writing
	passage message.Passage               // of bodies that are passed on
	out     []byte                        // a head to send; nil between requests, and behind the head of a long response
	tail    []byte                        // end of a chunked body
	parts   [][]byte                      // of one write
	bufs    net.Buffers                   // the same, during the write
	ready   [][]byte                      // available pieces of a body
}

func newConn(p *Proxy) *conn {
	c := &conn{p: p, r: message.NewReader(nil, readSize, p.head)}
	c.body = requestBody{c: c, ended: make(chan struct{}, 1)}
	c.r.Steady(c.body.arm)
	c.to.Arm = func() {
		c.use.stirred.Add(1) // a long piece may take minutes
		c.arm(time.Now(), p.answer)
	}
	c.passage.Budget = p.memory.Origins()
	c.to.Passage = &c.passage
	c.x.init(p, c)
	c.x.ex.ClientLeft = func() bool { return left(c) }
	return c
}

// open prepares c to serve socket, as the owner of the connections to origins in s.
func (c *conn) open(l *listener, socket net.Conn, s *upstream.Session) {
	c.own, c.x.caller.Session = s, s
	c.l, c.ctx, c.c, c.socket = l, l.ctx, socket, socket
	c.tcp, _ = socket.(*net.TCPConn)
	c.r.Reset(socket)
	c.r.Tickets(c.p.engine.Load().Tickets)
	c.until = time.Time{}
	c.idle.Store(false)
	c.aborted.Store(false)
	c.vigil.reset()
	addr := peerAddr(socket)
	c.x.open(l.ctx, addr, contains(c.p.trusted, addr))
}

// close ends the connection and resets c.
func (c *conn) close() {
	if c.lost {
		message.Linger(c.c)
		c.lost = false
	}
	c.c.Close()
	if t := c.tunnel.Load(); t != nil { // after a panic
		t.Close()
		c.leaveTunnel()
	}
	if c.counted {
		c.p.clients.leave(c.x.addr)
		c.counted = false
	}
	c.x.close()
	c.own.Close()
	c.own = nil
	c.c, c.tcp, c.socket, c.ctx, c.l, c.to.Conn = nil, nil, nil, nil, nil, nil
	c.r.Reset(nil)
	c.putOut()
}

// leave tells an HTTP/2 client to send its next request on another connection.
func (c *conn) leave() {
	if m := c.streams.Load(); m != nil {
		m.Leave()
	}
}

// stopIdle ends a connection that waits for a request.
func (c *conn) stopIdle() {
	if m := c.streams.Load(); m != nil {
		m.Leave()
		return
	}
	if !c.idle.Load() {
		return
	}
	if half, ok := c.socket.(interface{ CloseRead() error }); ok {
		half.CloseRead() // a request that is already on its way is still answered
		return
	}
	c.socket.Close()
}

// Abort cuts the connection and the one to the origin. Any goroutine may call it.
func (c *conn) Abort() {
	c.aborted.Store(true)
	c.socket.Close()
	c.x.cancel()
	c.x.caller.Abort()
	if t := c.tunnel.Load(); t != nil {
		t.Wake()
	}
}

// arm ensures that the connection fails after a silence of about d, at least three quarters of
// it; 0 means never. Setting a deadline costs as much as parsing a head, so arm keeps one that
// is far enough away.
func (c *conn) arm(now time.Time, d time.Duration) {
	c.vigil.moved.Store(now.UnixNano())
	if d == 0 {
		if !c.until.IsZero() {
			c.until = time.Time{}
			c.c.SetDeadline(c.until)
		}
		return
	}
	if left := c.until.Sub(now); left < d*3/4 || left > d {
		c.until = now.Add(d)
		c.c.SetDeadline(c.until)
	}
}

// takeOut allocates memory for a head, if needed.
func (c *conn) takeOut() {
	if c.out == nil {
		c.out = c.p.outs.Get().(*[writeSize]byte)[:0]
	}
}

// putOut releases that memory, because most connections are idle most of the time.
func (c *conn) putOut() {
	if cap(c.out) == writeSize {
		c.p.outs.Put((*[writeSize]byte)(c.out[:writeSize]))
	}
	c.out = nil
	clear(c.parts[:cap(c.parts)]) // they may refer to it
	clear(c.ready[:cap(c.ready)])
}

// slim releases what the rest of a long response does not need: its client may read it for hours, or
// never.
func (c *conn) slim() {
	if len(c.out) == 0 {
		c.putOut()
	}
	if c.body.FramedBody == nil { // else an upload may be using it
		c.r.Release()
	}
}

// cut ends the connection in the middle of a response, so that the client notices that it is
// incomplete.
func (c *conn) cut() {
	if tcp, ok := c.socket.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.socket.Close()
}

// gone reports whether the client has closed its connection, without waiting. It is unknown
// under TLS.
func (c *conn) gone() bool {
	if c.tcp == nil || len(c.r.Buffered()) > 0 {
		return false
	}
	return closed(c.tcp)
}

// left is gone for any goroutine, while a request of c is served.
func left(c *conn) bool {
	if c.aborted.Load() {
		return true
	}
	tcp, ok := c.socket.(*net.TCPConn)
	return ok && closed(tcp)
}

// closed reports whether the other end has closed the connection, and everything before was read.
func closed(tcp *net.TCPConn) bool {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, err := platform.Peek(fd, b[:])
		gone = err == nil && n == 0 || err == platform.ECONNRESET
	})
	return err != nil || gone
}

// received returns the number of bytes read from the request's body.
func (c *conn) received() int64 { return c.body.n }

// A requestBody is the body of a client's request.
type requestBody struct {
	*message.FramedBody
	c      *conn
	n      int64         // bytes read
	armed  time.Time     // last time the read deadline was set
	ended  chan struct{} // holds a token once all has been read, until whole takes it
	all    bool          // whole has taken the token
	broken atomic.Bool   // reading was aborted
}

// begin makes b the body of the connection's current request, if it has a body.
func (b *requestBody) begin() {
	b.n, b.armed, b.all = 0, time.Time{}, false
	b.broken.Store(false)
	select {
	case <-b.ended:
	default:
	}
	q := b.c.x.q
	if b.FramedBody, _ = q.Body.(*message.FramedBody); b.FramedBody != nil {
		q.Body = b
	}
}

// arm extends the read deadline, before each wait for bytes of the body. An upload in another goroutine calls it while the connection
// is written to, so it changes nothing else.
func (b *requestBody) arm() {
	b.c.use.stirred.Add(1) // a long piece may take minutes
	d := b.c.p.answer
	now := time.Now()
	if d == 0 || now.Sub(b.armed) <= d/8 || b.broken.Load() {
		return
	}
	b.armed = now
	b.c.c.SetReadDeadline(now.Add(d))
	if b.broken.Load() { // meanwhile
		b.interrupt()
	}
}

func (b *requestBody) read(n int64) {
	b.n += n
	b.c.use.count(n)
	if b.FramedBody.AtEnd() {
		select {
		case b.ended <- struct{}{}:
		default:
		}
	}
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.FramedBody.Read(p)
	b.read(int64(n))
	return n, err
}

func (b *requestBody) Skip(n int) {
	b.FramedBody.Skip(n)
	b.read(int64(n))
}

func (b *requestBody) Copy(w io.Writer, max int64) (int64, error) {
	n, err := b.FramedBody.Copy(w, max)
	b.read(n)
	return n, err
}

// Close aborts reading, also in another goroutine.
func (b *requestBody) Close() error {
	b.broken.Store(true)
	return b.interrupt()
}

// interrupt makes reading fail.
func (b *requestBody) interrupt() error { return b.c.c.SetReadDeadline(time.Unix(1, 0)) }

// isComplete reports whether the body was read completely. It waits a moment for the end, because a
// response often arrives before the upload has noticed that it sent the last byte.
func (b *requestBody) isComplete() bool {
	if b.FramedBody == nil || b.all || b.broken.Load() {
		return !b.broken.Load()
	}
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-b.ended:
		b.all = true
		return true
	case <-timer.C:
		return false
	}
}

// rewound returns the connection of c with first before what can be read from it.
func (c *conn) rewound(first []byte) *rewoundConn {
	return &rewoundConn{c.c, first, c.p.answer}
}
