package filter

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for in, want := range map[string]time.Duration{"90d": 90 * 24 * time.Hour, "36h": 36 * time.Hour, "30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0": 0, "0s": 0} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err != nil || time.Duration(d) != want {
			t.Errorf("%q is %v, %v; want %v", in, time.Duration(d), err, want)
		}
	}
	for _, in := range []string{"", "d", "1", "-1d", "1dd", "1.5d", "99999999999999999999d", "x", "1d-1h", "99999999999h", "1h1d"} {
		var d Duration
		if err := d.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q was read as %v", in, time.Duration(d))
		}
	}
}
