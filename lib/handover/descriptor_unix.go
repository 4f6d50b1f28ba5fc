//go:build unix

package handover

import (
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passes reports whether a process can get sockets from another.
const passes = true

// duplicate returns another descriptor of a socket, which programs started later do not get.
func duplicate(fd uintptr) (uintptr, error) {
	own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	return uintptr(own), err
}

// pair returns connected datagram sockets, which programs started later do not get.
func pair() (in, out *net.UnixConn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "inbox")
		c, fault := net.FileConn(f)
		f.Close()
		if fault != nil {
			err = fault
			continue
		}
		ends[i] = c.(*net.UnixConn)
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}

// discard closes the descriptor that duplicate has returned.
func discard(fd uintptr) { _ = syscall.Close(int(fd)) }

// describe returns the kind of a socket and where it listens.
func describe(fd uintptr) (stream bool, has netip.AddrPort, err error) {
	kind, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil {
		return false, has, err
	}
	at, err := syscall.Getsockname(int(fd))
	switch at := at.(type) {
	case *syscall.SockaddrInet4:
		has = netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port))
	case *syscall.SockaddrInet6:
		has = netip.AddrPortFrom(netip.AddrFrom16(at.Addr).Unmap(), uint16(at.Port))
	}
	return kind == syscall.SOCK_STREAM, has, err
}

// inherited is a descriptor that this process was started with.
func inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	_ = syscall.SetNonblock(fd, true) // the file blocks otherwise, and its close waits for its reads
	return os.NewFile(uintptr(fd), name)
}
