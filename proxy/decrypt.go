package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
	"shuultuur/message"
)

// An Interception is what it takes to look into TLS connections.
type Interception struct {
	Authority *intercept.Authority
	Verifier  *intercept.Verifier
	// Wanted says whether connections of this client are looked into.
	Wanted func(*filter.Transaction) bool
	// ExceptAfter lets a host through unseen for a client that has refused
	// our certificate for it this often within a day; 0 for never.
	ExceptAfter int
	// Memory is what that is counted in with other nodes; nil counts here
	// alone.
	Memory Memory
}

// A decrypted is what a session knows of the connection it has decrypted.
// Every request on it is a transaction of its own.
type decrypted struct {
	scheme   string
	dial     string // where to connect to: CONNECT's host
	host     string // the name judged: the hello's, else CONNECT's
	port     uint16
	sni      string         // what the client sent, "" for none
	orig     netip.AddrPort // where a firewall says the client meant to go
	client   filter.Client
	ja4      string           // of the hello, where somebody asks for it
	ech      bool             // the hello carried encrypted_client_hello
	findings []filter.Finding // what is wrong with the origin's certificate
	h2       bool             // the client offers HTTP/2
	streams  bool             // and speaks it with us
	told     *atomic.Bool     // err has been told; shared by all streams
	err      error            // why the origin could not be reached, told with the first request
}

// key appends what an upstream connection has to agree on to the address it is
// dialled to.
func (d *decrypted) key(b []byte) []byte {
	b = append(append(append(b, '|'), d.sni...), '|')
	b = appendPort(appendHost(b, d.host), d.port)
	if d.h2 {
		b = append(b, "|h2"...)
	}
	return b
}

// certificateCheck is the name under which faults of certificates are found.
const certificateCheck = "certificate"

// intercepts says whether the connection CONNECT asks for is to be looked into.
func (x *session) intercepts() bool {
	in := x.eng.Intercept
	return in != nil && in.Wanted(&x.t)
}

// decrypt answers CONNECT for a client whose connections are looked into. What
// the policy allows by name is tunnelled untouched; of the rest the origin's
// certificate is looked at first, then the client gets one of ours, and its
// requests follow. A refusal is told inside, where a browser shows it.
func (x *session) decrypt() (more bool) {
	t := &x.t
	t.Last = filter.ResponseBody
	pass := x.decide(filter.Name)
	if t.Verdict.Action == filter.Allow {
		return x.openTunnel(false)
	}
	if _, err := x.c.Write([]byte(established)); err != nil {
		return x.lostClient(err)
	}
	t.Status = 200
	x.yield()
	d := &decrypted{scheme: "https", dial: t.Host, host: t.Host, port: t.Port, client: t.Client}
	return x.decryptHello(d, pass)
}

// decryptHello waits for the hello and does what the verdict on its name says.
// pass is the verdict so far.
func (x *session) decryptHello(d *decrypted, pass bool) (more bool) {
	t, p := &x.t, x.p
	block := p.held.block(medium)
	x.until = time.Time{}
	x.c.SetReadDeadline(time.Now().Add(p.cfg.HeadTime))
	h, err := x.sniff(&block)
	first := bytes.Clone(block)
	p.held.release(block)
	switch {
	case errors.Is(err, intercept.ErrNotHello):
		t.JA4 = filter.NoHello
		if !pass {
			x.countVerdict()
			return false
		}
		return x.unseen(d, first, "not decrypted: not TLS")
	case err != nil:
		x.note("TLS hello: " + err.Error())
		x.c.Write(alert[:])
		return false
	}
	if h.ECH {
		p.counters.ech.Add(1)
	}
	if x.eng.JA4 {
		t.JA4 = h.JA4()
	}
	d.ja4, d.ech = t.JA4, h.ECH
	d.sni, d.h2 = h.Host, slices.Contains(h.Protocols, protocolH2)
	switch {
	case d.orig.IsValid():
		if pass = x.redirected(d, h); !x.intercepts() {
			if !pass {
				x.countVerdict()
				x.c.Write(alert[:])
				return false
			}
			return x.unseen(d, first, "")
		}
	case pass && h.Host != "" && h.Host != d.host:
		x.note("TLS hello names another host than CONNECT")
		d.host, t.Host = h.Host, h.Host
		pass = x.decide(filter.Name)
	case pass && x.eng.JA4:
		pass = x.decide(filter.Name)
	}
	if t.Verdict.Action == filter.Allow {
		return x.unseen(d, first, "")
	}
	if why := x.opaque(d); why != "" && pass {
		return x.unseen(d, first, why)
	}
	if pass {
		pass = x.meet(d)
		if t.Verdict.Action == filter.Allow {
			return x.unseen(d, first, "")
		}
	}
	return x.handshake(d, first, pass)
}

