package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/platform"
)

// CertificateCheck is the check name of findings about faulty certificates.
const CertificateCheck = "certificate"

// A HandshakeError is a failed TLS handshake with an origin.
type HandshakeError struct {
	Err             error
	WantsClientCert bool // the origin requested a client certificate
	Old             bool // the settings permit old TLS for it
}

func (e *HandshakeError) Error() string {
	hint := " (if its TLS is old, name the host in proxy.old-tls)"
	switch {
	case e.WantsClientCert:
		hint = " (it asked for a client certificate: let this host through with an allow rule on its name)"
	case e.Old:
		hint = " (proxy.old-tls does not help; it may require DHE, which this program does not support: let this host through with an allow rule on its name)"
	}
	return "TLS with the origin: " + e.Err.Error() + hint
}

// Timeout reports whether the origin did not respond in time.
func (e *HandshakeError) Timeout() bool {
	var n net.Error
	return errors.As(e.Err, &n) && n.Timeout()
}

func (e *HandshakeError) Unwrap() error { return e.Err }

// secure performs a TLS handshake on u and verifies the origin's certificate.
func (t *Transport) secure(ctx context.Context, c *Caller, u *conn, how *TLS) error {
	conf := t.tls.Clone()
	conf.ServerName = how.ServerName
	old := hostIn(t.oldTLS, how.Name)
	if old {
		conf.MinVersion, conf.CipherSuites = tls.VersionTLS10, oldSuites()
	}
	if how.HTTP2 {
		conf.NextProtos = []string{protocolH2, "http/1.1"}
	}
	if how.ServerName == "" { // not sent, but used as a key of the session cache
		conf.ServerName = how.Name
		if _, err := netip.ParseAddr(how.Name); err != nil {
			conf.ServerName = ""
		}
	}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		u.asked = true
		return new(tls.Certificate), nil
	}
	u.wire = &wire{Conn: u.c, raw: u.raw, silence: t.answer}
	tc := tls.Client(u.wire, conf)
	if t.dialTime > 0 {
		u.c.SetDeadline(time.Now().Add(t.dialTime))
	}
	if err := tc.HandshakeContext(ctx); err != nil {
		return &HandshakeError{err, u.asked, old}
	}
	u.c.SetDeadline(time.Time{})
	u.until = time.Time{}
	u.c = tc
	u.read(t)
	if u.asked {
		c.Note = "the origin asks for a client certificate"
	}
	v := t.verifier.Load()
	if v == nil {
		return errors.New("TLS with the origin: certificates are not checked")
	}
	u.peer = peerOf(tc.ConnectionState())
	for _, f := range v.Verify(ctx, how.Name, tc.ConnectionState()).Faults {
		u.faults = append(u.faults, filter.Finding{Check: CertificateCheck, Category: string(f.Kind), Evidence: f.Detail})
	}
	if len(u.faults) > 0 {
		t.counters.add(certFaults)
	}
	return nil
}

// A peer is an origin's TLS state and certificate.
type peer struct {
	version      uint16
	certificates [][]byte // DER
}

func peerOf(s tls.ConnectionState) peer {
	p := peer{version: s.Version}
	for _, c := range s.PeerCertificates {
		p.certificates = append(p.certificates, c.Raw)
	}
	return p
}

// oldSuites returns all cipher suites except those with RC4, also those with RSA key exchange,
// CBC and SHA-1.
func oldSuites() (list []uint16) {
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		if !strings.Contains(s.Name, "RC4") {
			list = append(list, s.ID)
		}
	}
	return list
}

// explain returns the meaning of a connection error. In TLS 1.3 an origin refuses a client
// without a certificate after the handshake: its alert, or the end of the connection, is the
// response to the first request.
func (u *conn) explain(err error) error { return explainAsked(err, u.asked) }

func explainAsked(err error, asked bool) error {
	if !asked || err == nil {
		return err
	}
	op, _ := errors.AsType[*net.OpError](err)
	alert := op != nil && op.Op == "remote error"
	if alert || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, platform.ECONNRESET) || errors.Is(err, platform.EPIPE) {
		return &HandshakeError{Err: err, WantsClientCert: true}
	}
	return err
}

// A wire is a connection below TLS that can be peeked at without waiting.
type wire struct {
	net.Conn
	raw     syscall.RawConn
	look    bool
	silence time.Duration // of an origin that must read
}

// Write implements [net.Conn]. TLS cannot continue after a deadline, but the origin may be slow.
func (w *wire) Write(p []byte) (int, error) {
	return message.WriteOn(w.Conn, p, func() { w.Conn.SetWriteDeadline(time.Now().Add(w.silence)) })
}

// NetConn returns the connection below.
func (w *wire) NetConn() net.Conn { return w.Conn }

func (w *wire) Read(p []byte) (n int, err error) {
	if !w.look {
		return w.Conn.Read(p)
	}
	failed := w.raw.Control(func(fd uintptr) { n, err = platform.Read(fd, p) })
	switch {
	case failed != nil:
		return 0, failed
	case err == platform.ErrWait:
		return 0, noBytesError{}
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// quietTLS reports whether nothing relevant has arrived; session tickets are not.
func (u *conn) quietTLS() bool {
	u.wire.look = true
	defer func() { u.wire.look = false }()
	var b [1]byte
	n, err := u.c.Read(b[:])
	return n == 0 && errors.Is(err, noBytesError{})
}

// noBytesError is the error of a peek without bytes. It is temporary to crypto/tls.
type noBytesError struct{}

func (noBytesError) Error() string   { return "nothing to read" }
func (noBytesError) Timeout() bool   { return true }
func (noBytesError) Temporary() bool { return true }
