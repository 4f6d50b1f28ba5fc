package importer

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shuultuur/policy"
)

// minutesOfDay are those of a day of 24 hours.
const minutesOfDay = 24 * 60

// A week has the minutes of a week in which something holds, from Sunday on.
// A schedule of ours cannot say "outside of", and a policy has one schedule;
// as minutes, times can be turned around and met with each other.
type week [7][minutesOfDay]bool

// outside is the rest of the week.
func (w *week) outside() *week {
	var rest week
	for d := range w {
		for m := range w[d] {
			rest[d][m] = !w[d][m]
		}
	}
	return &rest
}

// and is what two weeks share. Nil is all of the week.
func (w *week) and(v *week) *week {
	if w == nil {
		return v
	}
	if v == nil {
		return w
	}
	var both week
	for d := range w {
		for m := range w[d] {
			both[d][m] = w[d][m] && v[d][m]
		}
	}
	return &both
}

var fullDays = [7]string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// schedule writes a week as windows, those of days with the same hours as one.
// It is nil for all of the week. ok is false for no minute of it.
func (w *week) schedule() (s policy.Schedule, ok bool) {
	if w == nil {
		return nil, true
	}
	whole := 0
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
			whole++
		}
	}
	if whole == len(fullDays) {
		return nil, true
	}
	for i := range s {
		if s[i].Hours == "00:00-24:00" {
			s[i].Hours = ""
		}
		if strings.Count(s[i].Days, ",") == len(fullDays)-1 {
			s[i].Days = ""
		}
	}
	return s, len(s) > 0
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

var hoursText = regexp.MustCompile(`^(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)[\s,]*`)

// weekly reads "weekly mtwhf 08:00-12:00 13:00-17:00". Days are letters, names
// or *, and without hours all of the day. Why is what cannot be read.
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
		return days, nil, "no day can be read in it"
	}
	rest := strings.Join(words[i:], " ")
	for rest != "" {
		m := hoursText.FindStringSubmatch(rest)
		if m == nil || !isClock(m[1], m[2]) || !isClock(m[3], m[4]) || m[1]+m[2] == m[3]+m[4] {
			return days, nil, fmt.Sprintf("%q are no hours, as in 08:00-12:00", rest)
		}
		from, to := minute(m[1], m[2]), minute(m[3], m[4])
		if m[3]+m[4] == "2359" { // the minute that ends a day is meant
			to = minutesOfDay
		}
		stretches, rest = append(stretches, [2]int{from, to}), rest[len(m[0]):]
	}
	if len(stretches) == 0 {
		stretches = [][2]int{{0, minutesOfDay}}
	}
	return days, stretches, ""
}

// dayLetters are squidGuard's, from Sunday on.
const dayLetters = "smtwhfa"

// isClock says whether h:m is a time of the day, or its end.
func isClock(h, m string) bool {
	hour, err1 := strconv.Atoi(h)
	minute, err2 := strconv.Atoi(m)
	return err1 == nil && err2 == nil && (hour < 24 && minute < 60 || hour == 24 && minute == 0)
}

// minute is that of the day; h and m are digits.
func minute(h, m string) int {
	hours, _ := strconv.Atoi(h)   // digits, by isClock
	minutes, _ := strconv.Atoi(m) // and these
	return hours*60 + minutes
}

// add sets stretches of days. One that ends before it begins goes on into the
// day after.
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

// time reads a time space.
func (q *squid) time(name string, body []statement) {
	for _, s := range body {
		if len(s.words) == 0 {
			continue
		}
		if s.words[0] != "weekly" {
			q.rep.add(Note{Kind: Lost, place: s.place, What: s.what, Why: "schedules come again every week; a date cannot be said: change the settings for such days"})
			continue
		}
		days, stretches, why := weekly(s.words[1:])
		if why != "" {
			q.rep.add(Note{Kind: Lost, place: s.place, What: s.what, Why: why})
			continue
		}
		if q.times[name] == nil {
			q.times[name] = new(week)
		}
		q.times[name].add(days, stretches)
		q.rep.add(Note{Kind: Carried, place: s.place, What: s.what, Ours: "schedule"})
		if slices.ContainsFunc(stretches, func(s [2]int) bool { return s[0] > s[1] }) {
			q.rep.add(Note{Kind: Line, place: s.place, What: s.what, Why: "hours that end before they begin never hold in squidGuard; ours go on into the day after", Mend: "two stretches, to 24:00 and from 00:00"})
		}
	}
}

// within is the week of a time space, or of what is outside of it. Nil is all
// of the week: no time space is named, or nothing is known of it, which the
// report says.
func (q *squid) within(name string, outside bool, at place) *week {
	if name == "" {
		return nil
	}
	w := q.times[name]
	switch {
	case w == nil:
		q.rep.add(Note{Kind: Lost, place: at, What: "time " + name, Why: "nothing is known of it, so it is left out and holds at all times"})
		return nil
	case outside:
		return w.outside()
	}
	return w
}

// timed reads what follows the name of a block: within or outside, and a time.
func (q *squid) timed(s statement) (name string, outside bool) {
	if len(s.words) < 3 {
		return "", false
	}
	if len(s.words) == 4 && (s.words[2] == "within" || s.words[2] == "outside") {
		return s.words[3], s.words[2] == "outside"
	}
	q.rep.add(Note{Kind: Lost, place: s.place, What: strings.Join(s.words[2:], " "), Why: "only within or outside and the name of a time can stand there"})
	return "", false
}
