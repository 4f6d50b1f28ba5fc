// Package report sums up a day or a week of the record for people who do not
// read logs: who used the web and for how long, what was requested and refused,
// and the searches.
//
// [Build] reads each row of the period once, within bounded memory. A [Report]
// can be written as JSON; csv.go and pdf.go write it for spreadsheets and
// paper.
package report

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/clock"
	"shuultuur/policy/search"
	"shuultuur/text"
)

// A Question selects the contents of a report.
type Question struct {
	Since, Until time.Time
	Group        string // "" for all
	Person       string // a user or an address; "" for all
	// Groups returns the groups of a user. Nil: users have no groups.
	Groups func(addr netip.Addr, user string) []string
	Texts  *text.Texts // the language of the report; nil: English
}

// A Report is a summary of web use.
type Report struct {
	Title    string    `json:"title"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Group    string    `json:"group,omitempty"`
	Person   string    `json:"person,omitempty"`
	Says     []string  `json:"says"` // in sentences
	Requests int64     `json:"requests"`
	Blocked  int64     `json:"blocked"`
	People   []Line    `json:"people"`
	Groups   []Line    `json:"groups"`
	// Categories are those by which rules decided.
	Categories []Line `json:"categories"`
	Sites      []Line `json:"sites"`
	Searches   []Line `json:"searches"`
	Cut        bool   `json:"cut,omitempty"` // there was more than could be counted by name
	// Pictures are the same figures over time.
	Pictures *Pictures `json:"pictures"`

	texts   *text.Texts
	persons int // how many used the web
}

// A Line is one line of a table.
type Line struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Blocked  int64  `json:"blocked"`
	// Minutes online, as [filter.Minutes] counts them.
	Minutes int64 `json:"minutes,omitempty"`
}

const (
	maxNames = 20_000 // of one table
	maxLines = 100    // that are shown
)

// A tally counts by name.
type tally struct {
	lines map[string]*counted
	cut   bool
}

type counted struct {
	Line
	online []uint64 // the minutes of the period, one bit each
}

// line returns the line of a name, nil if there is no room for it.
func (t *tally) line(name string) *counted {
	if name == "" {
		return nil
	}
	c := t.lines[name]
	if c == nil {
		if len(t.lines) >= maxNames {
			t.cut = true
			return nil
		}
		name = strings.Clone(name)
		c = &counted{Line: Line{Name: name}}
		t.lines[name] = c
	}
	return c
}

func (t *tally) add(name string, blocked bool) {
	if c := t.line(name); c != nil {
		c.Requests++
		if blocked {
			c.Blocked++
		}
	}
}

// use counts the minutes of a row that are in the period: each once for a person, whatever else
// happened in it.
func (t *tally) use(name string, row *event.Row, since, until time.Time) {
	first, all := filter.MinuteOf(since), filter.MinuteOf(until)-filter.MinuteOf(since)
	for m := range row.Used().All() {
		if m -= first; m < 0 || m >= all {
			continue
		}
		c := t.line(name)
		if c == nil {
			return
		}
		if c.online == nil {
			c.online = make([]uint64, (all+63)/64)
		}
		if c.online[m/64]>>(m%64)&1 == 0 {
			c.online[m/64] |= 1 << (m % 64)
			c.Minutes++
		}
	}
}

func (t *tally) top() []Line {
	all := []Line{}
	for _, c := range t.lines {
		all = append(all, c.Line)
	}
	slices.SortStableFunc(all, func(a, b Line) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), maxLines)]
}

// longest is how long a connection may go on after a period, so that the report has its minutes: it is
// recorded at its end.
const longest = 24 * time.Hour

// Build makes a report.
func Build(ctx context.Context, r Source, q Question) (*Report, error) {
	f := event.Filter{Since: q.Since, Until: q.Until.Add(longest)}
	if q.Person != "" {
		field := event.User
		if _, err := netip.ParseAddr(q.Person); err == nil {
			field = event.Client
		}
		if err := f.And(field, false, q.Person); err != nil {
			return nil, err
		}
	}
	var t [5]tally // people, groups, categories, sites, searches
	for i := range t {
		t[i].lines = map[string]*counted{}
	}
	out := &Report{Since: q.Since, Until: q.Until, Group: q.Group, Person: q.Person, Pictures: newPictures(q.Since, q.Until), texts: q.Texts}
	searches := search.NewSearches()
	groups := map[string][]string{} // by person
	for row, err := range r.Query(ctx, f, event.Page{}) {
		if err != nil {
			return nil, err
		}
		if !row.Time.Before(q.Until) && !row.Start().Before(q.Until) {
			continue
		}
		who := row.User
		if who == "" && row.Client.IsValid() {
			who = row.Client.String()
		}
		in, known := groups[who]
		if !known && q.Groups != nil {
			in = q.Groups(row.Client, row.User)
			if len(groups) < maxNames {
				groups[who] = in
			}
		}
		if q.Group != "" && !slices.Contains(in, q.Group) {
			continue
		}
		t[0].use(who, &row, q.Since, q.Until)
		if !row.Time.Before(q.Until) {
			continue // a later report has it
		}
		out.Requests++
		out.Pictures.add(&row, who)
		blocked := row.Action == filter.Block
		if blocked {
			out.Blocked++
		}
		t[0].add(who, blocked)
		for _, g := range in {
			t[1].add(g, blocked)
		}
		t[2].add(row.Category, blocked)
		t[3].add(row.Host, blocked)
		t[4].add(strings.ToLower(searches.Term(row.URL)), blocked)
	}
	out.People, out.Groups, out.Categories, out.Sites, out.Searches = t[0].top(), t[1].top(), t[2].top(), t[3].top(), t[4].top()
	for i := range t {
		out.Cut = out.Cut || t[i].cut
	}
	out.persons = len(t[0].lines)
	out.Pictures.finish()
	out.addSentences()
	return out, nil
}

// addSentences writes the report in sentences.
func (r *Report) addSentences() {
	t := r.texts
	r.Says = nil
	days := int(r.Until.Sub(r.Since).Hours()/24 + .5)
	r.Title = t.Say("Web use on {day}", "day", t.Day(r.Since))
	if days > 1 {
		r.Title = t.Say("Web use from {day} to {last}", "day", t.Day(r.Since), "last", t.Day(r.Until.Add(-time.Minute)))
	}
	if of := cmp.Or(r.Person, r.Group); of != "" {
		r.Title += ": " + of
	}
	add := func(key string, pairs ...string) { r.Says = append(r.Says, t.Say(key, pairs...)) }
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	if r.Requests == 0 {
		add(text.Mark("Nothing is on record for this time."))
		return
	}
	if r.Person == "" {
		add(text.Mark("People and devices that used the web: {people}. Requests: {n}."), "people", count(int64(r.persons)), "n", count(r.Requests))
	} else {
		add(text.Mark("Requests of {person}: {n}. Time online: {time}."), "person", r.Person, "n", count(r.Requests), "time", Hours(t, r.minutes()))
	}
	switch {
	case r.Blocked == 0:
		add(text.Mark("Nothing was blocked."))
	default:
		add(text.Mark("Requests blocked: {n}, {share} % of all."), "n", count(r.Blocked), "share", strconv.FormatFloat(100*float64(r.Blocked)/float64(r.Requests), 'f', 1, 64))
	}
	if c := mostBlocked(r.Categories); c != nil {
		add(text.Mark("Most frequent reason to block: the category “{category}” ({n})."), "category", KindName(t, c.Name), "n", count(c.Blocked))
	}
	if p := mostBlocked(r.People); p != nil && r.Person == "" {
		add(text.Mark("Blocked most often: {person} ({n})."), "person", p.Name, "n", count(p.Blocked))
	}
	if len(r.Searches) > 0 {
		add(text.Mark("Searched for most: “{words}” ({n})."), "words", r.Searches[0].Name, "n", count(r.Searches[0].Requests))
	}
	if r.Cut {
		add(text.Mark("There were more names than are counted one by one: rare ones are left out."))
	}
}

func (r *Report) minutes() (n int64) {
	for _, p := range r.People {
		n = max(n, p.Minutes)
	}
	return n
}

func mostBlocked(all []Line) (most *Line) {
	for i := range all {
		if l := &all[i]; l.Blocked > 0 && (most == nil || l.Blocked > most.Blocked) {
			most = l
		}
	}
	return most
}

// Hours writes minutes in a form for people.
func Hours(t *text.Texts, minutes int64) string {
	return t.Say("{h} h {min} min", "h", strconv.FormatInt(minutes/60, 10), "min", fmt.Sprintf("%02d", minutes%60))
}

// A Table is one part of a report.
type Table struct {
	Title string
	Lines []Line
	Time  bool // it has minutes
}

// Tables are the parts that have lines.
func (r *Report) Tables() (all []Table) {
	for _, t := range []Table{{text.Mark("People"), r.People, true}, {text.Mark("Groups"), r.Groups, false}, {text.Mark("Categories"), r.Categories, false}, {text.Mark("Sites"), r.Sites, false}, {text.Mark("Searches"), r.Searches, false}} {
		if len(t.Lines) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Span returns the period of a report: yesterday (day), today, the last whole
// week (week), or the last 7, 30 or 365 days (7d, 30d, 365d).
func Span(kind string, now time.Time) (since, until time.Time, err error) {
	switch kind {
	case "today":
		return clock.Day(now, 0), clock.Day(now, 1), nil
	case "", "day":
		return clock.Day(now, -1), clock.Day(now, 0), nil
	case "week": // the last whole one, from Monday
		monday := -(int(now.Weekday()) + 6) % 7
		return clock.Day(now, monday-7), clock.Day(now, monday), nil
	case "7d":
		return clock.Day(now, -6), clock.Day(now, 1), nil
	case "30d":
		return clock.Day(now, -29), clock.Day(now, 1), nil
	case "365d":
		return clock.Day(now, -364), clock.Day(now, 1), nil
	}
	return now, now, fmt.Errorf("%q is not a time to report on: write day (yesterday), today, week (the last whole one), 7d, 30d or 365d", kind)
}

// maxDays is the longest period.
const maxDays = 366

// Days returns the period from one day to another, both included.
func Days(from, to string, now time.Time) (since, until time.Time, err error) {
	day := func(s string) (at time.Time) {
		if at, err = time.ParseInLocation(time.DateOnly, s, now.Location()); err != nil {
			err = fmt.Errorf("%q is not a day: write it as 2026-01-31", s)
		}
		return at
	}
	if since = day(from); err != nil {
		return since, until, err
	}
	if to == "" {
		to = now.Format(time.DateOnly)
	}
	if until = day(to); err != nil {
		return since, until, err
	}
	since, until = clock.Day(since, 0), clock.Day(until, 1)
	switch {
	case !since.Before(until):
		return since, until, fmt.Errorf("%s is after %s: the first day comes first", from, to)
	case until.Sub(since) > (maxDays+1)*24*time.Hour:
		return since, until, fmt.Errorf("from %s to %s is more than a year", from, to)
	}
	return since, until, nil
}
