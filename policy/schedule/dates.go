package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// dates are the days of the calendar on which a window is open, or is not.
type dates struct {
	not  bool
	days []span
}

// A span is a range of days, both ends included. A part that is 0 matches any: then both ends
// are the same day, or have no year.
type span struct{ from, to date }

type date struct{ year, month, day int }

// parseDates reads "2026-12-21..2027-01-06,*-05-01", with or without "not " in front. It
// returns nil for "".
func parseDates(s string) (*dates, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	d := &dates{}
	s, d.not = strings.CutPrefix(s, "not ")
	for part := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "..")
		a, ok1 := parseDate(from)
		b, ok2 := a, ok1
		if ranged {
			b, ok2 = parseDate(to)
			ok2 = ok2 && a.month > 0 && a.day > 0 && b.month > 0 && b.day > 0 && (a.year == 0) == (b.year == 0) && (a.year == 0 || a.number() <= b.number())
		}
		if !ok1 || !ok2 {
			return nil, fmt.Errorf(`dates %q cannot be read; write them like "2026-12-21..2027-01-06", "2026-05-01" or, for every year, "*-05-01"; "not " before all of them means the other days`, part)
		}
		d.days = append(d.days, span{a, b})
	}
	return d, nil
}

func parseDate(s string) (d date, ok bool) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return d, false
	}
	for i, to := range []*int{&d.year, &d.month, &d.day} {
		if parts[i] == "*" {
			continue
		}
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if *to = int(n); err != nil || n == 0 || len(parts[i]) != [...]int{4, 2, 2}[i] {
			return d, false
		}
	}
	// 2028 has a 29th of February.
	sample := date{d.year, max(d.month, 1), max(d.day, 1)}
	if sample.year == 0 {
		sample.year = 2028
	}
	y, m, day := time.Date(sample.year, time.Month(sample.month), sample.day, 0, 0, 0, 0, time.UTC).Date()
	return d, date{y, int(m), day} == sample
}

// number orders dates.
func (d date) number() int { return d.year*10000 + d.month*100 + d.day }

// has reports whether t is on one of the days; nil means every day.
func (d *dates) has(t time.Time) bool {
	if d == nil {
		return true
	}
	y, m, day := t.Date()
	on := date{y, int(m), day}
	for _, s := range d.days {
		if s.has(on) {
			return !d.not
		}
	}
	return d.not
}

func (s span) has(on date) bool {
	if s.from == s.to {
		same := func(part, of int) bool { return part == 0 || part == of }
		return same(s.from.year, on.year) && same(s.from.month, on.month) && same(s.from.day, on.day)
	}
	if s.from.year == 0 {
		on.year = 0
	}
	after, before := s.from.number() <= on.number(), on.number() <= s.to.number()
	if s.from.number() > s.to.number() { // the span crosses the end of a year
		return after || before
	}
	return after && before
}