// opaque says why a connection cannot be looked into although it should be.
func (x *session) opaque(d *decrypted) string {
	in := x.eng.Intercept
	if in.ExceptAfter > 0 && x.p.pinned.count(x.ctx, in, d.pin()) >= in.ExceptAfter {
		return "not decrypted: the client refuses our certificate for this host"
	}
	if _, err := in.Authority.Certificate(d.name()); err != nil {
		return "not decrypted: " + err.Error()
	}
	return ""
}

// name is what our certificate is made out to.
func (d *decrypted) name() string {
	if d.sni != "" {
		return d.sni
	}
	return d.host
}

// unseen makes a tunnel of the connection: the name is all that is judged.
func (x *session) unseen(d *decrypted, first []byte, why string) bool {
	t := &x.t
	if why != "" {
		x.note(why)
	}
	x.inside = nil
	if known := t.Last == filter.Name; !known && t.Verdict.Action != filter.Allow {
		t.Last = filter.Name
		if !x.decide(filter.Name) {
			x.countVerdict()
			if t.JA4 != filter.NoHello {
				x.c.Write(alert[:])
			}
			return false
		}
	}
	u, err := x.dialTunnel(d.dial)
	if err != nil {
		x.note("tunnel: " + err.Error())
		return false
	}
	x.use(u)
	x.p.counters.tunnels.Add(1)
	x.tunnel(false, first)
	return false
}

// meet connects to the origin and has its certificate judged. It says whether
// the client's requests may come.
func (x *session) meet(d *decrypted) bool {
	x.inside = d
	defer func() { x.inside = nil }()
	toParent, err := x.target()
	if err != nil {
		d.err, d.told = err, new(atomic.Bool)
		return true
	}
	now := time.Now()
	u := x.p.up.get(x.key, now)
	if u == nil {
		if u, err = x.dial(toParent, false); err != nil {
			d.err, d.told = err, new(atomic.Bool)
			return true
		}
	}
	d.findings = u.faults
	x.p.up.put(u, now)
	if len(d.findings) == 0 {
		return true
	}
	x.t.Findings = append(x.t.Findings, d.findings...)
	return x.decide(filter.Name)
}

// handshake plays the origin to the client. pass says whether its requests may
// go on to the origin; if not, the page that says so is the answer to them.
func (x *session) handshake(d *decrypted, first []byte, pass bool) (more bool) {
	t, p := &x.t, x.p
	conf, err := x.eng.Intercept.Authority.Config(d.name(), protocolH2, "http/1.1")
	if err != nil {
		x.note("no certificate: " + err.Error())
		x.countVerdict()
		x.c.Write(alert[:])
		return false
	}
	conf.DynamicRecordSizingDisabled = true // each record is a system call
	seen := append(append([]byte(nil), first...), x.r.Buffered()...)
	tc := tls.Server(&rewound{x.c, seen}, conf)
	x.c.SetDeadline(time.Now().Add(p.cfg.HeadTime))
	if err := tc.HandshakeContext(x.ctx); err != nil {
		x.handshakeFailed(d, err)
		if !pass {
			x.countVerdict()
		}
		return false
	}
	p.pinned.forget(x.ctx, x.eng.Intercept, d.pin())
	p.counters.decrypted.Add(1)
	x.c, x.tcp, x.until = tc, nil, time.Time{}
	x.r.Reset(tc)
	x.host, x.url = "", ""
	x.inside = d
	d.streams = tc.ConnectionState().NegotiatedProtocol == protocolH2
	if pass {
		x.note("decrypted")
	} else {
		// Its requests are judged again, and go on record as refused.
		x.note("decrypted to say why it is refused")
		t.Verdict.Action = filter.Pass
	}
	return true
}

