package schedule

import (
	"sync/atomic"
	"time"
)

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

// A Set knows when one of several schedules changes next. The zero value has none. It is safe for concurrent
// use once all are added.
type Set struct {
	all  []Hours
	next atomic.Pointer[change]
}

// A change is the first moment at which a schedule of a set changes, as far as was looked.
type change struct {
	from, at time.Time
	certain  bool // a schedule changes then
}

// lookAhead is how far changes are looked for, and half of it the least that Left looks ahead.
const lookAhead = time.Hour

// Add adds a schedule.
func (s *Set) Add(h Hours) { s.all = append(s.all, h) }

// Left returns how long no schedule changes, as far as it looks; 0 if there are none.
func (s *Set) Left(now time.Time) time.Duration {
	if len(s.all) == 0 {
		return 0
	}
	c := s.next.Load()
	if c == nil || now.Before(c.from) || !now.Before(c.at) || !c.certain && c.at.Sub(now) < lookAhead/2 {
		c = &change{from: now, at: now.Add(lookAhead)}
		for _, h := range s.all {
			if at, found := h.Next(now, c.at.Sub(now)); found {
				c.at, c.certain = at, true
			}
		}
		s.next.Store(c)
	}
	return c.at.Sub(now)
}
