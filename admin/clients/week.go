package clients

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/filter"
)

const (
	// maxWeekRows is how many rows of a week are read, the newest, so that the page is there soon.
	maxWeekRows = 30_000
	// chartHigh and chartStep are the height of the chart and the width of a day in it.
	chartHigh, chartStep = 100, 100
)

// A dayUse is a day of a person's use.
type dayUse struct {
	Day     string `json:"day"` // such as 2026-11-30
	Minutes int    `json:"minutes"`

	Weekday int     `json:"-"` // from Monday, 0
	X       int     `json:"-"` // of the bar
	Y, High float64 `json:"-"`
}

// A week is somebody's use of the last seven days. Minutes in which something was asked for or
// arrived count once, whatever it was; what was blocked does not count.
type week struct {
	Days  []dayUse
	Sites []web.Bar // of the last day, by minutes
	Cut   bool      // there are more rows than were read
}

// weekOf reads the use of whoever f selects.
func (c *Pages) weekOf(ctx context.Context, f event.Filter, now time.Time) (w week, err error) {
	now = now.Local()
	first := time.Date(now.Year(), now.Month(), now.Day()-6, 0, 0, 0, 0, time.Local)
	f.Since = first
	var days [7]map[int64]bool
	sites := map[string]map[int64]bool{}
	begin := [8]int64{}
	for i := range begin {
		begin[i] = filter.MinuteOf(time.Date(first.Year(), first.Month(), first.Day()+i, 0, 0, 0, 0, time.Local))
	}
	yesterday, n := filter.MinuteOf(now.Add(-24*time.Hour)), 0
	for row, err := range c.Events.Query(ctx, f, event.Page{Newest: true, Limit: maxWeekRows}) {
		if err != nil {
			return w, err
		}
		if n++; row.Action == filter.Block {
			continue
		}
		for m := range row.Used().All() {
			day, ok := slices.BinarySearch(begin[:], m)
			if !ok {
				day--
			}
			if day < 0 || day > 6 {
				continue
			}
			add(&days[day], m)
			if m >= yesterday && row.Host != "" {
				of := sites[row.Host]
				add(&of, m)
				sites[row.Host] = of
			}
		}
	}
	w.Cut = n == maxWeekRows
	most := 1
	for i := range days {
		most = max(most, len(days[i]))
	}
	for i := range days {
		at := time.Date(first.Year(), first.Month(), first.Day()+i, 0, 0, 0, 0, time.Local)
		high := float64(chartHigh-4) * float64(len(days[i])) / float64(most)
		w.Days = append(w.Days, dayUse{Day: at.Format(time.DateOnly), Minutes: len(days[i]), Weekday: (int(at.Weekday()) + 6) % 7, X: i*chartStep + 22, Y: chartHigh - high, High: high})
	}
	names := slices.SortedFunc(maps.Keys(sites), func(a, b string) int { return cmp.Or(len(sites[b])-len(sites[a]), strings.Compare(a, b)) })
	for _, name := range names[:min(len(names), topHosts)] {
		w.Sites = append(w.Sites, web.Bar{Name: name, N: len(sites[name]), Width: 100 * float64(len(sites[name])) / float64(len(sites[names[0]]))})
	}
	return w, nil
}

// add adds a minute to a set, which it makes.
func add(to *map[int64]bool, minute int64) {
	if *to == nil {
		*to = map[int64]bool{}
	}
	(*to)[minute] = true
}

// Said says the minutes of the days, for those who do not see the chart.
func (w week) Said() string {
	var all []string
	for _, d := range w.Days {
		all = append(all, fmt.Sprintf("%s: %d", d.Day, d.Minutes))
	}
	return strings.Join(all, ", ")
}