// handshakeFailed puts on record that a client did not want to speak to us.
func (x *session) handshakeFailed(d *decrypted, err error) {
	p := x.p
	op, _ := errors.AsType[*net.OpError](err)
	refused := op != nil && op.Op == "remote error" || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	if !refused {
		x.note("handshake with the client: " + err.Error())
		return
	}
	p.counters.certRefused.Add(1)
	n := p.pinned.add(x.ctx, x.eng.Intercept, d.pin())
	x.note("the client refused our certificate (" + err.Error() + "), " + strconv.Itoa(n) +
		" times for this host: the root is not installed there, or the application is pinned and its host wants an allow rule" + x.echAdvice(d))
}

// echAdvice explains a refusal where the name in the hello may not have been
// the one that the client meant.
func (x *session) echAdvice(d *decrypted) string {
	if !d.ech {
		return ""
	}
	return "; its hello carried ECH: where that is not noise, the name was the outer one, and a name server that refuses HTTPS records with ech makes clients show the true one"
}

// A handshakeError is a TLS handshake with an origin that failed.
type handshakeError struct {
	err      error
	wantCert bool // the origin asked for a client certificate
}

func (e *handshakeError) Error() string {
	if e.wantCert {
		return "TLS with the origin, which asks for a client certificate (only an allow rule for the host lets the client show it): " + e.err.Error()
	}
	return "TLS with the origin: " + e.err.Error()
}
func (e *handshakeError) Unwrap() error { return e.err }

// dial makes a new upstream connection to x.key, with TLS where the request
// came with it. fresh wants a connection that nobody has used before.
func (x *session) dial(toParent, fresh bool) (*upstream, error) {
	d := x.inside
	if d == nil || d.scheme != "https" {
		return x.p.up.dial(x.ctx, string(x.key), toParent)
	}
	key, two := string(x.key), x.p.up.two
	if d.h2 && !fresh {
		if o := two.get(key); o != nil {
			return o.open(x.ctx, key, x.p.cfg.Head, true), nil
		}
	}
	addr, _, _ := strings.Cut(key, "|")
	u, err := x.p.up.dial(x.ctx, addr, toParent)
	if err != nil {
		return nil, err
	}
	u.key = key
	if toParent {
		err = x.throughParent(u, string(appendPort(appendHost(nil, d.dial), d.port)))
	}
	if err == nil {
		err = x.secure(u)
	}
	if tc, ok := u.c.(*tls.Conn); err == nil && ok && tc.ConnectionState().NegotiatedProtocol == protocolH2 {
		tc.SetDeadline(time.Time{})
		var o *origin2
		if o, err = two.put(key, tc, u.faults); err == nil {
			return o.open(x.ctx, key, x.p.cfg.Head, false), nil
		}
	}
	if err != nil {
		u.close()
		if !d.h2 && wantsOther(err) { // it speaks HTTP/2 alone, and we can translate
			d.h2 = true
			if toParent, err = x.target(); err != nil {
				return nil, err
			}
			return x.dial(toParent, false)
		}
		return nil, err
	}
	return u, nil
}

// wantsOther says whether an origin speaks none of the protocols it was
// offered (RFC 7301, 3.2).
func wantsOther(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error" && strings.Contains(op.Err.Error(), "no application protocol")
}

