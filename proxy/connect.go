package proxy

import (
	"strconv"

	"shuultuur/filter"
	"shuultuur/message"
	"shuultuur/proxy/upstream"
)

// connect handles CONNECT. It judges the host, and if the client begins with a TLS hello that
// names another host, also that one.
func (c *conn) connect() outcome {
	x := &c.x
	t := &x.T
	if !c.p.connectPorts.has(t.Port) {
		return x.fail(403, "Tunnels to port "+strconv.Itoa(int(t.Port))+" are not allowed.", "connect-ports")
	}
	if x.intercepts() {
		return c.decrypt()
	}
	if !x.Decide(x.ctx, filter.Name) {
		return x.sendVerdict()
	}
	return c.openTunnel()
}

// upgrade implements client.
func (c *conn) upgrade(x *request, s *message.Response) outcome {
	up, down := x.Sockets(s, x.Record)
	c.takeOut()
	c.head(s, message.None, false, true, false)
	x.T.Status = 101
	if _, err := c.c.Write(c.out); err != nil {
		return x.lostClient(err)
	}
	far, first := s.Body.(upstream.SwitchedBody).Conn()
	t := &tunnel{near: c.c, far: far, farFirst: first}
	t.up.talk, t.down.talk = up, down
	return t.relay(c)
}
