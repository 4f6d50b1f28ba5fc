package platform

import (
	"time"

	"golang.org/x/sys/unix"
)

// Suspended returns how long the machine has slept since it was started: the monotonic clock
// of Go stands still meanwhile.
func Suspended() time.Duration {
	var all, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &all) != nil {
		return 0
	}
	// All is read later, so the difference is never below zero.
	return time.Duration(all.Nano() - awake.Nano())
}