// secure starts TLS on u and looks at the origin's certificate.
func (x *session) secure(u *upstream) error {
	d, p := x.inside, x.p
	asked := false
	conf := p.up.tls.Clone()
	conf.ServerName = d.sni
	if d.h2 {
		conf.NextProtos = []string{protocolH2, "http/1.1"}
	}
	if d.sni == "" { // nothing to send, but a key for the session cache
		conf.ServerName = d.host
		if _, err := netip.ParseAddr(d.host); err != nil {
			conf.ServerName = ""
		}
	}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = true
		return new(tls.Certificate), nil
	}
	u.wire = &wire{Conn: u.c, raw: u.raw}
	tc := tls.Client(u.wire, conf)
	u.c.SetDeadline(time.Now().Add(p.cfg.Dial))
	if err := tc.HandshakeContext(x.ctx); err != nil {
		return &handshakeError{err, asked}
	}
	u.until = time.Time{}
	u.c = tc
	u.r = message.NewReader(tc, 8<<10, p.cfg.Head)
	if asked {
		x.note("the origin asks for a client certificate")
	}
	for _, f := range x.eng.Intercept.Verifier.Verify(x.ctx, d.name(), tc.ConnectionState()).Faults {
		u.faults = append(u.faults, filter.Finding{Check: certificateCheck, Category: string(f.Kind), Evidence: f.Detail})
	}
	if len(u.faults) > 0 {
		p.counters.certFaults.Add(1)
	}
	return nil
}

// errFaulty says that a connection made for a request shows a certificate the
// policy refuses; the verdict is in the transaction.
var errFaulty = errors.New("certificate refused")

// suspect has the faults of u's certificate judged, unless they were already.
func (x *session) suspect(u *upstream) error {
	if len(u.faults) == 0 || x.inside == nil {
		return nil
	}
	fresh := false
next:
	for _, f := range u.faults {
		for _, g := range x.t.Findings {
			if f == g {
				continue next
			}
		}
		x.t.Findings = append(x.t.Findings, f)
		fresh = true
	}
	if fresh && x.t.Verdict.Action != filter.Allow && !x.decide(filter.Request) {
		return errFaulty
	}
	return nil
}

// judgeHead has a request's host and head judged, and says whether it may go
// on. A request that names another host than the connection it came on is
// judged as both.
func (x *session) judgeHead() bool {
	t, d := &x.t, x.inside
	if d != nil {
		t.Findings = append(t.Findings, d.findings...)
	}
	if !x.decide(filter.Name) || t.Verdict.Action != filter.Allow && !x.decide(filter.Request) {
		return false
	}
	if d == nil || t.Host == d.host {
		return true
	}
	x.note("Host names another site than the connection")
	host, url, verdict, edits := t.Host, t.URL, t.Verdict, x.edits
	t.Host, t.Verdict = d.host, filter.Verdict{}
	x.setURL()
	if !x.decide(filter.Name) || t.Verdict.Action != filter.Allow && !x.decide(filter.Request) {
		return false
	}
	if verdict.Action == filter.Allow && t.Verdict.Action != filter.Allow {
		return true // allowed for the name it gives, but not for where it goes
	}
	t.Host, t.URL, t.Verdict, x.edits = host, url, verdict, edits
	return true
}

// A wire is a connection under TLS that can be looked at without waiting.
type wire struct {
	net.Conn
	raw  syscall.RawConn
	look bool
}

func (w *wire) Read(p []byte) (n int, err error) {
	if !w.look {
		return w.Conn.Read(p)
	}
	failed := w.raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == syscall.EAGAIN:
		return 0, nothing{}
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// quiet says whether nothing of use has come: session tickets may have.
func (u *upstream) quietTLS() bool {
	u.wire.look = true
	defer func() { u.wire.look = false }()
	var b [1]byte
	n, err := u.c.Read(b[:])
	return n == 0 && errors.Is(err, nothing{})
}

// nothing is the error of a look that found nothing to read. To crypto/tls it
// is one that passes.
type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }
