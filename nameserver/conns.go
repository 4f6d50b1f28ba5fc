package nameserver

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"shuultuur/lib/message/proxyprotocol"
)

// conns counts connections, in total and by client, and has the open ones.
type conns struct {
	max, perClient int

	mu   sync.Mutex
	n    int
	per  map[netip.Addr]int
	open map[*conn]struct{}
}

// clientKey identifies a client: an IPv4 address or an IPv6 /64.
func clientKey(a netip.Addr) netip.Addr {
	if a.Is6() {
		p, _ := a.WithZone("").Prefix(64)
		return p.Addr()
	}
	return a
}

// enter counts a connection if the limits permit it. An invalid address means
// that the client is not known yet.
func (c *conns) enter(a netip.Addr) (reason, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n >= c.max {
		return connFull, false
	}
	if a.IsValid() {
		if c.per[clientKey(a)] >= c.perClient {
			return clientFull, false
		}
		c.per[clientKey(a)]++
	}
	c.n++
	return 0, true
}

// named assigns a connection to its client, if it entered without an address.
func (c *conns) named(a netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.per[clientKey(a)] >= c.perClient {
		return false
	}
	c.per[clientKey(a)]++
	return true
}

func (c *conns) leave(a netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if !a.IsValid() {
		return
	}
	a = clientKey(a)
	if c.per[a]--; c.per[a] <= 0 {
		delete(c.per, a)
	}
}

func (c *conns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *conns) add(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[x] = struct{}{}
}

func (c *conns) remove(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, x)
}

// interrupt wakes all connections that wait for a query.
func (c *conns) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.open {
		x.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.open {
		x.Conn.Close()
	}
}

// A conn is a connection from a client, directly or through a trusted load
// balancer, which names the client in a PROXY header.
type conn struct {
	net.Conn
	s       *Server
	trusted bool
	bare    bool // HTTP without TLS, whose requests may be of many clients

	once   sync.Once
	client netip.AddrPort
	named  string // the ClientID in the server name, "" for none
	buf    []byte // the bytes of one read
	rest   []byte // the unused part of it
	// flush writes the replies. It is called before the network is read, when all
	// arrived queries have been handled. So one read and one write serve many
	// queries, even if each is in its own TLS record.
	flush func()
	// gather makes Write collect TLS records instead of sending them.
	gather   bool
	gathered struct {
		sync.Mutex
		b   []byte
		err error
	}
	err     error
	mu      sync.Mutex
	counted netip.Addr // the client that it is counted for; invalid for none
	closed  bool
}

// admit counts an accepted connection, or closes it.
func (s *Server) admit(nc net.Conn) (*conn, bool) {
	a := nc.RemoteAddr().(*net.TCPAddr).AddrPort()
	x := &conn{Conn: nc, s: s, client: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
	if g := s.rules.Load(); g.trusted.contain(x.client.Addr()) {
		x.trusted = true
	} else {
		x.counted = x.client.Addr()
		if g.deny.contain(x.counted) {
			s.drop(denied)
			nc.Close()
			return nil, false
		}
	}
	if why, ok := s.conns.enter(x.counted); !ok {
		s.drop(why)
		nc.Close()
		return nil, false
	}
	s.conns.add(x)
	return x, true
}

// drop counts an event outside of handlers.
func (s *Server) drop(why reason) {
	t := s.shards[0]
	t.mu.Lock()
	t.drops[why]++
	t.mu.Unlock()
}

// header reads the PROXY header, if there is one.
func (x *conn) header() {
	if !x.trusted {
		return
	}
	x.Conn.SetReadDeadline(time.Now().Add(x.s.rules.Load().idle))
	buf := make([]byte, 0, proxyprotocol.Max)
	for {
		n, err := x.Conn.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; err != nil && n == 0 {
			x.err = err
			return
		}
		from, size, err := proxyprotocol.Parse(buf)
		switch {
		case err != nil:
			x.s.drop(badPROXY)
			x.s.logger.Warn("PROXY protocol", "from", x.client, "error", err)
			x.err = err
			return
		case size == 0:
			continue
		case size < 0: // there is none
			size = 0
		}
		if x.rest = buf[size:]; from.IsValid() {
			x.client = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		}
		break
	}
	x.Conn.SetReadDeadline(time.Time{})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	if x.bare && x.s.rules.Load().trusted.contain(x.client.Addr()) {
		return // the connection is a proxy's, not that of one client
	}
	if !x.s.conns.named(x.client.Addr()) {
		x.s.drop(clientFull)
		x.err = net.ErrClosed
		return
	}
	x.counted = x.client.Addr()
}

// Read implements net.Conn.
func (x *conn) Read(b []byte) (int, error) {
	x.once.Do(x.header)
	if x.err != nil {
		return 0, x.err
	}
	if len(x.rest) == 0 {
		if x.flush != nil {
			x.flush()
		}
		if err := x.writeGathered(); err != nil {
			return 0, err
		}
		if len(b) >= readSize {
			return x.Conn.Read(b)
		}
		if x.buf == nil {
			x.buf = make([]byte, readSize)
		}
		n, err := x.Conn.Read(x.buf)
		if n == 0 {
			return 0, err
		}
		x.rest = x.buf[:n]
	}
	n := copy(b, x.rest)
	x.rest = x.rest[n:]
	return n, nil
}

// Write implements net.Conn.
func (x *conn) Write(b []byte) (int, error) {
	if !x.gather {
		return x.Conn.Write(b)
	}
	g := &x.gathered
	g.Lock()
	defer g.Unlock()
	g.b = append(g.b, b...)
	if len(g.b) >= writeAt {
		x.writeLocked()
	}
	return len(b), g.err
}

// writeGathered writes the bytes that Write has collected.
func (x *conn) writeGathered() error {
	g := &x.gathered
	g.Lock()
	defer g.Unlock()
	x.writeLocked()
	return g.err
}

func (x *conn) writeLocked() {
	g := &x.gathered
	if len(g.b) == 0 || g.err != nil {
		g.b = g.b[:0]
		return
	}
	x.Conn.SetWriteDeadline(time.Now().Add(writeTime))
	if _, g.err = x.Conn.Write(g.b); g.err != nil {
		x.Conn.Close() // the reader notices and ends
	}
	if g.b = g.b[:0]; cap(g.b) > 2*writeAt {
		g.b = nil
	}
}

// RemoteAddr implements net.Conn. It returns the client's address, even behind a
// load balancer.
func (x *conn) RemoteAddr() net.Addr {
	x.once.Do(x.header)
	return net.TCPAddrFromAddrPort(x.client)
}

// local is the address that the client connected to.
func (x *conn) local() netip.Addr {
	a, _ := x.Conn.LocalAddr().(*net.TCPAddr)
	return a.AddrPort().Addr().Unmap()
}

// Close implements net.Conn.
func (x *conn) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return net.ErrClosed
	}
	x.closed = true
	_ = x.writeGathered() // fails if the client has gone
	x.s.conns.leave(x.counted)
	x.s.conns.remove(x)
	return x.Conn.Close()
}

const (
	readSize   = 4 << 10
	writeAt    = 16 << 10        // replies are written when they exceed this
	writeTime  = 5 * time.Second // for a client to read the written bytes
	frameBytes = 2
)
