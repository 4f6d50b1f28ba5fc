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

// originalDestination returns the original destination of a connection: as remembered by pf
// for an rdr rule, or else the accepting address, which "ipfw fwd" leaves unchanged.
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	us, ok1 := endpoint(c.LocalAddr())
	client, ok2 := endpoint(c.RemoteAddr())
	if !ok1 || !ok2 {
		return netip.AddrPort{}, errNotRedirected
	}
	dev, err := unix.Open("/dev/pf", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return us, nil // without pf
	}
	if err != nil {
		return us, fmt.Errorf("asking pf for the original destination: /dev/pf: %w (let the gateway read it: see devfs.rules(5))", err)
	}
	defer unix.Close(dev)
	q := newNatLook(client, us)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(dev), uintptr(diocNatLook), uintptr(unsafe.Pointer(&q)))
	switch errno {
	case 0:
		return q.destination(), nil
	case unix.ENOENT: // not redirected by a rule of pf
		return us, nil
	}
	return us, fmt.Errorf("asking pf for the original destination: %w", errno)
}

// anyAddress does nothing: ipfw fwd delivers any address to a socket.
func anyAddress(string, string, syscall.RawConn) error { return nil }
