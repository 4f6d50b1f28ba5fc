package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"regexp"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/intercept/opening"
	"shuultuur/proxy/tunnel"
)

// This file handles what is said first in a tunnel (package opening). Browsers request a tunnel if a
// page opens a WebSocket without TLS, on any port. The content of such a tunnel is readable, so it
// is judged like any request; what only a lenient server would read, and a header of the PROXY
// protocol, after which anything may follow, are for the proxy's strict parser, which refuses them:
// what it cannot read goes nowhere.

// hear continues to read after first, the client's first bytes in a tunnel, until it is known what
// they are. What may still become a request when the time for it is over is one: the strict parser
// refuses it.
func (c *conn) hear(first []byte) (all []byte, k opening.Kind, says string, err error) {
	for {
		k, says, more := opening.Of(first)
		if !more {
			return first, k, says, nil
		}
		var b [256]byte
		n, err := c.r.Read(b[:])
		first = append(first, b[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			k, says, _ = opening.Of(first)
			return first, k, says, nil
		case err == io.EOF && len(first) > 0: // nothing can become a request any more
			k, says, more = opening.Of(first)
			if more && k == opening.HTTP {
				k, says = opening.Unknown, says+", and no more"
			}
			return first, k, says, nil
		default:
			return first, k, says, err
		}
	}
}

// heard notes what is said first in the tunnel of x. It reports whether the tunnel has to be judged
// again.
func (x *request) heard(k opening.Kind, says string) bool {
	x.t.Opening = filter.Opening{Kind: string(k), Says: says}
	return x.eng.Tunnels
}

// heardHello is heard for a TLS hello.
func (x *request) heardHello(h *intercept.Hello, asked string) bool {
	if x.eng.Tunnels && x.isTor(h, asked) {
		return x.heard(opening.VPN, "Tor: a TLS hello for the name "+h.Host+", which is not that of the address")
	}
	return x.heard(opening.TLS, "a TLS hello")
}

// takesRequests reports whether what the client says first is for the parser of requests, which are
// judged one by one. What refuses the tunnel refuses each of them, with a page.
func (x *request) takesRequests(k opening.Kind, first []byte) bool {
	v := &x.t.Verdict
	if k != opening.HTTP && !opening.Proxied(first) || v.Action == filter.Allow {
		return false
	}
	if x.eng.Tunnels && !x.ex.Decide(x.ctx, filter.Name) {
		v.Action = filter.Pass
	}
	return v.Action != filter.Allow
}

// torName is how Tor names the servers that it connects to: at random.
var torName = regexp.MustCompile(`^www\.[a-z2-7]{8,20}\.com$`)

// isTor reports whether a hello to asked, an address, is one of Tor: its name is one that Tor makes up
// and does not belong to the address.
func (x *request) isTor(h *intercept.Hello, asked string) bool {
	if len(h.Protocols) > 0 || !torName.MatchString(h.Host) {
		return false
	}
	a, err := netip.ParseAddr(asked)
	return err == nil && x.p.names.denies(x.ctx, h.Host, a)
}

// serveWithin serves the requests in the requested tunnel. first has bytes already read from
// the client.
func (c *conn) serveWithin(d *tlsState, first []byte) outcome {
	x := &c.x
	x.ex.Note("requests without TLS in the tunnel")
	seen := append(bytes.Clone(first), c.r.Buffered()...)
	c.r.Reset(c.rewound(seen))
	c.until = time.Time{}
	c.c.SetDeadline(c.until)
	x.host, x.url = "", ""
	d.scheme, d.asked, d.opening = "http", x.t.Host, x.t.Opening
	x.inside = d
	return another
}

// awaitClient waits until the client says something in the tunnel. A server that speaks before it is
// judged by what it says. over says that the tunnel is over, pass whether it may go on without the
// client's first bytes.
func (c *conn) awaitClient(t *tunnel.Tunnel) (over, pass bool) {
	x := &c.x
	defer t.Listen(false)
	for {
		c.c.SetReadDeadline(deadlineIn(c.p.tunnels.Silence))
		if first := t.Listen(true); first != nil {
			x.heard(opening.OfServer(first))
			x.t.Opening.Awaited = true // the client may say something else
			if !x.ex.Decide(x.ctx, filter.Name) {
				return true, false
			}
			t.Admit(true)
		}
		_, err := c.r.Peek(1)
		switch {
		case err == nil:
			return false, false
		case err == io.EOF: // the server may still send data
			if x.t.Opening.Kind != "" { // the server has spoken
				return true, true
			}
			again := x.heard(opening.Unknown, "nothing: the client has ended its side")
			return true, !again || x.ex.Decide(x.ctx, filter.Name)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return true, false
		case t.Listen(true) == nil && t.Quiet():
			x.ex.Note("tunnel: " + tunnel.ErrSilent.Error())
			return true, false
		}
	}
}
