package syslog

import (
	"crypto/tls"
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged returns the number of bytes on a TCP connection that the other
// system has not acknowledged, or 0 if unknown.
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
