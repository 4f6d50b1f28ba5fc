package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// openTunnel connects, confirms that to the client and relays. The first bytes of the client
// are judged, even if the host of CONNECT is allowed, because they may name another one.
func (c *conn) openTunnel() outcome {
	x := &c.x
	far, first, err := c.p.up.Tunnel(x.ctx, x.T.Host, x.T.Port)
	x.T.Server, x.T.Parent = x.caller.Server, x.caller.Parent
	if err != nil {
		return x.upstreamError(err)
	}
	head := x.proof.established()
	x.T.Status, x.T.HeadOut = 200, int64(len(head))
	if _, err := c.c.Write(head); err != nil {
		far.Close()
		return x.lostClient(err)
	}
	c.p.counters.add(tunnels)
	t := &tunnel{near: c.c, far: far, farFirst: first}
	t.begin(c)
	request, pass := c.judgeHello(&t.up)
	if pass {
		return relaying
	}
	t.up.over.Store(true)
	far.Close()
	if request == nil {
		c.c.Close()
	}
	t.wake()
	t.end(c)
	if request != nil {
		return c.serveWithin(&tlsState{host: x.T.Host, port: x.T.Port, client: x.T.Client, ja4: x.T.JA4}, request)
	}
	return closing
}

// judgeHello waits for the client's first bytes, and if they are a TLS hello judges its host. pass
// reports whether the tunnel may continue; the bytes read are then forwarded. An unencrypted
// request ends the tunnel, unless the host is allowed: judgeHello returns it, and the client's
// connection stays open.
func (c *conn) judgeHello(up *direction) (request []byte, pass bool) {
	x, p := &c.x, c.p
	for {
		c.c.SetReadDeadline(deadlineIn(p.tunnel))
		_, err := c.r.Peek(1)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err == io.EOF // the server may still send data
		}
		if up.opposite().quiet.Load() {
			x.Note("tunnel: " + errSilent.Error())
			return nil, false
		}
	}
	// Most hellos fit into one or two segments. Memory for larger ones is only taken when
	// needed.
	block := p.inspector.Block(helloSize)
	defer func() { p.inspector.Release(block) }()
	c.c.SetReadDeadline(deadlineIn(p.headTime))
	h, err := c.sniff(&block)
	switch {
	case err == nil:
		if !x.judgeHello(h, up.dst.RemoteAddr()) {
			c.c.Write(alert[:])
			return nil, false
		}
	case errors.Is(err, intercept.ErrNotHello), err == io.EOF:
		if !x.judgeHello(nil, nil) {
			return nil, false
		}
		is := false
		if block, is = requestWithin(c.r, block); is && x.T.Verdict.Action != filter.Allow {
			up.opposite().left.Store(true)
			return bytes.Clone(block), false
		}
	default:
		x.Note("TLS hello: " + err.Error())
		c.c.Write(alert[:])
		return nil, false
	}
	up.dst.SetWriteDeadline(deadlineIn(p.answer))
	n, err := up.dst.Write(block)
	up.n += int64(n)
	if err != nil {
		x.Note("tunnel: " + err.Error())
	}
	return nil, err == nil
}

// sniff reads the client's first bytes into block, which it may exchange for a larger one,
// until they are a complete hello or cannot be one.
func (c *conn) sniff(block *[]byte) (*intercept.Hello, error) {
	var s intercept.Sniffer
	held := c.p.inspector
	for b := *block; ; *block = b {
		if len(b) == cap(b) {
			if cap(b) >= 2*blockSize {
				return nil, intercept.ErrTooLarge
			}
			more := held.Block(blockSize)
			if cap(b) >= blockSize {
				more = make([]byte, 0, 2*blockSize)
			}
			more = append(more, b...)
			held.Release(b)
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
// new: another host than that of CONNECT, or a fingerprint that a rule needs.
func (x *request) judgeHello(h *intercept.Hello, to net.Addr) bool {
	t := &x.T
	if x.eng.JA4 {
		t.JA4 = filter.NoHello
		if h != nil {
			t.JA4, t.TLS = h.JA4(), handshakeOf(x.eng, h)
		}
		if !x.Decide(x.ctx, filter.Name) {
			return false
		}
	}
	if h == nil || h.Host == "" || h.Host == t.Host {
		return true
	}
	x.Note("TLS hello names another host than CONNECT")
	asked := judged(x)
	x.judgeFor(h.Host)
	if !x.Decide(x.ctx, filter.Name) {
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

// alert is a fatal TLS alert, access_denied (RFC 8446 section 6.2).
var alert = [...]byte{21, 3, 3, 0, 2, 2, 49}

// established returns the response to CONNECT.
func (p *proof) established() []byte {
	return append(p.append([]byte("HTTP/1.1 200 Connection established\r\n")), "\r\n"...)
}
