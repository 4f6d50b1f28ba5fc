package batch

import (
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	controlSize = 64
	canSpread   = false // SO_REUSEPORT gives all datagrams to one of the sockets
	truncated   = unix.MSG_TRUNC
)

func reusePort(syscall.RawConn, bool) error { return nil }

// askDestination has datagrams come with the address they were sent to.
func askDestination(c *net.UDPConn, six bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) {
		if six {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVDSTADDR, 1)
		}
	}); e != nil {
		return e
	}
	return err
}

// destination reads the address a datagram was sent to. Its control message is
// as it must be for the reply: IP_SENDSRCADDR is the same number as
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
