package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/tunnel"
	"shuultuur/proxy/upstream"
)

// protocolH2 is the name of HTTP/2 in a hello (RFC 9113 section 3.1).
const protocolH2 = "h2"

// A tlsOpening is a connection on which TLS begins, before the decision whether to decrypt it.
type tlsOpening struct {
	c     *conn
	x     *request
	d     *tlsState
	first []byte // bytes sent by the client
	hello *intercept.Hello

	stranger error // why the client is not identified, nil if it is
}

// decrypt handles CONNECT of a client whose connections are decrypted. Hosts that the policy
// allows by name are tunnelled unchanged. For other hosts, it first verifies the origin's
// certificate, then gives the client a generated one, and serves its requests. A refusal is
// explained on the decrypted connection, where browsers show it.
func (c *conn) decrypt() outcome {
	x := &c.x
	t := x.t
	t.Last = filter.ResponseBody
	pass := x.ex.Decide(x.ctx, filter.Name)
	if t.Verdict.Action == filter.Allow {
		return c.openTunnel()
	}
	head := x.proof.established()
	c.vigil.speak()
	if _, err := c.c.Write(head); err != nil {
		return x.lostClient(err)
	}
	t.Status, t.HeadOut = 200, int64(len(head))
	x.yield()
	o := tlsOpening{c: c, x: x, stranger: x.admitted, d: &tlsState{scheme: "https", dial: t.Host, host: t.Host, port: t.Port, client: t.Client, admitted: x.admitted}}
	return o.run(pass)
}

// run waits for the hello and acts on the verdict on its name. pass is the verdict so far.
func (o *tlsOpening) run(pass bool) outcome {
	c, x, d := o.c, o.x, o.d
	t := x.t
	block := c.p.memory.Block(helloSize)
	c.until = time.Time{}
	c.c.SetReadDeadline(deadlineIn(c.p.headTime))
	h, err := c.sniff(&block)
	o.first = bytes.Clone(block)
	c.p.memory.Free(block)
	switch {
	case errors.Is(err, intercept.ErrNotHello):
		t.JA4 = filter.NoHello
		if !pass {
			return closing
		}
		return o.withoutTLS()
	case err != nil:
		x.ex.Note("TLS hello: " + err.Error())
		c.c.Write(alert[:])
		return closing
	}
	o.hello = h
	if h.ECH {
		c.p.counters.add(tlsECH)
	}
	if x.eng.JA4 {
		t.JA4, t.TLS = h.JA4(), handshakeOf(x.eng, h)
	}
	again := x.heardHello(h, d.host)
	d.ja4, d.ech, d.opening = t.JA4, h.ECH, t.Opening
	d.tls = upstream.TLS{ServerName: h.Host, HTTP2: slices.Contains(h.Protocols, protocolH2)}
	switch {
	case o.stranger != nil && !exchange.MayReach(o.stranger, cmp.Or(h.Host, d.host)):
		return o.turnAway(h)
	case d.orig.IsValid():
		if pass = o.judgeRedirected(h); !x.intercepts() {
			if !pass {
				c.c.Write(alert[:])
				return closing
			}
			return o.tunnelUnseen("")
		}
	case pass:
		pass = o.judgeHello(h, again)
	}
	d.tls.Name = d.name()
	if t.Verdict.Action == filter.Allow {
		return o.tunnelUnseen("")
	}
	if !pass {
		return o.handshake(false)
	}
	if why := h.Unreadable(); why != "" {
		c.p.counters.add(tlsUnreadable)
		c.p.unreadable.note(d.pin(), why)
		return o.tunnelUnseen("not decrypted: " + why)
	}
	if why := o.opaque(); why != "" {
		return o.tunnelUnseen(why)
	}
	pass = o.meet()
	if t.Verdict.Action == filter.Allow {
		return o.tunnelUnseen("")
	}
	if (d.err != nil || !pass) && o.leavesToHTTP() {
		return closing
	}
	return o.handshake(pass)
}

// withoutTLS serves what begins otherwise: requests, or a tunnel.
func (o *tlsOpening) withoutTLS() outcome {
	c, x := o.c, o.x
	first, kind, says, err := c.hear(o.first)
	if err != nil {
		x.ex.Note("tunnel: " + err.Error())
		return closing
	}
	o.first = first
	x.heard(kind, says)
	if !o.d.orig.IsValid() && x.takesRequests(kind, first) {
		return c.serveWithin(o.d, o.first)
	}
	return o.tunnelUnseen("not decrypted: not TLS")
}

