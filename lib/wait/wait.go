// Package wait lets a goroutine wait, but no longer than its context, and says how long servers ask us to.
package wait

import (
	"context"
	"time"
)

// For waits for d, or returns the error of ctx when that ends before.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
