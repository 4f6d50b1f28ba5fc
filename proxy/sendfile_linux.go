package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// errFile reports that the kernel cannot send from this file. The head was sent.
var errFile = errors.New("the file cannot be sent from")

// sendFile writes head, and n bytes of f from off on, which the kernel takes from its page
// cache. It returns how many of these n bytes were sent, and the rest of head. The connection's
// deadline applies.
func sendFile(c *net.TCPConn, head []byte, f *os.File, off, n int64) (sent int64, rest []byte, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, head, err
	}
	from, err := f.SyscallConn()
	if err != nil {
		return 0, head, err
	}
	defer runtime.KeepAlive(f)
	var failed error
	step := func(in, out uintptr) (done bool) {
		for {
			var k int
			var err error
			if len(head) > 0 { // sent together with the first bytes of the body
				if k, err = unix.SendmsgN(int(out), head, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL); err == nil {
					head = head[k:]
					continue
				}
			} else {
				k, err = unix.Sendfile(int(out), int(in), &off, int(n-sent))
			}
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				return false
			case sent == 0 && len(head) == 0 && (err == unix.EINVAL || err == unix.ENOSYS):
				failed = errFile
				return true
			case err != nil:
				failed = os.NewSyscallError("sendfile", err)
				return true
			case k == 0:
				failed = io.ErrUnexpectedEOF
				return true
			default:
				if sent += int64(k); sent == n {
					return true
				}
			}
		}
	}
	err = from.Control(func(in uintptr) {
		if e := raw.Write(func(out uintptr) bool { return step(in, out) }); e != nil && failed == nil {
			failed = e
		}
	})
	if failed != nil {
		err = failed
	}
	return sent, head, err
}