// judgeHello judges a CONNECT connection again if its hello reveals something new: another
// name, or a fingerprint that a rule needs; or if it is to be judged again anyway. A name that does not belong to the dialed address
// is judged, too, but the connection stays one to the host of CONNECT: an exception for the
// name does not apply.
func (o *tlsOpening) judgeHello(h *intercept.Hello, again bool) (pass bool) {
	x, d := o.x, o.d
	if (x.eng.JA4 || again) && !x.ex.Decide(x.ctx, filter.Name) {
		return false
	}
	if h.Host == "" || h.Host == d.host {
		return true
	}
	x.ex.Note("TLS hello names another host than CONNECT")
	asked := judged(x)
	x.judgeFor(h.Host)
	switch {
	case !x.ex.Decide(x.ctx, filter.Name):
		d.host = h.Host // for the block page
		return false
	case asked.verdict.Action == filter.Allow:
		asked.restore(x)
	case !x.p.names.bind(x.ctx, d, h.Host):
		x.ex.Note("the name in the hello does not belong to the address: rules that allow it do not count")
		asked.restore(x)
	default:
		d.host = h.Host
	}
	return true
}

// opaque returns why a connection that should be decrypted cannot be.
func (o *tlsOpening) opaque() string {
	x, d := o.x, o.d
	in := x.eng.Intercept
	if in.ExceptAfter > 0 && x.p.pinned.count(x.ctx, in, d.pin()) >= in.ExceptAfter {
		return "not decrypted: the client refuses our certificate for this host"
	}
	if _, err := in.Authority.Certificate(d.name()); err != nil {
		return "not decrypted: " + err.Error()
	}
	return ""
}

// judgeRedirected records the hello of a redirected connection and judges its name. A
// connection that is not decrypted is judged by name alone.
func (o *tlsOpening) judgeRedirected(h *intercept.Hello) (pass bool) {
	x, d := o.x, o.d
	t := x.t
	if h.Host != "" {
		d.host = h.Host
	}
	t.Host = d.host
	t.URL = hostPort(t.Host, t.Port)
	x.aim(d, d.host)
	t.Last = filter.ResponseBody
	if !x.intercepts() {
		t.Last = filter.Name
	}
	return x.ex.Decide(x.ctx, filter.Name)
}

// turnAway ends the connection of a client that must sign in. If its connections are
// decrypted, it trusts our certificates, and its request is redirected to the sign-in page.
// Others are not recognised.
func (o *tlsOpening) turnAway(h *intercept.Hello) outcome {
	x, d := o.x, o.d
	x.ex.Note("identify: " + o.stranger.Error())
	if h.Host != "" {
		d.host = h.Host
	}
	x.t.Host = d.host
	x.t.URL = hostPort(d.host, d.port)
	if d.stranger = x.intercepts() && o.opaque() == ""; !d.stranger {
		o.c.c.Write(alert[:])
		return closing
	}
	return o.handshake(false)
}

// tunnelUnseen makes the connection a tunnel, of which only the name is judged.
func (o *tlsOpening) tunnelUnseen(why string) outcome {
	c, x := o.c, o.x
	t := x.t
	x.ex.Note(why)
	if t.Last != filter.Name && t.Verdict.Action != filter.Allow {
		t.Last = filter.Name
		if !x.ex.Decide(x.ctx, filter.Name) {
			if t.JA4 != filter.NoHello {
				c.c.Write(alert[:])
			}
			return closing
		}
	}
	far, first, err := c.p.up.Tunnel(x.ctx, o.d.dial, o.d.port)
	x.t.Server, x.t.Parent = x.caller.Server, x.caller.Parent
	if err != nil {
		x.ex.Note("tunnel: " + err.Error())
		return closing
	}
	c.p.counters.add(tunnels)
	return c.relay(&tunnel.Tunnel{
		Near: c.c, Far: far,
		Up: tunnel.Direction{First: o.first}, Down: tunnel.Direction{First: first},
	})
}

