package schedule

import "time"

// Next returns the first moment after now, within a time, at which the windows open or close, and false if
// they do neither. Windows change at the turn of a minute.
func (h Hours) Next(now time.Time, within time.Duration) (time.Time, bool) {
	is := h.Open(now)
	for at := now.Truncate(time.Minute).Add(time.Minute); !at.After(now.Add(within)); at = at.Add(time.Minute) {
		if h.Open(at) != is {
			return at, true
		}
	}
	return time.Time{}, false
}
