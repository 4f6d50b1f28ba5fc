package handover

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindsFree reports whether a socket can have an address that the machine does not have yet.
const bindsFree = true

// freeBind lets a socket have an address that the machine does not have yet. It serves as soon
// as the machine has it.
func freeBind(network string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network[len(network)-1] == '6' {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); e != nil {
		return e
	}
	return err
}
