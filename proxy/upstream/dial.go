package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

const (
	protocolH2 = "h2"
	keyH2      = "|h2" // the end of a key whose connections may have it
)

// A destination is where a request goes. Caller.key has the properties that a connection must
// have to carry it.
type destination struct {
	toParent bool
	through  bool // through a tunnel of the parent
	port     uint16
	tls      *TLS // nil for plain HTTP
}

// A link is a connection that currently carries one request.
type link struct {
	conn   *conn    // HTTP/1.1, or
	two    *origin2 // HTTP/2
	faults []filter.Finding
	reused bool // it was kept, and may have been closed meanwhile
}

// peer returns the origin's TLS state and certificate.
func (l *link) peer() peer {
	if l.conn != nil {
		return l.conn.peer
	}
	return l.two.peer
}

// server returns the address of the other end.
func (l *link) server() net.Addr {
	if l.conn != nil {
		return l.conn.c.RemoteAddr()
	}
	return l.two.server
}

// putBack returns a link on which nothing was sent.
func (l *link) putBack(t *Transport, c *Caller) {
	if l.conn != nil {
		t.keep(c, l.conn)
	} else {
		l.two.taken.Add(-1)
	}
}

// keep keeps an idle connection: for everyone, or for the client connection of c.
func (t *Transport) keep(c *Caller, u *conn) {
	if u.own == "" {
		t.pool.put(u, time.Now())
	} else {
		c.Session.put(u)
	}
}

// destination determines where q goes. one says that it goes over HTTP/1.1.
func (t *Transport) destination(c *Caller, q *message.Request, one bool) (d destination, err error) {
	d.port, _ = portOf(q)
	b := c.key[:0]
	if q.Dial != "" {
		b = appendClean(b, q.Dial)
	} else {
		b = appendClean(b, q.Host)
	}
	if t.parent != nil {
		if d.toParent, err = t.byParent(hostOf(b), d.port); err != nil {
			return d, err
		}
	}
	b = appendPort(b, d.port)
	switch {
	case q.Scheme == "https":
		d.tls, d.through = c.TLS, true
		if d.tls == nil {
			d.tls = browserTLS(q)
		}
		b = append(append(append(b, '|'), d.tls.ServerName...), '|')
		b = append(b, d.tls.Name...)
		if d.tls.HTTP2 && (one || t.two.refuses(b)) {
			http1 := *d.tls
			http1.HTTP2 = false
			d.tls = &http1
		}
		if d.tls.HTTP2 {
			b = append(b, keyH2...)
		}
	case d.toParent: // one connection carries requests to any host
		b = append(b[:0], t.parent.addr...)
	}
	c.key = b
	return d, nil
}

// hostOf returns a host as in a URL, without brackets.
func hostOf(b []byte) string {
	if len(b) > 1 && b[0] == '[' {
		b = b[1 : len(b)-1]
	}
	return string(b)
}

// browserTLS returns the TLS configuration with which a browser would send q.
func browserTLS(q *message.Request) *TLS {
	host := hostOf(appendClean(nil, q.Host))
	s := &TLS{Name: host, ServerName: host, HTTP2: q.Upgrade == nil}
	if _, err := netip.ParseAddr(host); err == nil {
		s.ServerName = ""
	}
	return s
}

// byParent reports whether host is reached through the parent. It refuses addresses that can
// be refused here, although the parent resolves names.
func (t *Transport) byParent(host string, port uint16) (bool, error) {
	if !t.viaParent(host) {
		return false, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		err := t.guard.allowed(netip.AddrPortFrom(a, port))
		if err != nil {
			t.counters.add(private)
		}
		return true, err
	}
	if isLocalhost(host) {
		t.counters.add(private)
		return true, &RefusedError{"localhost is the gateway itself"}
	}
	return true, nil
}

