package squidguard

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// minutesOfDay is the number of minutes in a day.
const minutesOfDay = 24 * 60

// A week has the minutes of a week in which something applies, from Sunday on. As minutes,
// times can be inverted and intersected; our schedules cannot express "outside of", and a
// policy has only one schedule.
type week [7][minutesOfDay]bool

// A calendar has a week, and other weeks that replace it on some dates. Nil means always.
type calendar struct {
	week
	special []special
}

// A special is the week that applies on some dates, in the syntax of windows.
type special struct {
	dates string
	week
}

// mapWeeks builds a calendar by applying f to each week.
func (c *calendar) mapWeeks(f func(w *week) week) *calendar {
	to := &calendar{week: f(&c.week)}
	for _, s := range c.special {
		to.special = append(to.special, special{s.dates, f(&s.week)})
	}
	return to
}

// outside returns the complement.
func (c *calendar) outside() *calendar {
	return c.mapWeeks(func(w *week) (rest week) {
		for d := range w {
			for m := range w[d] {
				rest[d][m] = !w[d][m]
			}
		}
		return rest
	})
}

// weekOn returns the week that applies on dates in the given syntax.
func (c *calendar) weekOn(dates string) *week {
	for i := range c.special {
		if c.special[i].dates == dates {
			return &c.special[i].week
		}
	}
	return &c.week
}

// and returns the intersection of two calendars. It takes the dates of the two for different
// days unless their texts are equal.
func (c *calendar) and(v *calendar) *calendar {
	if c == nil {
		return v
	}
	if v == nil {
		return c
	}
	meet := func(a, b *week) (both week) {
		for d := range a {
			for m := range a[d] {
				both[d][m] = a[d][m] && b[d][m]
			}
		}
		return both
	}
	both := c.mapWeeks(func(w *week) week { return meet(w, &v.week) })
	for i := range both.special {
		both.special[i].week = meet(&c.special[i].week, v.weekOn(c.special[i].dates))
	}
	for i := range v.special {
		if s := &v.special[i]; c.weekOn(s.dates) == &c.week {
			both.special = append(both.special, special{s.dates, meet(&c.week, &s.week)})
		}
	}
	return both
}

var fullDays = [7]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// schedule converts a calendar to windows, joining days with the same hours.
// The result is nil for always. ok is false if the calendar is empty.
func (c *calendar) schedule() (s policy.Schedule, ok bool) {
	if c == nil {
		return nil, true
	}
	var dates []string
	for i := range c.special {
		dates = append(dates, c.special[i].dates)
		windows, _ := c.special[i].windows()
		for _, w := range windows {
			w.Dates = c.special[i].dates
			s = append(s, w)
		}
	}
	windows, whole := c.windows()
	if whole && len(dates) == 0 {
		return nil, true
	}
	for _, w := range windows {
		if len(dates) > 0 {
			w.Dates = "not " + strings.Join(dates, ",")
		}
		s = append(s, w)
	}
	return s, len(s) > 0
}

// windows converts a week. whole reports that it has all minutes.
func (w *week) windows() (s policy.Schedule, whole bool) {
	full := 0
	for d, day := range fullDays {
		hours := hoursOf(&w[d])
		switch at := slices.IndexFunc(s, func(x policy.Window) bool { return x.Hours == hours }); {
		case hours == "":
		case at < 0:
			s = append(s, policy.Window{Days: day[:3], Hours: hours})
		default:
			s[at].Days += "," + day[:3]
		}
		if hours == "00:00-24:00" {
			full++
		}
	}
	for i := range s {
		if s[i].Hours == "00:00-24:00" {
			s[i].Hours = ""
		}
		if strings.Count(s[i].Days, ",") == len(fullDays)-1 {
			s[i].Days = ""
		}
	}
	return s, full == len(fullDays)
}

// hoursOf writes the minutes of a day as "08:00-12:00,13:00-24:00".
func hoursOf(day *[minutesOfDay]bool) string {
	var all []string
	for from := 0; from < minutesOfDay; from++ {
		if !day[from] {
			continue
		}
		to := from
		for to < minutesOfDay && day[to] {
			to++
		}
		all = append(all, fmt.Sprintf("%02d:%02d-%02d:%02d", from/60, from%60, to/60, to%60))
		from = to
	}
	return strings.Join(all, ",")
}

// weekly reads "weekly mtwhf 08:00-12:00 13:00-17:00". Days are letters, names or *. Without
// hours, it means the whole day. why names the invalid part.
func weekly(words []string) (days [7]bool, stretches [][2]int, why string) {
	i := slices.IndexFunc(words, func(s string) bool { return s[0] >= '0' && s[0] <= '9' })
	if i < 0 {
		i = len(words)
	}
	for _, word := range strings.FieldsFunc(strings.ToLower(strings.Join(words[:i], " ")), func(r rune) bool { return r == ' ' || r == ',' }) {
		letters, known := strings.Trim(word, dayLetters) == "", word == "*"
		for d, name := range fullDays {
			if word == "*" || word == name || word == name+"s" || letters && strings.IndexByte(word, dayLetters[d]) >= 0 {
				days[d], known = true, true
			}
		}
		if !known {
			return days, nil, fmt.Sprintf("%q is no day: days are the letters smtwhfa, full names or *", word)
		}
	}
	if days == [7]bool{} {
		return days, nil, "it contains no valid day"
	}
	stretches, why = hoursIn(strings.Join(words[i:], " "))
	return days, stretches, why
}

