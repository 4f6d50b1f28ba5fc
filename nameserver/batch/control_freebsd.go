package batch

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	controlSize = 64
	canSpread   = false // SO_REUSEPORT gives all datagrams to one of the sockets
	truncated   = unix.MSG_TRUNC
	recvDst     = unix.IP_RECVDSTADDR // asks for the IPv4 address a datagram was sent to
)

func reusePort(syscall.RawConn, bool) error { return nil }

// destination returns the address that a datagram was sent to. Its control
// message can be used for the reply unchanged, because IP_SENDSRCADDR equals
// IP_RECVDSTADDR.
func destination(control []byte) (netip.Addr, int) {
	if len(control) < unix.SizeofCmsghdr {
		return netip.Addr{}, 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	data := control[unix.CmsgLen(0):]
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_RECVDSTADDR && len(data) >= 4:
		return netip.AddrFrom4([4]byte(data)), unix.CmsgSpace(4)
	case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		p := (*unix.Inet6Pktinfo)(unsafe.Pointer(&data[0]))
		a := netip.AddrFrom16(p.Addr)
		if !a.IsLinkLocalUnicast() {
			p.Ifindex = 0
		}
		return a.Unmap(), unix.CmsgSpace(unix.SizeofInet6Pktinfo)
	}
	return netip.Addr{}, 0
}
