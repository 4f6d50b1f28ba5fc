package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Poller waits for bytes at many sockets at once.
type Poller struct {
	fd     int // kqueue
	events [128]unix.Kevent_t
}

// NewPoller returns a Poller. It returns [errors.ErrUnsupported] where the system has none.
func NewPoller() (*Poller, error) {
	fd, err := unix.Kqueue()
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	p := &Poller{fd: fd}
	if err := p.change(0, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR, 0); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return p, nil
}

func (p *Poller) change(ident, filter, flags int, fflags uint32) error {
	e := [1]unix.Kevent_t{{Fflags: fflags}}
	unix.SetKevent(&e[0], ident, filter, flags)
	_, err := unix.Kevent(p.fd, e[:], nil, nil)
	return err
}

// Watch makes Wait return the socket once: when there are bytes to read, or it has ended. Closing
// the socket ends the watch.
func (p *Poller) Watch(socket uintptr) error {
	return p.change(int(socket), unix.EVFILT_READ, unix.EV_ADD|unix.EV_ONESHOT, 0)
}

// Wait waits at most d, or forever if d is negative, and appends to dst the sockets at which
// something has arrived. open is false after Close, which ends the Poller.
func (p *Poller) Wait(dst []int, d time.Duration) (arrived []int, open bool) {
	var limit *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		limit = &t
	}
	n, err := unix.Kevent(p.fd, nil, p.events[:], limit)
	if err != nil { // a signal
		return dst, true
	}
	for i := range p.events[:n] {
		if p.events[i].Filter == unix.EVFILT_USER {
			unix.Close(p.fd)
			return dst, false
		}
		dst = append(dst, int(p.events[i].Ident))
	}
	return dst, true
}

// Close makes Wait end the Poller.
func (p *Poller) Close() {
	_ = p.change(0, unix.EVFILT_USER, 0, unix.NOTE_TRIGGER) // the event exists
}
