//go:build linux && (amd64 || arm64)

package batch

import (
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of recvmmsg(2), padded as on 64-bit systems.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// rawName is a socket address as the kernel writes it: the larger of both
// families.
type rawName = unix.RawSockaddrInet6

// These system calls bypass Go's scheduler. It would move the processor to
// another thread during calls longer than 20 µs, as batches are; getting it
// back cost a fifth of all the work of a server on one core. The calls never
// wait (MSG_DONTWAIT), so they delay others by at most one batch. A caller in a
// loop must call runtime.Gosched.

// fastReader reads in batches.
type fastReader struct {
	raw  syscall.RawConn
	hdrs [Size]mmsghdr
	iovs [Size]unix.Iovec

	// do is the function for the raw connection. It is created once, because a
	// closure for each call would be garbage.
	do    func(fd uintptr) bool
	n     int
	errno syscall.Errno
}

func newFast(c *Conn) (*fastReader, error) {
	raw, err := c.udp.SyscallConn()
	if err != nil {
		return nil, err
	}
	f := &fastReader{raw: raw}
	for i := range Size {
		p := &c.peers[i]
		f.iovs[i].Base = &c.in[i][0]
		f.iovs[i].SetLen(InBytes)
		f.hdrs[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&p.name)), Iov: &f.iovs[i], Iovlen: 1}
		if !c.bound.IsValid() {
			f.hdrs[i].hdr.Control = &p.control[0]
		}
		f.prepare(i)
	}
	f.do = func(fd uintptr) bool {
		for {
			n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&f.hdrs[0])), Size, unix.MSG_DONTWAIT, 0, 0)
			if f.n, f.errno = int(n), errno; errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	}
	return f, nil
}

// prepare sets the buffer lengths again, because the kernel has overwritten
// them.
func (f *fastReader) prepare(i int) {
	h := &f.hdrs[i].hdr
	h.Namelen = unix.SizeofSockaddrInet6
	if h.Control != nil {
		h.SetControllen(controlSize)
	}
}

func (f *fastReader) read(c *Conn) (int, error) {
	for i := range f.n { // from the last time
		f.prepare(i)
	}
	f.n = 0
	if err := f.raw.Read(f.do); err != nil {
		return 0, err
	}
	if f.errno != 0 {
		f.n = 0
		return 0, os.NewSyscallError("recvmmsg", f.errno)
	}
	for i := range f.n {
		h, p := &f.hdrs[i], &c.peers[i]
		p.nameLen = h.hdr.Namelen
		p.Addr = addrOf(&p.name)
		c.arrived(p, int(h.hdr.Controllen))
		c.msgs[i] = c.in[i][:h.n]
		if h.hdr.Flags&unix.MSG_TRUNC != 0 {
			c.msgs[i] = nil
		}
	}
	return f.n, nil
}

func addrOf(name *rawName) netip.AddrPort {
	switch name.Family {
	case unix.AF_INET:
		p := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(p.Addr), port(&p.Port))
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr).Unmap(), port(&name.Port))
	}
	return netip.AddrPort{}
}

// port converts a port from network order.
func port(p *uint16) uint16 { return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(p))[:]) }

// fastSender writes in batches.
type fastSender struct {
	raw  syscall.RawConn
	hdrs [Size]mmsghdr
	iovs [Size]unix.Iovec

	do          func(fd uintptr) bool
	first, last int
	n           int
	errno       syscall.Errno
	works       bool // the call has succeeded before: EPERM is a firewall's
}

func newFastSender(c *Conn) *fastSender {
	f := &fastSender{raw: c.fast.raw}
	for i := range Size {
		f.hdrs[i].hdr.Iov, f.hdrs[i].hdr.Iovlen = &f.iovs[i], 1
	}
	f.do = func(fd uintptr) bool {
		for {
			n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&f.hdrs[f.first])), uintptr(f.last-f.first), unix.MSG_DONTWAIT, 0, 0)
			if f.n, f.errno = int(n), errno; errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	}
	return f
}

// send sends the replies from first to before last, and returns how far it
// came.
func (f *fastSender) send(s *Sender, first, last int) (int, error) {
	for i := first; i < last; i++ {
		h, p := &f.hdrs[i].hdr, s.peers[i]
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&p.name)), p.nameLen
		f.iovs[i].Base = &s.msgs[i][0]
		f.iovs[i].SetLen(len(s.msgs[i]))
		h.Control = nil
		if p.ctlLen > 0 {
			h.Control = &p.control[0]
		}
		h.SetControllen(p.ctlLen)
	}
	f.first, f.last = first, last
	if err := f.raw.Write(f.do); err != nil {
		return 0, err
	}
	if f.errno != 0 {
		return 0, f.errno
	}
	f.works = true
	return f.n, nil
}
