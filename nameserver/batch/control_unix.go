//go:build linux || freebsd

package batch

import (
	"net"

	"golang.org/x/sys/unix"
)

// askDestination makes the system report the destination of datagrams.
func askDestination(c *net.UDPConn, six bool) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) {
		if six {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		} else {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, recvDst, 1)
		}
	}); e != nil {
		return e
	}
	return err
}
