package clock

import (
	"testing"
	"time"
)

// TestAMomentTooFarAheadDoesNotCount: for each step of the clock, for a while and for good.
func TestAMomentTooFarAheadDoesNotCount(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	until := now.Add(time.Hour)
	for _, tt := range []struct {
		step time.Duration // of the clock after the moment was stored
		want bool
	}{
		{0, true}, {59 * time.Minute, true}, {time.Hour, false}, {2 * time.Hour, false}, {24 * time.Hour, false}, {365 * 24 * time.Hour, false},
		{-Tolerance, true}, {-time.Hour, true}, {-23 * time.Hour, true}, {-23*time.Hour - Tolerance, true}, {-23*time.Hour - Tolerance - 1, false},
		{-48 * time.Hour, false}, {-365 * 24 * time.Hour, false}, {time.Unix(0, 0).Sub(now), false},
	} {
		if got := InForce(until, now.Add(tt.step), 24*time.Hour); got != tt.want {
			t.Errorf("after a step of %v a moment an hour ahead counts: %v, want %v", tt.step, got, tt.want)
		}
		if !InForce(until, now, 24*time.Hour) {
			t.Error("after the clock came back it does not count")
		}
	}
}