// everyDay are all days of the week.
var everyDay = [7]bool{true, true, true, true, true, true, true}

var dateText = regexp.MustCompile(`^(\d{4}|\*)[.-](\d\d|\*)[.-](\d\d|\*)(?:\s*-\s*(\d{4}|\*)[.-](\d\d|\*)[.-](\d\d|\*))?(?:\s+|$)`)

// parseDates reads "1999.12.31", "*-12-24 08:00-12:00" or "2026.06.01-2026.08.31". why names the
// part that cannot be read.
func parseDates(words []string) (dates string, stretches [][2]int, why string) {
	text := strings.Join(words, " ")
	m := dateText.FindStringSubmatch(text)
	if m == nil {
		return "", nil, fmt.Sprintf("%q does not begin with a date, as in 2026-12-24, *-12-24 or 2026-06-01-2026-08-31", text)
	}
	if dates = strings.Join(m[1:4], "-"); m[4] != "" {
		dates += ".." + strings.Join(m[4:7], "-")
	}
	if _, err := (policy.Schedule{{Dates: dates}}).Week(); err != nil {
		return "", nil, err.Error()
	}
	stretches, why = hoursIn(text[len(m[0]):])
	return dates, stretches, why
}

// hoursIn reads parts of a day; none means the whole day.
func hoursIn(rest string) (stretches [][2]int, why string) {
	for rest != "" {
		m := input.Hours.FindStringSubmatch(rest)
		if m == nil || !input.IsClock(m[1], m[2]) || !input.IsClock(m[3], m[4]) || m[1]+m[2] == m[3]+m[4] {
			return nil, fmt.Sprintf("%q are no hours, as in 08:00-12:00", rest)
		}
		from, to := input.Minute(m[1], m[2]), input.Minute(m[3], m[4])
		if m[3]+m[4] == "2359" { // the last minute of the day is included
			to = minutesOfDay
		}
		stretches, rest = append(stretches, [2]int{from, to}), rest[len(m[0]):]
	}
	if len(stretches) == 0 {
		stretches = [][2]int{{0, minutesOfDay}}
	}
	return stretches, ""
}

// dayLetters are squidGuard's, from Sunday on.
const dayLetters = "smtwhfa"

// add adds parts of days. If one ends before it begins, it continues on the
// next day.
func (w *week) add(days [7]bool, stretches [][2]int) {
	for d, on := range days {
		for _, s := range stretches {
			end := s[1]
			if end < s[0] {
				end += minutesOfDay
			}
			for m := s[0]; on && m < end; m++ {
				w[(d+m/minutesOfDay)%7][m%minutesOfDay] = true
			}
		}
	}
}

// time reads a time space. Its dates apply in addition to its weeks.
func (q *config) time(name string, body []statement) {
	var c calendar
	type dating struct {
		dates     string
		stretches [][2]int
	}
	var datings []dating
	read := false
	for _, s := range body {
		if len(s.words) == 0 {
			continue
		}
		var days [7]bool
		var dates, why string
		var stretches [][2]int
		switch s.words[0] {
		case "weekly":
			days, stretches, why = weekly(s.words[1:])
		case "date":
			dates, stretches, why = parseDates(s.words[1:])
		default:
			why = "a time has lines of weekly and of date"
		}
		switch {
		case why != "":
			q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: s.Text, Why: why})
			continue
		case dates != "":
			datings = append(datings, dating{dates, stretches})
		default:
			c.add(days, stretches)
		}
		read = true
		q.w.Report.Add(&report.Note{Kind: report.Carried, Place: s.Place, What: s.Text, Ours: "schedule"})
		if slices.ContainsFunc(stretches, func(s [2]int) bool { return s[0] > s[1] }) {
			q.w.Report.Add(&report.Note{Kind: report.Line, Place: s.Place, What: s.Text, Why: "hours that end before they begin never apply in squidGuard; here they continue into the next day", Mend: "two stretches, to 24:00 and from 00:00"})
		}
	}
	for _, d := range datings {
		on := c.weekOn(d.dates)
		if on == &c.week {
			c.special = append(c.special, special{d.dates, c.week})
			on = &c.special[len(c.special)-1].week
		}
		on.add(everyDay, d.stretches)
	}
	if read {
		q.times[name] = &c
	}
}

// within returns the calendar of a time space, or of its complement. It returns nil, for
// always, if no time space is named. It does so, too, for an unknown one, which it reports.
func (q *config) within(name string, outside bool, at report.Place) *calendar {
	if name == "" {
		return nil
	}
	w := q.times[name]
	switch {
	case w == nil:
		q.w.Report.Add(&report.Note{Kind: report.Lost, Place: at, What: "time " + name, Why: "it is unknown, so it is left out and applies at all times"})
		return nil
	case outside:
		return w.outside()
	}
	return w
}

// parseTimed reads the text after the name of a block: within or outside, and a time space.
func (q *config) parseTimed(s statement) (name string, outside bool) {
	if len(s.words) < 3 {
		return "", false
	}
	if len(s.words) == 4 && (s.words[2] == "within" || s.words[2] == "outside") {
		return s.words[3], s.words[2] == "outside"
	}
	q.w.Report.Add(&report.Note{Kind: report.Lost, Place: s.Place, What: strings.Join(s.words[2:], " "), Why: "write only within or outside and the name of a time there"})
	return "", false
}
