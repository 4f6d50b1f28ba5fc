package proxy

import (
	"encoding/binary"
	"net/netip"
	"syscall"
)

// Requests to FreeBSD's pf for the original destination of a connection redirected by an rdr
// rule: struct pfioc_natlook of <net/pfvar.h>, four addresses of 16 bytes, four ports in
// network order, and three bytes, padded to 76. It is in this file, apart from the system
// call, so that it is tested on every system.

const natLookSize = 76

type natLook [natLookSize]byte

const (
	// diocNatLook is _IOWR('D', 23, struct pfioc_natlook).
	diocNatLook uint32 = 3<<30 | natLookSize<<16 | 'D'<<8 | 23

	natPorts     = 64
	natFamily    = natPorts + 8
	natProtocol  = natFamily + 1
	natDirection = natFamily + 2

	pfOut       = 2
	freebsdInet = 2
	freebsdIPv6 = 28
)

// newNatLook makes a request about the connection between a client and us, as we see it.
func newNatLook(client, us netip.AddrPort) (q natLook) {
	put := func(at int, a netip.Addr) {
		if a.Is4() {
			b := a.As4()
			copy(q[at:], b[:])
			return
		}
		b := a.As16()
		copy(q[at:], b[:])
	}
	put(0, client.Addr())
	put(16, us.Addr())
	binary.BigEndian.PutUint16(q[natPorts:], client.Port())
	binary.BigEndian.PutUint16(q[natPorts+2:], us.Port())
	q[natFamily] = freebsdIPv6
	if client.Addr().Is4() {
		q[natFamily] = freebsdInet
	}
	q[natProtocol], q[natDirection] = syscall.IPPROTO_TCP, pfOut
	return q
}

// destination returns the original destination in pf's reply.
func (q *natLook) destination() netip.AddrPort {
	port := binary.BigEndian.Uint16(q[natPorts+6:])
	if q[natFamily] == freebsdInet {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(q[48:52])), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(q[48:64])), port)
}
