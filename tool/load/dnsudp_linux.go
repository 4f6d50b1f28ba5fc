//go:build linux && (amd64 || arm64)

package load

import (
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of sendmmsg(2), padded as on 64-bit systems.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// bursts is UDP with sendmmsg(2) and recvmmsg(2), which transfer many packets per call.
type bursts struct {
	c   *net.UDPConn
	raw syscall.RawConn

	out     [burst]mmsghdr
	outIov  [burst]unix.Iovec
	in      [burst]mmsghdr
	inIov   [burst]unix.Iovec
	buf     [burst][answerSize]byte
	answers [burst][]byte

	// Data of the following callbacks, which are created once, because a closure per call
	// would be garbage.
	outN, sent, received int
	outErr, inErr        syscall.Errno
	wait                 bool // for answers
	doSend, doReceive    func(fd uintptr) bool
}

func newUDP(c *net.UDPConn) (link, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, err
	}
	u := &bursts{c: c, raw: raw}
	for i := range burst {
		u.in[i].hdr.Iov, u.in[i].hdr.Iovlen = &u.inIov[i], 1
		u.inIov[i].Base, u.inIov[i].Len = &u.buf[i][0], answerSize
		u.out[i].hdr.Iov, u.out[i].hdr.Iovlen = &u.outIov[i], 1
	}
	u.doSend = func(fd uintptr) bool {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&u.out[0])), uintptr(u.outN), unix.MSG_DONTWAIT, 0, 0)
		u.sent, u.outErr = int(n), errno
		return errno != unix.EAGAIN && errno != unix.EINTR
	}
	u.doReceive = func(fd uintptr) bool {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&u.in[0])), burst, unix.MSG_DONTWAIT, 0, 0)
		u.received, u.inErr = int(n), errno
		return (errno != unix.EAGAIN || !u.wait) && errno != unix.EINTR
	}
	return u, nil
}

func (u *bursts) send(queries [][]byte) (int, error) {
	for i, q := range queries {
		u.outIov[i].Base = &q[0]
		u.outIov[i].SetLen(len(q))
	}
	u.outN = len(queries)
	if err := u.raw.Write(u.doSend); err != nil {
		return 0, err
	}
	if u.outErr != 0 {
		return 0, os.NewSyscallError("sendmmsg", u.outErr)
	}
	return u.sent, nil
}

func (u *bursts) receive(wait bool) ([][]byte, error) {
	u.wait = wait
	if err := u.raw.Read(u.doReceive); err != nil {
		return nil, err
	}
	switch {
	case u.inErr == unix.EAGAIN:
		return nil, nil
	case u.inErr != 0:
		return nil, os.NewSyscallError("recvmmsg", u.inErr)
	}
	for i := range u.received {
		u.answers[i] = u.buf[i][:u.in[i].n]
	}
	return u.answers[:u.received], nil
}

func (u *bursts) deadline(at time.Time) error { return u.c.SetReadDeadline(at) }
func (u *bursts) close()                      { u.c.Close() }
