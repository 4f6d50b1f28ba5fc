package wait

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestEndWaitsForAllGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		g.End(time.Second) // none runs
		quick, stubborn := false, false
		g.Go(func(context.Context) { time.Sleep(time.Second); quick = true })
		g.Go(func(ctx context.Context) { <-ctx.Done(); stubborn = true })
		start := time.Now()
		g.End(time.Minute)
		if took := time.Since(start); took != time.Minute || !quick || !stubborn {
			t.Errorf("ended after %v: %v, %v", took, quick, stubborn)
		}
		g.Go(func(ctx context.Context) { // as after the first one
			if ctx.Err() != nil {
				t.Error("a new goroutine began with a context that had ended")
			}
		})
		g.End(time.Minute)
	})
}