// meet connects to the origin and judges its certificate. It reports whether the client's
// requests are permitted.
func (o *tlsOpening) meet() bool {
	x, d := o.x, o.d
	x.caller.TLS, x.caller.Client, x.caller.User = &d.tls, x.t.Client.Addr, x.t.Client.User
	d.errSeen = new(atomic.Bool)
	q := message.Request{Method: "GET", Scheme: "https", Host: []byte(d.host), Port: d.port, Dial: d.dial}
	d.findings, d.err = x.p.up.Meet(x.ctx, &q, x.t.TLS)
	x.ex.Note(x.caller.Note)
	if len(d.findings) == 0 && (x.t.TLS == nil || x.t.TLS.Certificates == nil) {
		return true
	}
	x.t.Findings = append(x.t.Findings, d.findings...)
	return x.ex.Decide(x.ctx, filter.Name)
}

// handshake performs the handshake with the client. pass means that its requests may go on to
// the origin; otherwise a page explains the refusal.
func (o *tlsOpening) handshake(pass bool) outcome {
	c, x, d := o.c, o.x, o.d
	d.addFindings(x.t.Findings)
	in := x.eng.Intercept
	protocols := []string{protocolH2, "http/1.1"}
	if d.stranger { // one response ends the connection
		protocols = protocols[1:]
	}
	conf, err := in.Authority.ConfigFor(o.hello, d.name(), protocols...)
	if err != nil {
		x.ex.Note("no certificate: " + err.Error())
		c.c.Write(alert[:])
		return closing
	}
	conf.DynamicRecordSizingDisabled = true // each record costs a system call
	seen := append(append([]byte(nil), o.first...), c.r.Buffered()...)
	tc := tls.Server(c.rewound(seen), conf)
	c.c.SetDeadline(deadlineIn(c.p.headTime))
	if err := tc.HandshakeContext(x.ctx); err != nil {
		o.handshakeFailed(err)
		return closing
	}
	c.p.pinned.forget(x.ctx, in, d.pin())
	c.p.counters.add(tlsDecrypted)
	c.c, c.tcp, c.until = tc, nil, time.Time{}
	c.c.SetDeadline(c.until)
	c.r.Reset(tc)
	x.host, x.url = "", ""
	x.inside = d
	d.streams = tc.ConnectionState().NegotiatedProtocol == protocolH2
	if pass {
		x.ex.Note("decrypted")
	} else {
		// Its requests are judged again, and recorded as refused.
		x.ex.Note("decrypted to show why it is refused")
		x.t.Verdict.Action = filter.Pass
	}
	return another
}

// handshakeFailed records that the handshake with a client failed.
func (o *tlsOpening) handshakeFailed(err error) {
	x, d, p := o.x, o.d, o.x.p
	op, _ := errors.AsType[*net.OpError](err)
	refused := op != nil && op.Op == "remote error" || errors.Is(err, io.EOF) || errors.Is(err, platform.ECONNRESET)
	// Clients that use OpenSSL send the alert with TLS 1.3 in a way that this side cannot decrypt.
	// Nothing else of the client is decrypted before it has seen our certificate.
	var unclear string
	if op != nil && op.Op == "local error" && strings.Contains(op.Err.Error(), "bad record MAC") {
		refused, unclear = true, ", which may be an alert that its TLS library did not encrypt"
	}
	if !refused {
		x.ex.Note("handshake with the client: " + err.Error())
		return
	}
	p.counters.add(tlsCertificateRefused)
	n := p.pinned.add(x.ctx, x.eng.Intercept, d.pin())
	x.ex.Note("the client refused our certificate (" + err.Error() + unclear + "), " + strconv.Itoa(n) +
		" times for this host: the root is not installed there, or the application is pinned and its host needs an allow rule" + d.echAdvice())
}

// leavesToHTTP reports whether the connection is to fail, so that a browser that tried https first
// takes http: its origin cannot be reached or trusted, and no rule has refused its name.
func (o *tlsOpening) leavesToHTTP() bool {
	x, d := o.x, o.d
	if d.port != 443 || d.err == nil && len(d.findings) == 0 || !x.p.answersPlain(x.ctx, d.dial) {
		return false
	}
	if !x.p.fallbacks.fails(pin{x.addr, d.host}, time.Now()) {
		return false
	}
	why := "its certificate has a fault"
	if d.err != nil {
		why = d.err.Error()
	}
	x.ex.Note("not completed, so that a browser that tries https first takes http: " + why)
	return true
}

// answersPlain reports whether a host accepts connections for http.
func (p *Proxy) answersPlain(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, plainTime)
	defer cancel()
	c, _, err := p.up.Tunnel(ctx, host, 80)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
