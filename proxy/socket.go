package proxy

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"shuultuur/lib/message"
)

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peerAddr returns the remote address of a connection.
func peerAddr(c net.Conn) netip.Addr {
	if a, ok := endpoint(c.RemoteAddr()); ok {
		return a.Addr()
	}
	return netip.IPv6Unspecified()
}

// endpoint returns an end of a TCP connection in the form in which addresses are compared.
func endpoint(a net.Addr) (end netip.AddrPort, ok bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return end, false
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()), true
}

// deadlineIn returns the time d from now; the zero time, which means never, if d is 0.
func deadlineIn(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// A rewoundConn is a client's connection from which some bytes were already read. It is below
// TLS, whose writes cannot continue after a deadline.
type rewoundConn struct {
	net.Conn
	first   []byte
	silence time.Duration // of a client that must read
}

func (c *rewoundConn) Write(p []byte) (int, error) {
	return message.WriteOn(c.Conn, p, func() { c.Conn.SetWriteDeadline(deadlineIn(c.silence)) })
}

func (c *rewoundConn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil // hellos are large
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// NetConn returns the connection below, nil while some of its bytes are held here.
func (c *rewoundConn) NetConn() net.Conn {
	if len(c.first) > 0 {
		return nil
	}
	return c.Conn
}

// tlsRecord is the first byte of a TLS handshake, with which no request begins.
const tlsRecord = 0x16

// alert is a fatal TLS alert, access_denied (RFC 8446 section 6.2).
var alert = [...]byte{21, 3, 3, 0, 2, 2, 49}

var errNotRedirected = errors.New("the system does not know its original destination")
