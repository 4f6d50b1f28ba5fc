package proxy

import (
	"strconv"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/proxy/tunnel"
	"shuultuur/proxy/upstream"
)

// connect handles CONNECT. It judges the host, and if the client begins with a TLS hello that
// names another host, also that one.
func (c *conn) connect() outcome {
	x := &c.x
	t := x.t
	if !c.p.connectPorts.has(t.Port) {
		return x.fail(403, "Tunnels to port "+strconv.Itoa(int(t.Port))+" are not allowed.", "connect-ports")
	}
	t.Opening.Awaited = x.eng.Tunnels
	if x.intercepts() {
		return c.decrypt()
	}
	if !x.ex.Decide(x.ctx, filter.Name) {
		return x.sendVerdict()
	}
	return c.openTunnel()
}

// upgrade forwards a 101 and relays the following bytes.
func (c *conn) upgrade(s *message.Response) outcome {
	x := &c.x
	up, down := x.ex.Sockets(s, x.ex.Record)
	c.takeOut()
	c.vigil.speak()
	c.head(s, message.None, false, true, false)
	x.t.Status = 101
	if _, err := c.c.Write(c.out); err != nil {
		return x.lostClient(err)
	}
	far, first := s.Body.(upstream.SwitchedBody).Conn()
	return c.relay(&tunnel.Tunnel{
		Near: c.c, Far: far,
		Up: tunnel.Direction{Talk: up}, Down: tunnel.Direction{Talk: down, First: first},
	})
}
