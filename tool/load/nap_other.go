//go:build !linux && !freebsd

package load

import "time"

// nap sleeps with a timer, which may be a millisecond late.
func nap(d time.Duration) { time.Sleep(d) }
