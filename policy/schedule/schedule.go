// Package schedule says when something applies: on days of the week, on dates, at hours.
//
// A [Schedule] is read from the settings, [Schedule.Compile] makes [Hours] of it, and
// [Hours.Open] compares a time with them. [Schedule.Week] is the same for people to look at.
package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/setting"
	"shuultuur/policy/timezone"
)

// A Schedule is a list of time windows. It is open when one of them is, or when it is empty.
type Schedule []Window

// UnmarshalYAML reads one window, a list of them, or the old form as a string.
func (s *Schedule) UnmarshalYAML(read func(any) error) error {
	var old string
	if read(&old) == nil {
		*s = Schedule{{Old: old}}
		return nil
	}
	var list []any
	if read(&list) == nil {
		var ws []Window
		err := read(&ws)
		*s = ws
		return err
	}
	var w Window
	err := read(&w)
	*s = Schedule{w}
	return err
}

// A Window recurs every week, or on some dates. It uses local time in its zone, including
// daylight saving time. Hours that wrap past midnight belong to the day on which they start.
type Window struct {
	Days  string `yaml:"days"`  // "mon-fri", "sat,sun"; default: every day
	Hours string `yaml:"hours"` // "08:00-12:00,13:00-17:30", ends excluded; default: all day
	Dates string `yaml:"dates"` // "2026-12-21..2027-01-06,*-05-01", or "not " and those; default: every date
	Zone  string `yaml:"zone"`  // "Europe/Berlin"; default: the machine's zone
	// Old is the form of DansGuardian's lists, five numbers: start hour, start minute, end hour,
	// end minute, days (0 is Monday). It includes the end minute.
	Old string `yaml:"-"`
}

// UnmarshalYAML reads a mapping, or the old form as a string.
func (w *Window) UnmarshalYAML(read func(any) error) error {
	var old string
	if read(&old) == nil {
		w.Old = old
		return nil
	}
	type plain Window
	return read((*plain)(w))
}

// MarshalYAML writes a window in the form of the settings.
func (w Window) MarshalYAML() (any, error) {
	if w.Old != "" {
		return w.Old, nil
	}
	type plain Window
	return plain(w), nil
}

// Parse compiles a schedule. bad is the index of the faulty window.
func (s Schedule) Parse() (hs Hours, bad int, err error) {
	for i, w := range s {
		h, err := w.compile()
		if err != nil {
			return nil, i, err
		}
		hs = append(hs, h...)
	}
	return hs, 0, nil
}

func (w Window) compile() ([]hours, error) {
	if w.Old != "" {
		h, err := parseOld(w.Old)
		return []hours{h}, err
	}
	days, err := parseDays(w.Days)
	if err != nil {
		return nil, err
	}
	dates, err := parseDates(w.Dates)
	if err != nil {
		return nil, err
	}
	zone := time.Local
	if w.Zone != "" {
		if zone, err = timezone.Load(w.Zone); err != nil {
			return nil, fmt.Errorf(`zone %q is not known; write it like "Europe/Berlin"`, w.Zone)
		}
	}
	if w.Hours == "" {
		return []hours{{days, dates, 0, 24 * 60, zone}}, nil
	}
	var hs []hours
	for part := range strings.SplitSeq(w.Hours, ",") {
		from, to, ok := strings.Cut(strings.TrimSpace(part), "-")
		start, err1 := ParseClock(from)
		end, err2 := ParseClock(to)
		if !ok || err1 != nil || err2 != nil || start == 24*60 {
			return nil, fmt.Errorf(`hours %q cannot be read; write them like "21:00-06:00"`, part)
		}
		hs = append(hs, hours{days, dates, start, end, zone})
	}
	return hs, nil
}

