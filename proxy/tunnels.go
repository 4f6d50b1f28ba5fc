package proxy

import (
	"errors"
	"net"

	"shuultuur/proxy/exchange"
	"shuultuur/proxy/tunnel"
)

// relay makes the connection the tunnel t. endRelaying does the rest.
func (c *conn) relay(t *tunnel.Tunnel) outcome {
	c.beginTunnel(t)
	return relaying
}

// beginTunnel makes t the tunnel of c, and starts relaying bytes from the origin.
func (c *conn) beginTunnel(t *tunnel.Tunnel) {
	p, x := c.p, &c.x
	t.Client = x.addr
	x.yield()
	x.removeLimit()
	exchange.Shrink(&x.ex) // before a talk reads the state of the request
	p.counters[tunnelsOpen].Add(1)
	t.Begin(x.ctx, &p.tunnels, &c.l.parking, c)
	c.tunnel.Store(t) // before that, nobody can wake it
	c.use.begin(x.t, t)
	if c.Aborted() {
		t.Wake()
	}
}

// Relay continues a tunnel that was parked.
func (c *conn) Relay() { c.l.relay(c) }

// Aborted reports whether the connection was cut.
func (c *conn) Aborted() bool { return c.aborted.Load() }

// endRelaying relays bytes from the client until the tunnel is over, and ends the request that
// opened it. If it reports parked, another goroutine will call it again.
func (c *conn) endRelaying() (parked bool) {
	o := closing
	defer c.x.finish(&o)
	t := c.tunnel.Load()
	c.putOut()
	t.Up.First = append(t.Up.First, c.r.Detach()...)
	if t.Relay() {
		o = relaying
		return true
	}
	c.endTunnel(t)
	return false
}

// endTunnel waits for the end of the bytes from the origin, and records the tunnel.
func (c *conn) endTunnel(t *tunnel.Tunnel) {
	x := &c.x
	t.End()
	c.use.end(x.t)
	x.relayed += t.Up.N
	x.t.BytesOut += t.Down.N
	for _, d := range [...]*tunnel.Direction{&t.Up, &t.Down} {
		if d.Talk != nil {
			d.Talk.Close()
			x.ex.Conclude(d.Talk)
		}
	}
	for _, d := range [...]*tunnel.Direction{&t.Up, &t.Down} {
		if d.Err != nil && !errors.Is(d.Err, net.ErrClosed) {
			x.ex.Note("tunnel: " + d.Err.Error())
		}
	}
	c.leaveTunnel()
}

// leaveTunnel makes c forget its tunnel.
func (c *conn) leaveTunnel() {
	c.tunnel.Store(nil)
	c.p.counters[tunnelsOpen].Add(-1)
}
