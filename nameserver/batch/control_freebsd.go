package batch

import (
	"errors"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	controlSize = 64
	canSpread   = true
	truncated   = unix.MSG_TRUNC
	recvDst     = unix.IP_RECVDSTADDR // asks for the IPv4 address a datagram was sent to
)

// reusePort lets several sockets share an address: with SO_REUSEPORT alone, one of them would get all
// datagrams. A socket joins the others when it is bound, so one that has its port already stays alone. So
// does one of a system before FreeBSD 12, which lacks the option.
func reusePort(c syscall.RawConn, on bool) error {
	if !on {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT_LB, 1) }); e != nil {
		return e
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	return err
}

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
