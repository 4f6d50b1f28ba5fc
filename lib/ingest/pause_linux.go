package ingest

import (
	"time"

	"golang.org/x/sys/unix"
)

// pause waits for d, which is less than a millisecond. A timer of the runtime would wait for at
// least one if nothing else runs.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // a signal ends the wait early, which does no harm
}
