// Package platform contains the differences between Unix and Windows that several rooms
// need: locks on files, files mapped into memory, reads from sockets that do not wait, waiting
// for many sockets, owners of files, and the limits and the processor time of the process.
//
// It keeps no state but that of a [Poller]. Every function does one system call, and has one
// implementation in platform_unix.go and one in platform_windows.go; a Poller is epoll on Linux
// and kqueue on FreeBSD.
package platform

import "errors"

var (
	// ErrLocked reports that another process holds the lock.
	ErrLocked = errors.New("another process holds the lock")

	// ErrWait reports that nothing has arrived yet.
	ErrWait = errors.New("nothing has arrived")
)