// connect returns a connection for the request of r, to r.to; with fresh, a new one.
func (t *Transport) connect(ctx context.Context, c *Caller, r *reply, signIn *credentials, fresh bool) (link, error) {
	d := &r.to
	own := c.Session != nil && (signIn.sent || c.Session.used.Load())
	if own {
		l, err := t.ownLink(ctx, c, r, signIn, fresh)
		if err != nil || l.conn != nil || l.two != nil {
			return l, err
		}
	}
	if !fresh {
		if u := t.pool.get(c.key, time.Now()); u != nil {
			t.counters.add(reused)
			return link{conn: u, faults: u.faults, reused: true}, nil
		}
		if d.tls != nil && d.tls.HTTP2 {
			if o := t.two.get(string(c.key)); o != nil {
				return link{two: o, faults: o.faults, reused: true}, nil
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.hold(closeFunc(cancel)); err != nil {
		return link{}, err
	}
	l, err := t.open(ctx, c, r)
	if err != nil && d.tls != nil && !d.tls.HTTP2 && wantsOther(err) { // it only supports HTTP/2, and we can translate
		d.tls.HTTP2 = true
		c.key = append(c.key, keyH2...)
		o := (*origin2)(nil)
		if !r.signs {
			o = t.two.get(string(c.key))
		} else if own {
			o = c.Session.take2(c.ownKey(r.q, d))
		}
		if o != nil {
			return link{two: o, faults: o.faults, reused: true}, nil
		}
		return t.open(ctx, c, r)
	}
	return l, err
}

// ownLink returns a connection of the client's Session, if there is one.
func (t *Transport) ownLink(ctx context.Context, c *Caller, r *reply, signIn *credentials, fresh bool) (l link, err error) {
	s, key := c.Session, c.ownKey(r.q, &r.to)
	if signIn.sent {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := c.hold(closeFunc(cancel)); err != nil {
			return l, err
		}
		if r.signing, err = s.begin(ctx, key, r.q, signIn); err != nil {
			return l, err
		}
	}
	if fresh {
		return l, nil
	}
	if u := s.take(key, r.signing); u != nil {
		t.counters.add(reused)
		return link{conn: u, faults: u.faults, reused: true}, nil
	}
	if r.to.tls != nil && r.to.tls.HTTP2 {
		if o := s.take2(key); o != nil {
			return link{two: o, faults: o.faults, reused: true}, nil
		}
	}
	return l, nil
}

// open makes a new connection for the request of r.
func (t *Transport) open(ctx context.Context, c *Caller, r *reply) (link, error) {
	d := &r.to
	addr, _, _ := strings.Cut(string(c.key), "|")
	u, err := t.dial(ctx, addr, d, c.Passed)
	if err != nil {
		return link{}, err
	}
	u.key = string(c.key)
	if d.tls == nil {
		return link{conn: u}, nil
	}
	if err := t.secure(ctx, c, u, d.tls); err != nil {
		u.Close()
		return link{}, err
	}
	if u.asked || r.signs {
		u.own = c.ownKey(r.q, d)
	}
	if tc := u.c.(*tls.Conn); tc.ConnectionState().NegotiatedProtocol == protocolH2 {
		two, key := &t.two, u.key
		if r.signs || u.asked && c.Session != nil {
			two, key = c.Session.connections2(t), u.own
		}
		if two == nil {
			u.Close()
			return link{}, errors.New("sign in to an origin that speaks HTTP/2 only: the connection would be shared")
		}
		o, err := two.put(key, tc, u)
		if err != nil {
			u.Close()
			return link{}, err
		}
		return link{two: o, faults: o.faults}, nil
	}
	return link{conn: u, faults: u.faults}, nil
}

// wantsOther reports whether an origin supports none of the offered protocols (RFC 7301
// section 3.2).
func wantsOther(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "no application protocol")
}

// dial connects to addr (host:port), which may be the parent. passed is Caller.Passed.
func (t *Transport) dial(ctx context.Context, addr string, d *destination, passed []byte) (*conn, error) {
	if !d.toParent {
		return t.dialTCP(ctx, &t.dialer, addr)
	}
	u, err := t.dialTCP(ctx, &t.direct, t.parent.addr)
	if err != nil || !d.through {
		return u, err
	}
	if err := t.throughParent(u, addr, passed); err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

// dialTCP connects to host:port.
func (t *Transport) dialTCP(ctx context.Context, d *net.Dialer, addr string) (*conn, error) {
	c, err := t.reach(ctx, d, addr)
	if err == nil && d == &t.dialer {
		if err = t.guard.ownPort(c); err != nil {
			c.Close()
		}
	}
	if err != nil {
		if _, ok := errors.AsType[*RefusedError](err); ok {
			t.counters.add(private)
		} else {
			t.counters.add(dialFailed)
		}
		return nil, err
	}
	t.counters.add(dialed)
	t.ports.add(c)
	u, err := newConn(t, c.(*net.TCPConn))
	if err == nil {
		u.limit(t.dialTime)
	}
	return u, err
}

// throughParent requests a tunnel to a host and port from the parent proxy.
func (t *Transport) throughParent(u *conn, to string, passed []byte) error {
	u.arm(time.Now(), t.answer)
	b := append(append([]byte("CONNECT "), to...), " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", []byte(to))
	if t.via != "" {
		b = appendField(b, "Via", []byte(t.via))
	}
	b = t.appendMark(b, passed)
	if auth := t.parent.auth; auth != "" {
		b = appendField(b, "Proxy-Authorization", []byte(auth))
	}
	if _, err := u.c.Write(append(b, "\r\n"...)); err != nil {
		return err
	}
	var s message.Response
	for n := 0; n == 0 || s.Status < 200 && n < mostInterim; n++ {
		if err := u.r.ReadResponse(&s, "CONNECT"); err != nil {
			return err
		}
	}
	if s.Status/100 != 2 {
		return fmt.Errorf("the parent proxy answered CONNECT with %d", s.Status)
	}
	return nil
}

// Tunnel connects to host, through the parent if necessary, for bytes that are not inspected.
// first has bytes already received. Caller.Abort closes it until the next request.
func (t *Transport) Tunnel(ctx context.Context, host string, port uint16) (c net.Conn, first []byte, err error) {
	caller, _ := ctx.Value(callerKey{}).(*Caller)
	if caller == nil {
		caller = new(Caller)
	}
	b := appendClean(nil, host)
	d := destination{port: port, through: true}
	if t.parent != nil {
		if d.toParent, err = t.byParent(hostOf(b), port); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := caller.hold(closeFunc(cancel)); err != nil {
		return nil, nil, err
	}
	caller.Server, caller.Parent = netip.Addr{}, false
	u, err := t.dial(ctx, string(appendPort(b, port)), &d, caller.Passed)
	if err != nil {
		caller.refusedBy(err, d.toParent)
		return nil, nil, err
	}
	caller.sentTo(u.c.RemoteAddr(), d.toParent)
	if err := caller.hold(u.c); err != nil {
		return nil, nil, err
	}
	u.unlimited()
	u.c.SetDeadline(time.Time{})
	return u.c, u.r.Buffered(), nil
}

// Meet connects to the origin of q, unless there is a connection, and returns the faults of
// its certificate. If h is not nil, it stores the agreed version and the certificates in it.
// The connection is kept for a request.
func (t *Transport) Meet(ctx context.Context, q *message.Request, h *filter.Handshake) ([]filter.Finding, error) {
	c, r := begin(ctx, t, q)
	var err error
	if r.to, err = t.destination(c, q, false); err != nil {
		return nil, r.fail(err)
	}
	l, err := t.connect(ctx, c, r, new(credentials), false)
	if err == nil {
		if h != nil {
			p := l.peer()
			h.Version, h.Certificates = p.version, p.certificates
		}
		l.putBack(t, c)
	}
	return l.faults, r.fail(err)
}
