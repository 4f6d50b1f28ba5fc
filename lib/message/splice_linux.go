package message

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// pipeSize is what a pipe should hold. The system may give less.
const pipeSize = 1 << 20

// A pipe is where the kernel keeps bytes between two sockets.
type pipe struct{ in, out int }

// pipes are empty. They end with the garbage, because they take descriptors.
var pipes sync.Pool

// takePipe returns a pipe, nil if there are too many.
func takePipe() *pipe {
	if p, _ := pipes.Get().(*pipe); p != nil {
		return p
	}
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // a smaller one works, too
	p := &pipe{in: fds[1], out: fds[0]}
	runtime.SetFinalizer(p, (*pipe).close)
	return p
}

func (p *pipe) close() {
	runtime.SetFinalizer(p, nil)
	unix.Close(p.in)
	unix.Close(p.out)
}

// Splice has the kernel move at most n bytes from src to dst. It is done (nil) after n bytes or at
// the end of src. reading and writing are called before each wait for src and dst, and set their
// deadlines: so Splice fails when one is silent, and not because it is slow. It fails with
// [errors.ErrUnsupported], having moved nothing, where the kernel cannot do it. taken is what was
// read from src, moved what was written to dst.
func Splice(dst, src *net.TCPConn, n int64, reading, writing func()) (taken, moved int64, err error) {
	from, err := src.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	to, err := dst.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	p := takePipe()
	if p == nil {
		return 0, 0, errors.ErrUnsupported
	}
	defer func() {
		if taken == moved {
			pipes.Put(p)
		} else {
			p.close()
		}
	}()
	for taken < n {
		reading()
		var got int64
		failed := error(nil)
		waited := from.Read(func(fd uintptr) bool {
			got, failed = splice(int(fd), p.in, min(n-taken, pipeSize))
			return failed != unix.EAGAIN
		})
		switch {
		case waited != nil:
			return taken, moved, asOp("read", src, waited)
		case failed == unix.EINVAL && taken == 0:
			return 0, 0, errors.ErrUnsupported
		case failed != nil:
			return taken, moved, asOp("read", src, os.NewSyscallError("splice", failed))
		case got == 0:
			return taken, moved, nil
		}
		taken += got
		for moved < taken {
			writing()
			waited := to.Write(func(fd uintptr) bool {
				got, failed = splice(p.out, int(fd), taken-moved)
				return failed != unix.EAGAIN
			})
			switch {
			case waited != nil:
				return taken, moved, asOp("write", dst, waited)
			case failed != nil:
				return taken, moved, asOp("write", dst, os.NewSyscallError("splice", failed))
			}
			moved += got
		}
	}
	return taken, moved, nil
}

// splice is the system call, which does not wait.
func splice(from, to int, n int64) (int64, error) {
	for {
		m, err := unix.Splice(from, nil, to, nil, int(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return max(int64(m), 0), err
		}
	}
}

// asOp names the side that has failed, as package net does.
func asOp(op string, c net.Conn, err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
