//go:build linux || freebsd

package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap sleeps in nanosleep(2), which may end early.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil)
}
