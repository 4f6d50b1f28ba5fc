package platform

import "golang.org/x/sys/unix"

// HasRoom reports whether a socket takes a block of bytes now, or has failed. It does not wait. If it
// reports false, the system says when there is room.
func HasRoom(socket uintptr) bool {
	p := [1]unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}}
	n, err := unix.Poll(p[:], 0)
	return err != nil || n > 0
}

// Queued returns how many bytes written to a socket its peer has not acknowledged; 0 if that is unknown.
func Queued(socket uintptr) int {
	n, err := unix.IoctlGetInt(int(socket), unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}
