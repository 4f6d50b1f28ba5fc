package syslog

import (
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged returns how many bytes of a TCP connection the system at its
// other end has not acknowledged, 0 where that is not known.
func unacknowledged(c net.Conn) (n int) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			n = waiting
		}
	})
	return n
}
