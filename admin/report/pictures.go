package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/clock"
)

// Pictures are the figures of a period as they are drawn: step by step, by hour and weekday, by kind
// and by person.
type Pictures struct {
	Unit  string `json:"unit"` // of the steps: hour, day or week
	Steps []Step `json:"steps"`
	// Kinds are the categories that were blocked, most first.
	Kinds []Kind `json:"kinds"`
	// Hours are the blocked requests by weekday, Monday first, and hour.
	Hours  [7][24]int `json:"hours"`
	People []Curve    `json:"people"`

	kinds  map[string]*Kind
	people map[string]*Curve
}

// A Step is a part of the period.
type Step struct {
	At      time.Time `json:"at"`
	Open    int       `json:"open"`
	Warned  int       `json:"warned"` // or sent elsewhere
	Blocked int       `json:"blocked"`
	Before  int       `json:"before,omitempty"` // all requests at the same place of the time before
}

// All is the number of requests.
func (s *Step) All() int { return s.Open + s.Warned + s.Blocked }

// A Kind is what was blocked of a category.
type Kind struct {
	Name    string `json:"name"`
	Blocked int    `json:"blocked"`
	Steps   []int  `json:"steps"`
}

// A Curve has the requests of a person or device by hour of the day.
type Curve struct {
	Name     string  `json:"name"`
	Called   string  `json:"called,omitempty"` // the name of the device at the address
	Requests int     `json:"requests"`
	Blocked  int     `json:"blocked"`
	Hours    [24]int `json:"hours"`

	user bool // it is a user, not an address
}

// Filter selects the requests of the curve.
func (c *Curve) Filter() string {
	if c.user {
		return "user:" + quoted(c.Name)
	}
	return "client:" + c.Name
}

// quoted writes a value so that [event.ParseFilter] reads it as one.
func quoted(v string) string {
	if strings.ContainsAny(v, " \t\r\n,\"") {
		return `"` + strings.ReplaceAll(v, `"`, "") + `"`
	}
	return v
}

const (
	mostKinds  = 5   // that are drawn
	mostCurves = 12  // people that are drawn
	maxKinds   = 200 // that are counted
)

// newPictures divides a period into hours, days or weeks, so that a few dozen steps are drawn.
func newPictures(since, until time.Time) *Pictures {
	p := &Pictures{Unit: "week", kinds: map[string]*Kind{}, people: map[string]*Curve{}}
	long := until.Sub(since)
	next := func(at time.Time) time.Time { return clock.Day(at, 7) }
	switch {
	case long <= 50*time.Hour:
		p.Unit, next = "hour", func(at time.Time) time.Time { return at.Add(time.Hour) }
	case long <= 100*24*time.Hour:
		p.Unit, next = "day", func(at time.Time) time.Time { return clock.Day(at, 1) }
	}
	for at := since; at.Before(until) && len(p.Steps) < maxSteps; at = next(at) {
		p.Steps = append(p.Steps, Step{At: at})
	}
	return p
}

// maxSteps bounds a period to two years of weeks, or to a hundred days.
const maxSteps = 106

// end returns the end of a step.
func (p *Pictures) end(i int, until time.Time) time.Time {
	if i+1 < len(p.Steps) {
		return p.Steps[i+1].At
	}
	return until
}

// add counts a row of a person or device.
func (p *Pictures) add(row *event.Row, who string) {
	i, found := slices.BinarySearchFunc(p.Steps, row.Time, func(s Step, at time.Time) int { return s.At.Compare(at) })
	if !found {
		i--
	}
	if i < 0 {
		return
	}
	blocked := 0
	if row.Action == filter.Block {
		blocked = 1
	}
	p.count(i, row.Action, 1)
	p.kind(i, row.Category, blocked)
	at := row.Time.Local()
	p.Hours[(at.Weekday()+6)%7][at.Hour()] += blocked
	if c := p.curve(who, row.User != ""); c != nil {
		c.Requests++
		c.Blocked += blocked
		c.Hours[at.Hour()]++
	}
}

func (p *Pictures) count(step int, action filter.Action, n int) {
	s := &p.Steps[step]
	switch action {
	case filter.Block:
		s.Blocked += n
	case filter.Warn, filter.Redirect:
		s.Warned += n
	default:
		s.Open += n
	}
}

func (p *Pictures) kind(step int, category string, blocked int) {
	if category == "" || blocked == 0 {
		return
	}
	k := p.kinds[category]
	if k == nil {
		if len(p.kinds) >= maxKinds {
			return
		}
		category = strings.Clone(category)
		k = &Kind{Name: category, Steps: make([]int, len(p.Steps))}
		p.kinds[category] = k
	}
	k.Blocked += blocked
	k.Steps[step] += blocked
}

// curve returns the curve of a person, nil if there is no room for it.
func (p *Pictures) curve(who string, user bool) *Curve {
	c := p.people[who]
	if c == nil && who != "" && len(p.people) < maxNames {
		who = strings.Clone(who)
		c = &Curve{Name: who, user: user}
		p.people[who] = c
	}
	return c
}

// finish keeps what is drawn.
func (p *Pictures) finish() {
	p.Kinds, p.People = []Kind{}, []Curve{}
	for _, k := range p.kinds {
		p.Kinds = append(p.Kinds, *k)
	}
	slices.SortFunc(p.Kinds, func(a, b Kind) int { return cmp.Or(b.Blocked-a.Blocked, strings.Compare(a.Name, b.Name)) })
	p.Kinds = p.Kinds[:min(len(p.Kinds), mostKinds)]
	for _, c := range p.people {
		p.People = append(p.People, *c)
	}
	slices.SortFunc(p.People, func(a, b Curve) int { return cmp.Or(b.Requests-a.Requests, strings.Compare(a.Name, b.Name)) })
	p.People = p.People[:min(len(p.People), mostCurves)]
}

// Stamp says when a step begins, as people write it.
func (p *Pictures) Stamp(i int) string {
	at := p.Steps[i].At.Local()
	switch {
	case p.Unit == "hour" && len(p.Steps) > 25:
		return at.Format("02.01. 15:04")
	case p.Unit == "hour":
		return at.Format("15:04")
	}
	return at.Format("02.01.")
}
