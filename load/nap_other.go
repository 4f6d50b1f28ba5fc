//go:build !linux && !freebsd

package load

import "time"

// nap sleeps by a timer, which may be late by a millisecond.
func nap(d time.Duration) { time.Sleep(d) }
