package load

import (
	"context"
	"time"
)

// sleepUntil sleeps until a time, and returns false if ctx is done first. epoll_wait rounds
// Go's timers up to a millisecond. The last part is slept in nanosleep(2), if available, so
// that requests are sent within some 0.1 ms of their intended time.
func sleepUntil(ctx context.Context, at time.Time) bool {
	const fine = 2 * time.Millisecond
	for ctx.Err() == nil {
		d := time.Until(at)
		if d <= 0 {
			return true
		}
		if d <= fine {
			nap(d) // the loop continues after an interrupted one
			continue
		}
		t := time.NewTimer(d - fine/2)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return false
}
