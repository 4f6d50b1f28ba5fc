package phrase

import (
	"testing"
	"time"
)

func TestWindowHolds(t *testing.T) {
	// 2026-01-05 is a Monday.
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 1, 5+day, hour, minute, 59, 0, time.UTC) }
	for _, c := range []struct {
		window string
		when   time.Time
		want   bool
	}{
		{"9 0 17 30 01234", at(0, 9, 0), true},
		{"9 0 17 30 01234", at(0, 8, 59), false},
		{"9 0 17 30 01234", at(4, 17, 30), true},
		{"9 0 17 30 01234", at(4, 17, 31), false},
		{"9 0 17 30 01234", at(5, 12, 0), false},
		{"0 0 23 59 6", at(6, 23, 59), true},
		{"0 0 23 59 6", at(7, 0, 0), false},
		{"0 0 0 0 0", at(0, 0, 0), true},
		{"22 0 6 0 4", at(4, 23, 0), true}, // Friday night …
		{"22 0 6 0 4", at(5, 5, 59), true}, // … to Saturday morning
		{"22 0 6 0 4", at(5, 22, 0), false},
		{"22 0 6 0 4", at(4, 5, 0), false},
		{"22 0 6 0 6", at(7, 1, 0), true},
	} {
		w, err := parseWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.holds(c.when); got != c.want {
			t.Errorf("%q holds at %v: %v, want %v", c.window, c.when.Format("Mon 15:04"), got, c.want)
		}
	}
	if !(window{}).holds(at(0, 0, 0)) {
		t.Error("the zero window does not hold")
	}
}

func TestParseWindowRefuses(t *testing.T) {
	for _, s := range []string{"", "1 2 3 4", "1 2 3 4 7", "25 0 1 0 0", "1 60 2 0 0", "1 2 3 4 0 5", "-1 0 2 0 0", "100 0 2 0 0"} {
		if w, err := parseWindow(s); err == nil {
			t.Errorf("parseWindow(%q) returned %+v, want an error", s, w)
		}
	}
}
