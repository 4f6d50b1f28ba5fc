package nameserver

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"shuultuur/message/proxyprotocol"
)

// conns counts connections, all and of each client, and knows those open.
type conns struct {
	max, perClient int

	mu   sync.Mutex
	n    int
	per  map[netip.Addr]int
	open map[*conn]struct{}
}

// clientKey is what counts as one client: an IPv4 address, an IPv6 /64.
func clientKey(a netip.Addr) netip.Addr {
	if a.Is6() {
		p, _ := a.WithZone("").Prefix(64)
		return p.Addr()
	}
	return a
}

// enter counts a connection if there is room for it; of an invalid address it
// is not known yet whose it is.
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

// named counts a connection that entered without an address.
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

// interrupt makes all that wait for a query see that the server stops.
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

// A conn is a connection from a client, perhaps by way of a load balancer we
// trust, which says whose it is in a PROXY header before anything else.
type conn struct {
	net.Conn
	s       *Server
	trusted bool

	once    sync.Once
	client  netip.AddrPort
	rest    []byte // read behind the header
	err     error
	mu      sync.Mutex
	counted netip.Addr // whose connection it counts as; invalid for nobody's
	closed  bool
}

// admit counts a connection that was accepted, or closes it.
func (s *Server) admit(nc net.Conn) (*conn, bool) {
	a := nc.RemoteAddr().(*net.TCPAddr).AddrPort()
	x := &conn{Conn: nc, s: s, client: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
	if g := s.rules.Load(); g.trusted.contain(x.client.Addr()) {
		x.trusted = true
	} else {
		x.counted = x.client.Addr()
		if g.deny.contain(x.counted) {
			s.loseShard(denied)
			nc.Close()
			return nil, false
		}
	}
	if why, ok := s.conns.enter(x.counted); !ok {
		s.loseShard(why)
		nc.Close()
		return nil, false
	}
	s.conns.add(x)
	return x, true
}

// loseShard counts what no lane does.
func (s *Server) loseShard(why reason) {
	t := s.shards[0]
	t.mu.Lock()
	t.lost[why]++
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
			x.s.loseShard(badPROXY)
			x.s.logger.Warn("PROXY protocol", "from", x.client, "err", err)
			x.err = err
			return
		case size == 0:
			continue
		case size < 0: // none
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
	if !x.s.conns.named(x.client.Addr()) {
		x.s.loseShard(clientFull)
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
	if len(x.rest) > 0 {
		n := copy(b, x.rest)
		if x.rest = x.rest[n:]; len(x.rest) == 0 {
			x.rest = nil
		}
		return n, nil
	}
	return x.Conn.Read(b)
}

// RemoteAddr implements net.Conn: the client's address, which a load balancer
// tells first.
func (x *conn) RemoteAddr() net.Addr {
	x.once.Do(x.header)
	return net.TCPAddrFromAddrPort(x.client)
}

// local is the address the client came to.
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
	x.s.conns.leave(x.counted)
	x.s.conns.remove(x)
	return x.Conn.Close()
}
