package proxy

import (
	"net"
	"net/netip"
	"time"
)

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peerAddr returns the address of a connection's other end.
func peerAddr(c net.Conn) netip.Addr {
	if a, ok := endpoint(c.RemoteAddr()); ok {
		return a.Addr()
	}
	return netip.IPv6Unspecified()
}

// endpoint is an end of a TCP connection, in the form in which addresses are
// compared.
func endpoint(a net.Addr) (end netip.AddrPort, ok bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return end, false
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()), true
}

// linger ends our side and reads on for a moment: a connection closed with
// unread bytes is reset, and a reset takes the answer with it (RFC 9112 section
// 9.6). The time is the only bound: a client that sends fast has to see the
// answer too, before the first reset.
func linger(c net.Conn) {
	hc, ok := c.(interface{ CloseWrite() error })
	if !ok || hc.CloseWrite() != nil {
		return
	}
	c.SetReadDeadline(time.Now().Add(time.Second))
	var b [4 << 10]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			return
		}
	}
}

// within is the time d from now; the zero time where d is 0, for ever.
func within(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}

// A rewound is a connection of which some bytes were read already.
type rewound struct {
	net.Conn
	first []byte
}

func (c *rewound) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil // a hello is large today
		}
		return n, nil
	}
	return c.Conn.Read(p)
}
