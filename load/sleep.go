package load

import (
	"context"
	"time"
)

// sleepUntil waits for a moment and says false when ctx is done first. Go's
// timers are rounded up to a millisecond by epoll_wait; the last stretch is
// slept in nanosleep(2), where there is one, so that requests leave within some 0.1 ms of their
// intended time.
func sleepUntil(ctx context.Context, at time.Time) bool {
	const fine = 2 * time.Millisecond
	for ctx.Err() == nil {
		d := time.Until(at)
		if d <= 0 {
			return true
		}
		if d <= fine {
			nap(d) // the loop goes on after one that was interrupted
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
