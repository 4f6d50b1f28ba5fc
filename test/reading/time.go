package reading

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time used so far, because wall time means little on a busy
// machine.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
