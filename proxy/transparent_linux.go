package proxy

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// originalDestination returns the original destination of a connection: as remembered by the
// kernel's address translation (REDIRECT), or else the accepting address (TPROXY).
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	tc, ok := c.(*net.TCPConn)
	if !ok {
		return netip.AddrPort{}, errNotRedirected
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	local, _ := endpoint(tc.LocalAddr())
	to := local
	err = raw.Control(func(fd uintptr) {
		if local.Addr().Is4() {
			// It has the size of a sockaddr_in, for which Go has no getsockopt.
			m, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, unix.SO_ORIGINAL_DST)
			if err == nil {
				b := m.Multiaddr
				to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4]))
			}
			return
		}
		m, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, unix.SO_ORIGINAL_DST)
		if err == nil {
			port := (*[2]byte)(unsafe.Pointer(&m.Addr.Port)) // in network order
			to = netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), binary.BigEndian.Uint16(port[:]))
		}
	})
	return to, err
}

// anyAddress lets a socket accept connections to foreign addresses.
func anyAddress(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
		if network == "tcp4" || failed == unix.ENOPROTOOPT {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1)
		}
	})
	if err == nil && failed != nil {
		err = fmt.Errorf("TPROXY needs CAP_NET_ADMIN: %w", failed)
	}
	return err
}
