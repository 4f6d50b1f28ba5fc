package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// LimitUnacknowledged ends a TCP connection whose peer has not acknowledged data, or made room for
// it, for some time; 0 is what the system does.
func LimitUnacknowledged(fd uintptr, d time.Duration) error {
	return unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
}
