package phrase

import (
	"fmt"
	"strings"
	"time"
)

// A window is the time in which the lines below a "#time:" apply. The zero window means
// always.
type window struct {
	gated    bool
	from, to uint16 // minutes since midnight, both inclusive; from > to wraps past midnight
	days     uint8  // bit 0 is Monday
}

// parseWindow parses "sh sm eh em days"; days are digits from 0 for Monday.
func parseWindow(s string) (window, error) {
	want := fmt.Errorf("time %q: want start hour, start minute, end hour, end minute and days as digits from 0 for Monday, such as #time: 9 0 17 30 01234", strings.TrimSpace(s))
	f := strings.Fields(s)
	if len(f) != 5 {
		return window{}, want
	}
	var n [4]uint16
	for i, max := range [4]uint16{24, 59, 24, 59} {
		for _, c := range []byte(f[i]) {
			if c < '0' || c > '9' || len(f[i]) > 2 {
				return window{}, want
			}
			n[i] = n[i]*10 + uint16(c-'0')
		}
		if n[i] > max {
			return window{}, want
		}
	}
	w := window{gated: true, from: n[0]*60 + n[1], to: n[2]*60 + n[3]}
	for _, c := range []byte(f[4]) {
		if c < '0' || c > '6' {
			return window{}, want
		}
		w.days |= 1 << (c - '0')
	}
	return w, nil
}

// holds reports whether t is in the window. A window past midnight belongs to the day on which
// it begins.
func (w window) holds(t time.Time) bool {
	if !w.gated {
		return true
	}
	day := (int(t.Weekday()) + 6) % 7
	now := uint16(t.Hour()*60 + t.Minute())
	on := func(day int) bool { return w.days>>(day%7)&1 != 0 }
	if w.from <= w.to {
		return on(day) && w.from <= now && now <= w.to
	}
	return on(day) && now >= w.from || on(day+6) && now <= w.to
}
