package batch

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	controlSize = 64 // size of one in6_pktinfo, with a margin
	canSpread   = true
	truncated   = unix.MSG_TRUNC
	recvDst     = unix.IP_PKTINFO // asks for the IPv4 address a datagram was sent to
)

// reusePort lets several sockets share an address.
func reusePort(c syscall.RawConn, on bool) error {
	if !on {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
		return e
	}
	return err
}

// destination returns the address that a datagram was sent to, and turns its
// control message into one that sends the reply from there: through any
// interface, unless the address needs one.
func destination(control []byte) (netip.Addr, int) {
	if len(control) < unix.SizeofCmsghdr {
		return netip.Addr{}, 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	data := control[unix.CmsgLen(0):]
	switch {
	case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		p := (*unix.Inet4Pktinfo)(unsafe.Pointer(&data[0]))
		p.Ifindex = 0
		return netip.AddrFrom4(p.Spec_dst), unix.CmsgSpace(unix.SizeofInet4Pktinfo)
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
