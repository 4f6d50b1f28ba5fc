package settings

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"shuultuur/lib/setting"
	"shuultuur/policy/schedule"
)

// A timeRow is a time of the week in a form: some days, from a minute of the day to another. A time that
// ends before it begins ends on the next day.
type timeRow struct {
	Days     [7]bool // from Monday on
	From, To int
	// Dates and Zone are kept as the settings have them: dates on which the time holds, or "not "
	// and dates on which it does not.
	Dates, Zone string
}

// Clock returns the beginning and the end for fields of a form, which know no 24:00; both are empty
// for the whole day.
func (t timeRow) Clock() [2]string {
	if t.From == 0 && t.To == wholeDay {
		return [2]string{}
	}
	return [2]string{clock(t.From), clock(t.To % wholeDay)}
}

func clock(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }

const wholeDay = 24 * 60

// maxTimes bounds the rows of a form.
const maxTimes = 100

// timeRowsOf returns the rows of a schedule.
func timeRowsOf(s schedule.Schedule) (all []timeRow, err error) {
	for _, w := range s {
		periods, err := w.Periods()
		if err != nil {
			return nil, err
		}
		for _, p := range periods {
			if p.To == 0 {
				p.To = wholeDay
			}
			all = append(all, timeRow{Days: p.Days, From: p.From, To: p.To, Dates: strings.TrimSpace(w.Dates), Zone: w.Zone})
		}
	}
	return all, nil
}

// timeRowsIn reads the rows of a form: days.N, from.N, until.N, dates.N and zone.N. A row without a
// day and a time is an empty one of the page.
func timeRowsIn(f url.Values) (all []timeRow, err error) {
	for i := range maxTimes {
		n := "." + strconv.Itoa(i)
		t := timeRow{To: wholeDay, Dates: strings.TrimSpace(f.Get("dates" + n)), Zone: f.Get("zone" + n)}
		days, from, until := f["days"+n], f.Get("from"+n), f.Get("until"+n)
		if len(days) == 0 && from == "" && until == "" && t.Dates == "" {
			continue
		}
		for _, d := range days {
			i, err := strconv.Atoi(d)
			if err != nil || i < 0 || i > 6 {
				return nil, fmt.Errorf("%q is not a time; write it like 08:00", d)
			}
			t.Days[i] = true
		}
		if len(days) == 0 {
			t.Days = [7]bool{true, true, true, true, true, true, true}
		}
		if from != "" {
			if t.From, err = schedule.ParseClock(from); err != nil || t.From == wholeDay {
				return nil, fmt.Errorf("%q is not a time; write it like 08:00", from)
			}
		}
		if until != "" {
			if t.To, err = schedule.ParseClock(until); err != nil {
				return nil, fmt.Errorf("%q is not a time; write it like 08:00", until)
			}
		}
		if t.To == 0 {
			t.To = wholeDay
		}
		all = append(all, t)
	}
	return all, nil
}

// sameTimes reports whether rows mean the same in the same order.
func sameTimes(a, b []timeRow) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

// scheduleOf returns the fewest windows for rows: times of the same days are one window, or days of the
// same time, whichever needs fewer. Rows with other dates or in another zone are never mixed.
func scheduleOf(rows []timeRow) (schedule.Schedule, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	byDays := merge(rows, func(t timeRow) string { return fmt.Sprint(t.Days) })
	byTime := merge(slices.Collect(joined(rows)), func(t timeRow) string { return fmt.Sprint(t.Days) })
	s := byDays
	if len(byTime) < len(byDays) {
		s = byTime
	}
	if _, bad, err := s.Parse(); err != nil {
		return nil, fmt.Errorf("time %d: %w", bad+1, err)
	}
	return s, nil
}

// scheduleText writes windows in one line, so that a comment behind them stays there.
func scheduleText(s schedule.Schedule) setting.Snippet {
	var all []string
	for _, w := range s {
		var keys []string
		for _, k := range [][2]string{{"days", w.Days}, {"hours", w.Hours}, {"dates", w.Dates}, {"zone", w.Zone}} {
			if k[1] != "" {
				keys = append(keys, fmt.Sprintf("%s: %q", k[0], k[1]))
			}
		}
		all = append(all, "{"+strings.Join(keys, ", ")+"}")
	}
	if len(all) == 1 {
		return setting.Snippet(all[0])
	}
	return setting.Snippet("[" + strings.Join(all, ", ") + "]")
}

// joined returns rows in which those of one time are one, with all their days.
func joined(rows []timeRow) func(yield func(timeRow) bool) {
	var all []timeRow
	for _, t := range rows {
		i := slices.IndexFunc(all, func(x timeRow) bool {
			return x.From == t.From && x.To == t.To && x.Dates == t.Dates && x.Zone == t.Zone
		})
		if i < 0 {
			all = append(all, t)
			continue
		}
		for d := range t.Days {
			all[i].Days[d] = all[i].Days[d] || t.Days[d]
		}
	}
	return slices.Values(all)
}

// merge makes windows, one for all rows with the same key, dates and zone.
func merge(rows []timeRow, key func(timeRow) string) (s schedule.Schedule) {
	at := map[string]int{}
	spans := map[int][]schedule.Stretch{}
	for _, t := range rows {
		k := strings.Join([]string{key(t), t.Dates, t.Zone}, "\n")
		i, known := at[k]
		if !known {
			i = len(s)
			at[k] = i
			s = append(s, schedule.Window{Days: daysText(t.Days), Dates: t.Dates, Zone: t.Zone})
		}
		spans[i] = append(spans[i], schedule.Stretch{From: t.From, To: t.To})
	}
	for i := range s {
		s[i].Hours = hoursText(spans[i])
	}
	return s
}

// hoursText writes times of a day, of which those that touch are one; "" for the whole day.
func hoursText(all []schedule.Stretch) string {
	slices.SortStableFunc(all, func(a, b schedule.Stretch) int { return cmp.Compare(a.From, b.From) })
	var merged []schedule.Stretch
	for _, t := range all {
		if last := len(merged) - 1; last >= 0 && merged[last].To > merged[last].From && t.From <= merged[last].To {
			if t.To < t.From || t.To > merged[last].To {
				merged[last].To = t.To
			}
			continue
		}
		merged = append(merged, t)
	}
	var texts []string
	for _, t := range merged {
		if t.From == 0 && t.To == wholeDay {
			return ""
		}
		texts = append(texts, clock(t.From)+"-"+clock(t.To))
	}
	return strings.Join(texts, ",")
}

// daysText writes days as the settings have them, "" for all.
func daysText(days [7]bool) string {
	var parts []string
	for _, run := range runs(days) {
		part := dayNames[run[0]]
		switch {
		case run[1] == run[0]+1:
			part += "," + dayNames[run[1]]
		case run[1] > run[0]:
			part += "-" + dayNames[run[1]]
		}
		parts = append(parts, part)
	}
	if days == [7]bool{true, true, true, true, true, true, true} {
		return ""
	}
	return strings.Join(parts, ",")
}

// runs returns the first and last of days that follow one another.
func runs(days [7]bool) (all [][2]int) {
	for d, on := range days {
		switch last := len(all) - 1; {
		case !on:
		case last >= 0 && all[last][1] == d-1:
			all[last][1] = d
		default:
			all = append(all, [2]int{d, d})
		}
	}
	return all
}
