package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/intercept/opening"
	"shuultuur/proxy/tunnel"
)

// openTunnel connects, confirms that to the client and relays. The first bytes of the client
// are judged, even if the host of CONNECT is allowed, because they may name another one.
func (c *conn) openTunnel() outcome {
	x := &c.x
	x.lendTurn()
	far, first, err := c.p.up.Tunnel(x.ctx, x.t.Host, x.t.Port)
	x.t.Server, x.t.Parent = x.caller.Server, x.caller.Parent
	if err != nil {
		return x.upstreamError(err)
	}
	head := x.proof.established()
	x.t.Status, x.t.HeadOut = 200, int64(len(head))
	c.vigil.speak()
	if _, err := c.c.Write(head); err != nil {
		far.Close()
		return x.lostClient(err)
	}
	c.p.counters.add(tunnels)
	t := &tunnel.Tunnel{Near: c.c, Far: far, Down: tunnel.Direction{First: first}}
	if x.t.Opening.Awaited && x.t.Verdict.Action != filter.Allow {
		t.HoldBack()
	}
	c.beginTunnel(t)
	request, pass := c.judgeHello(t)
	if pass {
		c.use.begin(x.t, t) // the hello may have named another host
		return relaying
	}
	t.Abandon()
	c.endTunnel(t)
	if request != nil {
		return c.serveWithin(&tlsState{host: x.t.Host, port: x.t.Port, client: x.t.Client, admitted: x.admitted, ja4: x.t.JA4}, request)
	}
	return closing
}

// judgeHello waits for the client's first bytes, and judges what they are; if they are a TLS hello,
// its host, too. pass reports whether the tunnel may continue; the bytes read are then forwarded. An
// unencrypted request ends the tunnel, unless the host is allowed: judgeHello returns it, and the
// client's connection stays open.
func (c *conn) judgeHello(t *tunnel.Tunnel) (request []byte, pass bool) {
	x, p := &c.x, c.p
	defer func() { t.Admit(pass) }()
	if over, pass := c.awaitClient(t); over {
		return nil, pass
	}
	// Most hellos fit into one or two segments. Memory for larger ones is only taken when
	// needed.
	block := p.memory.Block(helloSize)
	defer func() { p.memory.Free(block) }()
	c.c.SetReadDeadline(deadlineIn(p.headTime))
	h, err := c.sniff(&block)
	switch {
	case err == nil:
		again := x.heardHello(h, x.t.Host)
		if !x.judgeHello(h, t.Far.RemoteAddr(), again) {
			c.c.Write(alert[:])
			return nil, false
		}
	case errors.Is(err, intercept.ErrNotHello), err == io.EOF:
		var kind opening.Kind
		var says string
		if block, kind, says, err = c.hear(block); err != nil {
			x.ex.Note("tunnel: " + err.Error())
			return nil, false
		}
		again := x.heard(kind, says)
		if x.takesRequests(kind, block) {
			t.Release()
			return bytes.Clone(block), false
		}
		if !x.judgeHello(nil, nil, again) {
			return nil, false
		}
	default:
		x.ex.Note("TLS hello: " + err.Error())
		c.c.Write(alert[:])
		return nil, false
	}
	if err := t.Send(block); err != nil {
		x.ex.Note("tunnel: " + err.Error())
		return nil, false
	}
	return nil, true
}

// sniff reads the client's first bytes into block, which it may exchange for a larger one,
// until they are a complete hello or cannot be one.
func (c *conn) sniff(block *[]byte) (*intercept.Hello, error) {
	var s intercept.Sniffer
	memory := c.p.memory
	for b := *block; ; *block = b {
		if len(b) == cap(b) {
			if cap(b) >= 2*blockSize {
				return nil, intercept.ErrTooLarge
			}
			more := memory.Block(blockSize)
			if cap(b) >= blockSize {
				more = make([]byte, 0, 2*blockSize)
			}
			more = append(more, b...)
			memory.Free(b)
			b, *block = more, more
		}
		n, err := c.r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*block = b
		done, wrong := s.Feed(b[len(b)-n:])
		switch {
		case done:
			return s.Hello()
		case wrong != nil:
			return nil, wrong
		case err != nil:
			return nil, err
		}
	}
}

// judgeHello judges a tunnel to an address again if the hello (nil for none) reveals something
// new: another host than that of CONNECT, or a fingerprint that a rule needs; or if it is to be
// judged again anyway.
func (x *request) judgeHello(h *intercept.Hello, to net.Addr, again bool) bool {
	t := x.t
	if x.eng.JA4 {
		t.JA4 = filter.NoHello
		if h != nil {
			t.JA4, t.TLS = h.JA4(), handshakeOf(x.eng, h)
		}
	}
	if (x.eng.JA4 || again) && !x.ex.Decide(x.ctx, filter.Name) {
		return false
	}
	if h == nil || h.Host == "" || h.Host == t.Host {
		return true
	}
	x.ex.Note("TLS hello names another host than CONNECT")
	asked := judged(x)
	x.judgeFor(h.Host)
	if !x.ex.Decide(x.ctx, filter.Name) {
		return false
	}
	// The connection goes to the host of CONNECT. An exception for another name applies only
	// if the address belongs to that name, too.
	tcp, _ := to.(*net.TCPAddr)
	if asked.verdict.Action == filter.Allow || t.Verdict.Action == filter.Allow && (tcp == nil || !x.p.names.hasAddress(x.ctx, h.Host, tcp.AddrPort().Addr())) {
		asked.restore(x)
	}
	return true
}

// handshakeOf describes a hello, nil if no check needs it.
func handshakeOf(e *Engine, h *intercept.Hello) *filter.Handshake {
	if !e.Handshakes {
		return nil
	}
	return &filter.Handshake{JA3: h.JA3(), Protocols: h.Protocols, Version: h.Legacy}
}

// helloSize is sufficient for most hellos.
const helloSize = 16 << 10

// established returns the response to CONNECT.
func (p *proof) established() []byte {
	return append(p.append([]byte("HTTP/1.1 200 Connection established\r\n")), "\r\n"...)
}
