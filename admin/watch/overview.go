//go:build !small

package watch

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"shuultuur/admin/report"
	"shuultuur/admin/web"
	"shuultuur/event"
	"shuultuur/text"
)

// A reportPage is what the page of reports shows.
type reportPage struct {
	Title, Period                     string
	Span, From, To, Group, Person, By string
	Error, Link                       string
	Spans, Bys                        []web.Choice
	Overview                          *report.Overview // nil after a mistake
	Report                            *report.Report   // with minutes online and searches, where somebody wants them
	Bars, Areas                       report.Chart
	texts                             *text.Texts
}

var (
	reportSpans = []web.Choice{{Value: "today", Text: text.Mark("Today")}, {Value: "day", Text: text.Mark("Yesterday")}, {Value: "week", Text: text.Mark("Last week")},
		{Value: "7d", Text: text.Mark("The last 7 days")}, {Value: "30d", Text: text.Mark("The last 30 days")}, {Value: "365d", Text: text.Mark("The last year")}}
	reportBys = []web.Choice{{Value: event.Category.String(), Text: text.Mark("Kind")}, {Value: event.Host.String(), Text: text.Mark("Site")}, {Value: event.Rule.String(), Text: text.Mark("Rule")}}
)

// Log returns the page of requests of the period that match a filter.
func (d *reportPage) Log(filter string) string {
	return d.log(filter, d.Overview.Since, d.Overview.Until)
}

func (d *reportPage) log(filter string, since, until time.Time) string {
	const minute = "2006-01-02T15:04"
	if d.Person != "" {
		filter += " " + d.who()
	}
	filter += " since:" + since.Local().Format(minute) + " until:" + until.Local().Format(minute)
	return "/events?" + url.Values{"filter": {filter}, "last": {""}}.Encode()
}

// who selects the person of the page.
func (d *reportPage) who() string {
	var f event.Filter
	if err := f.And(event.Client, false, d.Person); err == nil {
		return "client:" + d.Person
	}
	return "user:" + web.Quoted(d.Person)
}

// StepLog returns the page of the requests of a step.
func (d *reportPage) StepLog(i int) string {
	return d.log("", d.Overview.Steps[i].At, d.Overview.End(i))
}

// StepSays describes a step.
func (d *reportPage) StepSays(i int) string {
	s := d.Overview.Steps[i]
	return d.texts.Say("{time}: {n} requests, {blocked} blocked", "time", d.Stamp(i), "n", strconv.Itoa(s.All()), "blocked", strconv.Itoa(s.Blocked))
}

// Stamp says when a step begins.
func (d *reportPage) Stamp(i int) string { return d.Overview.Stamp(i) }

// Strength is that of the colour of a cell.
func (d *reportPage) Strength(day, hour int) int { return d.Overview.Strength(day, hour) }

// Band is the class of a kind's colour.
func (d *reportPage) Band(i int) string { return d.Overview.Band(i) }

// Kind names a category.
func (d *reportPage) Kind(category string) string { return report.KindName(d.texts, category) }

// Quoted writes a value for a filter.
func (d *reportPage) Quoted(v string) string { return web.Quoted(v) }

// Threes are the hours that are named above the hours.
func (d *reportPage) Threes() (all []string) {
	for hour := 0; hour < 24; hour += 3 {
		all = append(all, fmt.Sprintf("%02d:00", hour))
	}
	return all
}

// Busiest says when most was blocked.
func (d *reportPage) Busiest() string {
	day, hour, ok := d.Overview.Busiest()
	if !ok {
		return ""
	}
	return d.texts.Say("most on {day} at {time}", "day", report.Weekday(d.texts, day), "time", fmt.Sprintf("%02d:00", hour))
}

// Change compares a figure with that of the time before.
func (d *reportPage) Change(n, before int) string {
	percent := 0
	if before > 0 {
		percent = int(100*float64(n-before)/float64(before)+100.5) - 100 // rounded
	}
	switch {
	case before == 0:
		return d.texts.Say("none before")
	case percent > 0:
		return d.texts.Say("{n} % more than before", "n", strconv.Itoa(percent))
	case percent < 0:
		return d.texts.Say("{n} % less than before", "n", strconv.Itoa(-percent))
	}
	return d.texts.Say("as before")
}

// Delta is the change of a figure in percent, "" where there is nothing to compare it with.
func (d *reportPage) Delta(c report.Compared) string {
	if c.Before == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*float64(c.N-c.Before)/float64(c.Before))
}

// FirstTop and FirstSite are the longest bars.
func (d *reportPage) FirstTop() int  { return d.Overview.Top[0].N }
func (d *reportPage) FirstSite() int { return d.Overview.Sites[0].N }

// TopName names a line of what was blocked.
func (d *reportPage) TopName(name string) string {
	if d.By == event.Category.String() {
		return d.Kind(name)
	}
	return name
}

// TopLog returns the page of the requests of a line.
func (d *reportPage) TopLog(name string) string { return d.Log(report.TopFilter(d.By, name)) }

// titled says which time the page is about.
func (d *reportPage) titled() {
	o := d.Overview
	last := o.Until.Add(-time.Minute)
	d.Title = d.texts.Say("{since} to {until}", "since", o.Since.Format(time.DateOnly), "until", last.Format(time.DateOnly))
	for _, s := range reportSpans {
		if s.Value == d.Span && d.From == "" {
			d.Title = d.texts.Say(s.Text)
		}
	}
	d.Period = d.texts.Say("{since} to {until}, compared with the same time from {before}", "since", o.Since.Format(time.DateOnly), "until", last.Format(time.DateOnly), "before", o.Before.Format(time.DateOnly))
}
