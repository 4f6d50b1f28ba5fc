package proxy

import (
	"time"

	"shuultuur/proxy/streams"
)

// serveStreams serves the client's HTTP/2 connection until it ends.
func (c *conn) serveStreams() {
	c.c.SetDeadline(time.Time{})
	c.x.caller.Session.Streams = true
	p := c.p
	m := streams.New(c.c, c.socket, c.r, streams.Config{
		Head: p.head, Idle: p.idle, Silence: p.answer, Memory: p.memory, Client: c.x.addr, Malformed: &p.counters[malformed],
		Serve: c.serveStream,
	})
	c.streams.Store(m)
	if c.l.draining.Load() {
		m.Leave()
	}
	m.Run()
	c.streams.Store(nil)
}

// serveStream serves a stream like a connection with one request.
func (c *conn) serveStream(st *streams.Stream) {
	p, own := c.p, *c.x.inside // a copy, because requests write to it
	if st.WebSocket() {
		own.tls.HTTP2 = false // the request to the origin is HTTP/1.1 (RFC 6455)
	}
	y := p.conns.Get().(*conn)
	y.open(c.l, st, nil)
	y.x.caller.Session = c.x.caller.Session
	y.x.addr, y.x.trusted, y.x.inside, y.x.flow = c.x.addr, false, &own, c.x.flow
	st.Begin(y)
	good := false
	defer func() {
		r := recover()
		if r != nil {
			p.counters.add(panics)
			p.log.Error("panic in a stream", "client", y.x.addr, "panic", r)
		}
		st.End()
		y.close()
		if good {
			p.conns.Put(y)
		}
	}()
	if y.request() == relaying {
		y.endRelaying()
	}
	good = true
}
