package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// originalDestination returns where a connection was meant to go: what pf
// remembers of an rdr rule, else the address it was accepted on, which "ipfw
// fwd" leaves as it was.
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	us, ok1 := endpoint(c.LocalAddr())
	client, ok2 := endpoint(c.RemoteAddr())
	if !ok1 || !ok2 {
		return netip.AddrPort{}, errNotRedirected
	}
	dev, err := unix.Open("/dev/pf", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return us, nil // there is no pf
	}
	if err != nil {
		return us, fmt.Errorf("asking pf for the original destination: /dev/pf: %w (let the gateway read it: see devfs.rules(5))", err)
	}
	defer unix.Close(dev)
	q := newNatLook(client, us)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(dev), uintptr(diocNatLook), uintptr(unsafe.Pointer(&q)))
	switch errno {
	case 0:
		return q.meant(), nil
	case unix.ENOENT: // no rule of pf's brought it here
		return us, nil
	}
	return us, fmt.Errorf("asking pf for the original destination: %w", errno)
}

// anyAddress has nothing to do: ipfw fwd brings any address to a socket.
func anyAddress(string, string, syscall.RawConn) error { return nil }
