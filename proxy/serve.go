package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"os"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/message/proxyprotocol"
	"shuultuur/proxy/exchange"
)

// run serves the connection until it ends or becomes a tunnel.
func (c *conn) run() {
	c.arm(time.Now(), c.p.headTime)
	if !c.begin() {
		return
	}
	for c.x.inside == nil || !c.x.inside.streams {
		if !c.await() || c.request() != another {
			if c.c != nil && c.tunnel.Load() == nil && len(c.r.Buffered()) > 0 {
				c.lost = true
			}
			return
		}
	}
	c.serveStreams()
}

// begin examines the first bytes: a PROXY header, TLS, or a request. It reports whether
// requests follow.
func (c *conn) begin() bool {
	x := &c.x
	if !x.trusted && !c.enter() {
		return false
	}
	if c.l.transparent {
		if !c.counted && !c.enter() {
			return false
		}
		return c.beginTransparent()
	}
	b, err := c.r.Peek(1)
	if err != nil {
		return false
	}
	if x.trusted && (b[0] == proxyprotocol.V1[0] || b[0] == proxyprotocol.V2[0]) && !c.readPROXY() {
		return false
	}
	if !x.trusted && !c.counted && !c.enter() { // the PROXY header names a client
		return false
	}
	if b, err = c.r.Peek(1); err != nil {
		return false
	}
	if b[0] == tlsRecord {
		return c.startTLS()
	}
	return true
}

// enter counts the connection for its client, if there is room for it.
func (c *conn) enter() bool {
	c.counted = c.p.clients.enter(c.x.addr, c.p.perClient, c.l.n.Load(), int64(c.p.connections))
	if !c.counted {
		c.p.counters.add(connectionsClientFull)
		c.p.counters.add(overload)
		c.c.Write([]byte(full))
		c.lost = true
	}
	return c.counted
}

// readPROXY reads the PROXY header of a trusted load balancer.
func (c *conn) readPROXY() bool {
	x := &c.x
	var begun []byte // of a header that is longer than the buffer
	for n := 1; ; {
		if _, err := c.r.Peek(n); err != nil {
			return false
		}
		b := c.r.Buffered()
		if begun != nil {
			b = append(begun, b...)
		}
		from, size, err := proxyprotocol.Parse(b)
		switch {
		case err != nil:
			c.p.counters.add(proxyProtocolRefused)
			c.p.log.Warn("PROXY protocol", "from", x.addr, "error", err)
			return false
		case size < 0:
			return true
		case size == 0:
			if n = len(c.r.Buffered()) + 1; n > readSize {
				begun = bytes.Clone(b)
				c.r.Discard(n)
				n = 1
			}
			continue
		}
		c.r.Discard(size - len(begun))
		if from.IsValid() {
			x.addr = from.Addr().Unmap().WithZone("")
			x.trusted = contains(c.p.trusted, x.addr)
		}
		return true
	}
}

// startTLS performs the handshake of an HTTPS proxy.
func (c *conn) startTLS() bool {
	conf := c.p.engine.Load().TLS
	if conf == nil {
		c.p.counters.add(tlsRefused)
		return false
	}
	tc := tls.Server(c.rewound(bytes.Clone(c.r.Buffered())), conf)
	c.c, c.tcp = tc, nil
	if err := tc.HandshakeContext(c.ctx); err != nil {
		c.p.log.Debug("TLS handshake with a client", "client", c.x.addr, "error", err)
		return false
	}
	c.r.Reset(tc)
	if s := tc.ConnectionState(); len(s.VerifiedChains) > 0 {
		c.x.proof.certificate = s.PeerCertificates[0]
	}
	return true
}

// await waits for the first byte of a request.
func (c *conn) await() bool {
	if len(c.r.Buffered()) > 0 {
		return !c.l.ending.Load()
	}
	c.idle.Store(true)
	defer c.idle.Store(false)
	if c.l.ending.Load() {
		return false
	}
	c.arm(time.Now(), c.p.idle)
	c.putOut()
	exchange.Shrink(&c.x.ex)
	_, err := c.r.Peek(1)
	return err == nil
}

// request serves one request.
func (c *conn) request() (o outcome) {
	x, p, now := &c.x, c.p, time.Now()
	x.begin(now)
	defer func() {
		if c.body.broken.Load() && o != relaying { // the next request cannot be found after it
			o, c.lost, c.until = closing, true, time.Time{}
		}
	}()
	defer x.finish(&o)
	if !bytes.Contains(c.r.Buffered(), []byte("\r\n\r\n")) {
		c.until = now.Add(p.headTime) // for the complete head, not per byte
		if p.headTime == 0 {
			c.until = time.Time{}
		}
		c.c.SetDeadline(c.until)
	}
	err := c.r.ReadRequest(x.q)
	c.arm(now, p.answer)
	c.body.begin()
	if err != nil {
		c.badRequest(err)
		return closing
	}
	c.vigil.begin(now, x.q.Proto != 10)
	valid := x.address()
	if o := x.waitTurn(); o != proceed {
		return o
	}
	if p.total > 0 {
		defer x.limitTotal()()
	}
	if o := x.admit(valid); o != proceed {
		return o
	}
	if x.q.Form == message.Authority {
		return c.connect()
	}
	return x.forward()
}

// badRequest answers a head that could not be read.
func (c *conn) badRequest(err error) {
	x := &c.x
	x.q.Body, x.q.Close = nil, true
	if e, ok := errors.AsType[*message.Error](err); ok {
		c.p.counters.add(malformed)
		x.t.Host, _ = exchange.CleanHost(x.q.Host)
		c.lost = true
		if w, ok := x.eng.Decider.(filter.Witness); ok {
			w.SeeRefused(x.t, x.q.Raw())
		}
		x.fail(e.Status, "The request is malformed: "+e.Reason+".", "request refused: "+e.Reason)
		return
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.until = time.Time{}
		c.arm(time.Now(), time.Second)
		x.fail(408, "The request did not arrive in time.", "request head not complete within head-time")
		return
	}
	x.ex.Note("client went away in the middle of a request head")
}
