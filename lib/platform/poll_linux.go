package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Poller waits for bytes at many sockets at once.
type Poller struct {
	fd     int // epoll
	closer int // eventfd
	events [128]unix.EpollEvent
}

// NewPoller returns a Poller. It returns [errors.ErrUnsupported] where the system has none.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	closer, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, closer, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(closer)})
		if err == nil {
			return &Poller{fd: fd, closer: closer}, nil
		}
		unix.Close(closer)
	}
	unix.Close(fd)
	return nil, err
}

// Watch makes Wait return the socket once: when there are bytes to read, or it has ended. Closing
// the socket ends the watch.
func (p *Poller) Watch(socket uintptr) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(socket)}
	err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, int(socket), &e)
	if err == unix.ENOENT {
		err = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, int(socket), &e)
	}
	return err
}

// Wait waits at most d, or forever if d is negative, and appends to dst the sockets at which
// something has arrived. open is false after Close, which ends the Poller.
func (p *Poller) Wait(dst []int, d time.Duration) (arrived []int, open bool) {
	ms := -1
	if d >= 0 {
		ms = int(min(d.Milliseconds(), 1<<30))
	}
	n, err := unix.EpollWait(p.fd, p.events[:], ms)
	if err != nil { // a signal
		return dst, true
	}
	for i := range p.events[:n] {
		fd := int(p.events[i].Fd)
		if fd == p.closer {
			unix.Close(p.closer)
			unix.Close(p.fd)
			return dst, false
		}
		dst = append(dst, fd)
	}
	return dst, true
}

// Close makes Wait end the Poller.
func (p *Poller) Close() {
	_, _ = unix.Write(p.closer, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an empty eventfd takes it
}

// Ended reports whether the peer of a connected socket sends nothing more (ended), even if bytes
// before that were not read, and whether the connection was reset (broken). It does not wait.
func Ended(socket uintptr) (ended, broken bool) {
	p := [1]unix.PollFd{{Fd: int32(socket), Events: unix.POLLRDHUP}}
	if _, err := unix.Poll(p[:], 0); err != nil {
		return false, false // a signal
	}
	e := p[0].Revents
	return e&(unix.POLLRDHUP|unix.POLLHUP) != 0, e&(unix.POLLERR|unix.POLLNVAL) != 0
}
