package proxy

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
)

// beginTransparent determines the original destination of a connection. It reports whether
// requests follow.
func (c *conn) beginTransparent() bool {
	p, x := c.p, &c.x
	if c.l.sinkhole {
		return c.beginSinkhole()
	}
	orig, err := originalDestination(c.socket)
	if err != nil {
		p.log.Warn("a connection to a transparent listener that no firewall rule brought here", "client", x.addr, "error", err)
		return false
	}
	if c.ownAddress(orig) {
		p.counters.add(loops)
		p.log.Warn("a connection to a transparent listener is meant for the gateway itself: a loop, or a client that asks it directly", "client", x.addr, "to", orig)
		return false
	}
	return c.beginRedirected(orig)
}

// beginSinkhole begins a connection to a sinkhole: the destination is the port that such a
// client uses, on a host that it will name.
func (c *conn) beginSinkhole() bool {
	local, ok := endpoint(c.socket.LocalAddr())
	if !ok {
		return false
	}
	b, err := c.r.Peek(1)
	if err != nil {
		return false
	}
	port := uint16(80)
	if b[0] == tlsRecord {
		port = 443
	}
	return c.beginRedirected(netip.AddrPortFrom(local.Addr(), port))
}

// beginRedirected begins a connection whose original destination is orig.
func (c *conn) beginRedirected(orig netip.AddrPort) bool {
	x := &c.x
	c.p.counters.add(transparentConnections)
	d := &tlsState{scheme: "http", orig: orig, dial: orig.Addr().String(), host: orig.Addr().String(), port: orig.Port()}
	b, err := c.r.Peek(1)
	if err != nil {
		return false
	}
	x.inside = d
	// A client that has sent a byte has finished connecting, so our addresses are known.
	if a, ok := c.socket.RemoteAddr().(*net.TCPAddr); ok && c.p.up.Dialed(a.AddrPort()) {
		c.p.counters.add(loops)
		x.p.log.Warn("a connection of the gateway's own was redirected to it: a loop; exempt its connections from the firewall's rule", "to", orig)
		return false
	}
	if b[0] != tlsRecord {
		return true
	}
	return c.transparentTLS(d) == another
}

// ownAddress reports whether the destination of a redirected connection is the gateway.
func (c *conn) ownAddress(to netip.AddrPort) bool {
	if local, ok := endpoint(c.socket.LocalAddr()); ok && local == to && c.l.port == to.Port() {
		return true
	}
	return slices.ContainsFunc(c.p.own, func(o netip.AddrPort) bool { return o.Addr().Unmap() == to.Addr() && o.Port() == to.Port() })
}

// transparentTLS serves a redirected connection that begins with a hello, which is a separate
// transaction, like CONNECT.
func (c *conn) transparentTLS(d *tlsState) (o outcome) {
	x := &c.x
	x.inside = nil
	x.begin(time.Now())
	c.body.begin()
	defer x.finish(&o)
	x.t.Proto, x.t.Port, x.t.Host = filter.TLS, d.port, d.host
	d.scheme = "https"
	begun := tlsOpening{c: c, x: x, d: d}
	if err := x.identifyByAddress(d); exchange.SignInPage(err) != "" {
		begun.stranger, d.admitted = err, err // the named host may be open
	} else if err != nil {
		x.ex.Note("identify: " + err.Error())
		c.c.Write(alert[:])
		return closing
	}
	return begun.run(begun.stranger == nil)
}
