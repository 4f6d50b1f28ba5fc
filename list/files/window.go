package files

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A Window is the time in which a list applies: from begin to end, both in minutes of the day
// and inclusive, on the days in the set, with Monday as bit 0. A window whose end is before
// its beginning continues past midnight.
type Window struct {
	Begin, End uint16
	Days       uint8
}

// Open reports whether at is in w, in at's location.
func (w Window) Open(at time.Time) bool {
	day := (int(at.Weekday()) + 6) % 7
	now := uint16(at.Hour()*60 + at.Minute())
	if w.Begin <= w.End {
		return w.Begin <= now && now <= w.End && w.Days>>day&1 == 1
	}
	if now >= w.Begin {
		return w.Days>>day&1 == 1
	}
	return now <= w.End && w.Days>>((day+6)%7)&1 == 1 // since yesterday
}

// Append appends the window as numbers.
func (w Window) Append(t []byte) []byte {
	t = binary.AppendUvarint(t, uint64(w.Begin))
	t = binary.AppendUvarint(t, uint64(w.End))
	return binary.AppendUvarint(t, uint64(w.Days))
}

// parseWindow reads "sh sm eh em days", days being digits with 0 for Monday.
func parseWindow(s string) (w Window, ok bool) {
	var sh, sm, eh, em uint16
	var days string
	if n, err := fmt.Sscanf(s, "%d %d %d %d %s", &sh, &sm, &eh, &em, &days); n != 5 || err != nil {
		return w, false
	}
	if sh > 24 || eh > 24 || sm > 59 || em > 59 || len(days) > 7 {
		return w, false
	}
	for _, d := range days {
		if d < '0' || d > '6' {
			return w, false
		}
		w.Days |= 1 << (d - '0')
	}
	w.Begin, w.End = sh*60+sm, eh*60+em
	return w, w.Begin <= 1440 && w.End <= 1440
}
