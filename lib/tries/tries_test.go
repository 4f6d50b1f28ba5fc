package tries

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNoMoreAreTestedAtOnceThanOneAfterTheOther: many simultaneous wrong guesses are tested as
// often as the limit says, and a right one among those that began in time counts.
func TestNoMoreAreTestedAtOnceThanOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limit[string]{Most: 10, Within: time.Minute, Remember: 100}
		var tested, refused atomic.Int64
		var all sync.WaitGroup
		for range 80 {
			all.Go(func() {
				try, err := l.Begin(t.Context(), "anna")
				if errors.Is(err, ErrTooMany) {
					refused.Add(1)
					return
				}
				tested.Add(1)
				time.Sleep(time.Second)
				try.End(true)
			})
		}
		if _, err := l.Begin(t.Context(), "bert"); err != nil {
			t.Errorf("another one: %v", err)
		}
		all.Wait()
		if tested.Load() != 10 || refused.Load() != 70 || l.Left("anna") != time.Minute {
			t.Errorf("%d guesses were tested and %d refused, barred for %v; want 10, 70, 1m", tested.Load(), refused.Load(), l.Left("anna"))
		}
		time.Sleep(time.Minute)
		if _, err := l.Begin(t.Context(), "anna"); err != nil || l.Left("anna") != 0 {
			t.Errorf("after the time: %v", err)
		}
	})
}

// TestRightOnesAreNotCounted: any number of right guesses is tested, however many at once.
func TestRightOnesAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Limit[int]{Most: 3, Within: time.Minute, Remember: 100}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				try, err := l.Begin(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				try.End(false)
			})
		}
		all.Wait()
		if n := l.Len(); n != 0 {
			t.Errorf("%d are remembered, want none", n)
		}
		for range 2 {
			l.Add(1)
		}
		l.Forget(1)
		l.Add(1)
		if l.Left(1) != 0 {
			t.Error("barred for guesses that were forgotten")
		}
		first, _ := l.Begin(t.Context(), 1)
		second, _ := l.Begin(t.Context(), 1)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := l.Begin(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		first.End(false)
		second.End(true)
	})
}

func TestFewAreRemembered(t *testing.T) {
	l := Limit[int]{Most: 3, Within: time.Minute, Remember: 50}
	testing, _ := l.Begin(t.Context(), -1)
	for i := range 500 {
		l.Add(i)
	}
	if n := l.Len(); n > 50 {
		t.Errorf("%d are remembered, want at most 50", n)
	}
	for range 3 {
		l.Add(-1)
	}
	testing.End(true)
	if l.Left(-1) == 0 {
		t.Error("a try in progress was forgotten")
	}
}