// ParseClock reads "6:30" as minutes of the day; "24:00" is the end of the day.
func ParseClock(s string) (int, error) {
	hs, ms, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok || len(hs) > 2 || len(ms) != 2 {
		return 0, strconv.ErrSyntax
	}
	h, err := strconv.ParseUint(hs, 10, 8)
	if err != nil {
		return 0, err
	}
	m, err := strconv.ParseUint(ms, 10, 8)
	if err != nil {
		return 0, err
	}
	if h > 24 || m > 59 || h == 24 && m > 0 {
		return 0, strconv.ErrRange
	}
	return int(h*60 + m), nil
}

const everyDay = 1<<7 - 1

// parseDays reads "mon-fri,sun" as a set of weekdays.
func parseDays(s string) (uint8, error) {
	if strings.TrimSpace(s) == "" {
		return everyDay, nil
	}
	var set uint8
	for part := range strings.SplitSeq(strings.ToLower(s), ",") {
		from, to, span := strings.Cut(strings.TrimSpace(part), "-")
		a, ok1 := ParseDay(from)
		b, ok2 := a, ok1
		if span {
			b, ok2 = ParseDay(to)
		}
		if !ok1 || !ok2 {
			return 0, fmt.Errorf(`days %q cannot be read; write them like "mon-fri" or "sat,sun"`, part)
		}
		for set |= 1 << a; a != b; set |= 1 << a {
			a = (a + 1) % 7
		}
	}
	return set, nil
}

// ParseDay reads the English name of a day, in full or its first three letters.
func ParseDay(s string) (time.Weekday, bool) {
	s = strings.TrimSpace(s)
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := strings.ToLower(d.String()); s == name || s == name[:3] {
			return d, true
		}
	}
	return 0, false
}

// parseOld reads "sh sm eh em days". Unlike in the original programs, it may wrap past
// midnight.
func parseOld(s string) (hours, error) {
	bad := fmt.Errorf(`schedule %q cannot be read; write {days: mon-fri, hours: "09:00-17:00"}, or five numbers like "9 0 17 0 01234"`, s)
	f := strings.Fields(s)
	if len(f) != 5 || len(f[4]) > 7 {
		return hours{}, bad
	}
	var n [4]int
	for i, limit := range [4]uint64{23, 59, 23, 59} {
		v, err := strconv.ParseUint(f[i], 10, 8)
		if err != nil || v > limit {
			return hours{}, bad
		}
		n[i] = int(v)
	}
	h := hours{start: n[0]*60 + n[1], end: n[2]*60 + n[3] + 1, zone: time.Local}
	for _, c := range f[4] {
		if c < '0' || c > '6' {
			return hours{}, bad
		}
		h.days |= 1 << ((c - '0' + 1) % 7)
	}
	return h, nil
}

// hours is one period of a window.
type hours struct {
	days       uint8 // bit 0 is Sunday, as in time.Weekday
	dates      *dates
	start, end int // minutes of the day; end <= start wraps past midnight
	zone       *time.Location
}

func (h *hours) open(now time.Time) bool {
	now = now.In(h.zone)
	hour, minute, _ := now.Clock()
	at := hour*60 + minute
	if h.start < h.end {
		return h.start <= at && at < h.end && h.beginsOn(now)
	}
	y, m, d := now.Date()
	return at >= h.start && h.beginsOn(now) || at < h.end && h.beginsOn(time.Date(y, m, d-1, 12, 0, 0, 0, time.UTC)) // at noon, which no zone skips
}

// beginsOn reports whether the period begins on the day of t.
func (h *hours) beginsOn(t time.Time) bool { return h.days>>t.Weekday()&1 != 0 && h.dates.has(t) }

// Hours are the compiled windows of a schedule.
type Hours []hours

// Compile reads a schedule.
func (s Schedule) Compile() (Hours, error) {
	hs, bad, err := s.Parse()
	if err != nil {
		return nil, setting.At(fmt.Sprintf("[%d]", bad), err)
	}
	return hs, nil
}

// Open reports whether now is in one of the windows. Without windows it is never
// open.
func (h Hours) Open(now time.Time) bool {
	for i := range h {
		if h[i].open(now) {
			return true
		}
	}
	return false
}
