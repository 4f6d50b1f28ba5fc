package report

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/clock"
)

// An Overview is a period in pictures, beside the time before. It is counted by the store, without
// reading rows.
type Overview struct {
	*Pictures
	Since, Until time.Time
	// Before is where the time before begins; it is as long as the part of the period that is over.
	Before                        time.Time
	Requests, Blocked             int
	RequestsBefore, BlockedBefore int
	Devices                       int        // people and devices
	Top                           []Compared // what was blocked, by the field that was asked for
	Sites                         []Compared // most requested
	New                           []Compared // sites that nobody asked for in the four weeks before
	NewSites                      int        // how many there are of New, of which only the most requested are in it
	Known                         bool       // the record reaches so far back that New can be told
}

// A Compared is a name with its figure, and that of the time before.
type Compared struct {
	Name   string `json:"name"`
	N      int    `json:"requests"`
	Before int    `json:"before"`
}

// Share is the figure in percent of the first one's.
func (c Compared) Share(first int) float64 { return 100 * float64(c.N) / float64(max(1, first)) }

const (
	mostTop   = 8
	mostSites = 3000    // among which new ones are sought
	mostOld   = 100_000 // sites of the time before
	newAfter  = 28      // days without a request make a site new
	heatDays  = 35      // of the end of a period are counted by hour
	curveDays = 14
	maxInHour = 500    // people who are counted in an hour
	maxPeople = 10_000 // among whom those of a group are sought
)

// maxCurveRows bounds the rows that are read for the hours of those who are drawn. Where they have
// more, hours are counted.
var maxCurveRows = 20_000

// A counting gathers questions, so that the store is read once.
type counting struct {
	who       [][]event.Term // disjoint
	questions []event.Question
	take      []func([]event.Tally)
}

// ask asks about a time.
func (c *counting) ask(since, until time.Time, by event.Field, top int, take func([]event.Tally), terms ...event.Term) {
	for _, who := range c.who {
		f := event.Filter{Since: since, Until: until, Terms: slices.Concat(terms, who)}
		c.questions, c.take = append(c.questions, event.Question{Filter: f, By: by, Top: top}), append(c.take, take)
	}
}

func (c *counting) answer(ctx context.Context, r event.Reader) error {
	all, err := r.Count(ctx, c.questions...)
	if err != nil {
		return err
	}
	for i, take := range c.take {
		take(all[i])
	}
	c.questions, c.take = nil, nil
	return nil
}

// Look counts a period. by is the field of Top: [event.Category], [event.Host] or [event.Rule].
func Look(ctx context.Context, r event.Reader, q Question, by event.Field, now time.Time) (*Overview, error) {
	who, err := members(ctx, r, &q)
	if err != nil {
		return nil, err
	}
	o := &Overview{Pictures: newPictures(q.Since, q.Until), Since: q.Since, Until: q.Until}
	over := q.Until
	if now.Before(over) {
		over = now
	}
	days := int(q.Until.Sub(q.Since).Hours()/24 + .5)
	back := func(at time.Time) time.Time { return at.AddDate(0, 0, -days) }
	o.Before = back(q.Since)
	c := &counting{who: who}
	blocked := event.Term{Field: event.Action, Values: []string{filter.Block.String()}}
	for i := range o.Steps {
		from, to := o.Steps[i].At, o.end(i, q.Until)
		c.ask(from, to, event.Action, 0, func(all []event.Tally) {
			for _, t := range all {
				o.count(i, actionOf(t.Name), t.Events)
			}
		})
		c.ask(from, to, event.Category, maxKinds, func(all []event.Tally) {
			for _, t := range all {
				o.kind(i, t.Name, t.Blocked)
			}
		}, blocked)
		c.ask(back(from), back(to), event.Text, 0, func(all []event.Tally) { o.Steps[i].Before += all[0].Events })
	}
	c.ask(o.Before, back(over), event.Text, 0, func(all []event.Tally) {
		o.RequestsBefore += all[0].Events
		o.BlockedBefore += all[0].Blocked
	})
	o.askHours(c, over)
	tops, sites := newComparison(), newComparison()
	c.ask(q.Since, q.Until, by, mostOld, tops.now, blocked)
	c.ask(o.Before, back(over), by, mostOld, tops.then, blocked)
	c.ask(q.Since, q.Until, event.Host, mostSites, sites.now)
	c.ask(clock.Day(q.Since, -newAfter), q.Since, event.Host, mostOld, sites.then)
	o.askPeople(c)
	if err := c.answer(ctx, r); err != nil {
		return nil, err
	}
	o.finish()
	for _, s := range o.Steps {
		o.Requests += s.All()
		o.Blocked += s.Blocked
	}
	o.Devices = len(o.people)
	fresh := sites.top(mostSites, func(c Compared) bool { return c.Before == 0 })
	o.Top, o.Sites, o.New, o.NewSites = tops.top(mostTop, nil), sites.top(mostTop, nil), fresh[:min(len(fresh), mostTop)], len(fresh)
	o.Known = sites.old
	return o, o.askCurves(ctx, r, c, over)
}

// askHours asks for the blocked requests of each hour at the end of the period.
func (o *Overview) askHours(c *counting, over time.Time) {
	from := o.Since
	if first := clock.Day(over, -heatDays); first.After(from) {
		from = first
	}
	for at := from; at.Before(over); at = at.Add(time.Hour) {
		local := at.Local()
		cell := &o.Hours[(local.Weekday()+6)%7][local.Hour()]
		c.ask(at, at.Add(time.Hour), event.Text, 0, func(all []event.Tally) { *cell += all[0].Blocked })
	}
}

// nobody matches rows without a user.
func nobody() event.Term { return event.Term{Field: event.User, Values: []string{""}} }

// askPeople counts people and, where nobody is known, devices.
func (o *Overview) askPeople(c *counting) {
	note := func(user bool) func([]event.Tally) {
		return func(all []event.Tally) {
			for _, t := range all {
				if who := o.curve(t.Name, user); who != nil {
					who.Requests += t.Events
					who.Blocked += t.Blocked
				}
			}
		}
	}
	c.ask(o.Since, o.Until, event.User, maxPeople, note(true))
	c.ask(o.Since, o.Until, event.Client, maxPeople, note(false), nobody())
}

// askCurves asks for the hours of those who are drawn.
func (o *Overview) askCurves(ctx context.Context, r event.Reader, c *counting, over time.Time) error {
	if len(o.People) == 0 {
		return nil
	}
	at := map[string]*Curve{}
	for i := range o.People {
		at[o.People[i].Name] = &o.People[i]
	}
	from := o.Since
	if first := clock.Day(over, -curveDays); first.After(from) {
		from = first
	}
	requests := 0
	for i := range o.People {
		requests += o.People[i].Requests
	}
	if requests <= maxCurveRows {
		return o.readCurves(ctx, r, c.who, event.Filter{Since: from, Until: over}, at)
	}
	for t := from; t.Before(over); t = t.Add(time.Hour) {
		hour := t.Local().Hour()
		take := func(all []event.Tally) {
			for _, n := range all {
				if p := at[n.Name]; p != nil {
					p.Hours[hour] += n.Events
				}
			}
		}
		// Naming those who are drawn would be a look at each of them.
		c.ask(t, t.Add(time.Hour), event.User, maxInHour, take)
		c.ask(t, t.Add(time.Hour), event.Client, maxInHour, take, nobody())
	}
	return c.answer(ctx, r)
}

// readCurves reads the rows of those who are drawn. Where there are thousands of people, these are few
// rows, and counting everybody for each hour is much more work.
func (o *Overview) readCurves(ctx context.Context, r event.Reader, who [][]event.Term, f event.Filter, at map[string]*Curve) error {
	var users, addresses []string
	for i := range o.People {
		if p := &o.People[i]; p.user {
			users = append(users, p.Name)
		} else {
			addresses = append(addresses, p.Name)
		}
	}
	drawn, err := termsOf(users, addresses)
	if err != nil {
		return err
	}
	for _, asked := range who {
		for _, terms := range drawn {
			f.Terms = slices.Concat(asked, terms)
			for row, err := range r.Query(ctx, f, event.Page{}) {
				if err != nil {
					return err
				}
				name := row.User
				if name == "" {
					name = row.Client.String()
				}
				if p := at[name]; p != nil {
					p.Hours[row.Time.Local().Hour()]++
				}
			}
		}
	}
	return nil
}

// termsOf selects the rows of some users, and those of some addresses without a user.
func termsOf(users, addresses []string) (all [][]event.Term, err error) {
	if len(users) > 0 {
		all = append(all, []event.Term{{Field: event.User, Values: users}})
	}
	if len(addresses) > 0 {
		t, err := event.NewTerm(event.Client, false, addresses...)
		if err != nil {
			return nil, err
		}
		all = append(all, []event.Term{t, nobody()})
	}
	return all, nil
}

// members returns the terms for whom a question is: everybody, a person, or a group, whose members
// are sought among those who used the web.
func members(ctx context.Context, r event.Reader, q *Question) ([][]event.Term, error) {
	if q.Person != "" {
		field := event.User
		if _, err := netip.ParseAddr(q.Person); err == nil {
			field = event.Client
		}
		t, err := event.NewTerm(field, false, q.Person)
		return [][]event.Term{{t}}, err
	}
	if q.Group == "" {
		return [][]event.Term{nil}, nil
	}
	span := event.Filter{Since: q.Since, Until: q.Until}
	alone := span
	alone.Terms = []event.Term{nobody()}
	found, err := r.Count(ctx, event.Question{Filter: span, By: event.User, Top: maxPeople}, event.Question{Filter: alone, By: event.Client, Top: maxPeople})
	if err != nil {
		return nil, err
	}
	var in [2][]string
	for i, all := range found {
		for _, t := range all {
			user, addr := t.Name, netip.Addr{}
			if i == 1 {
				user = ""
				addr, _ = netip.ParseAddr(t.Name) // the zero Addr has no groups
			}
			if q.Groups != nil && slices.Contains(q.Groups(addr, user), q.Group) {
				in[i] = append(in[i], t.Name)
			}
		}
	}
	terms, err := termsOf(in[0], in[1])
	if terms == nil { // a filter that no row matches
		terms = [][]event.Term{{{Field: event.User, Values: []string{""}}, {Field: event.User, Not: true, Values: []string{""}}}}
	}
	return terms, err
}

func actionOf(name string) filter.Action {
	for a := filter.Pass; a <= filter.Redirect; a++ {
		if a.String() == name {
			return a
		}
	}
	return filter.Pass
}

// End returns the end of a step.
func (o *Overview) End(i int) time.Time { return o.end(i, o.Until) }

// TopFilter selects the blocked requests of a line of Top.
func TopFilter(by, name string) string {
	f := "action:block "
	if by == event.Rule.String() {
		if policy, rule, ok := strings.Cut(name, "/"); ok {
			return f + "policy:" + quoted(policy) + " rule:" + quoted(rule)
		}
	}
	return f + by + ":" + quoted(name)
}

// A comparison has names with their figures.
type comparison struct {
	names map[string]*Compared
	old   bool // there was something before
}

func newComparison() *comparison { return &comparison{names: map[string]*Compared{}} }

func (c *comparison) now(all []event.Tally) {
	for _, t := range all {
		x := c.names[t.Name]
		if x == nil {
			x = &Compared{Name: t.Name}
			c.names[t.Name] = x
		}
		x.N += t.Events
	}
}

func (c *comparison) then(all []event.Tally) {
	c.old = c.old || len(all) > 0
	for _, t := range all {
		if x := c.names[t.Name]; x != nil {
			x.Before += t.Events
		}
	}
}

// top returns those with the greatest figures that fit.
func (c *comparison) top(n int, fits func(Compared) bool) (all []Compared) {
	for _, x := range c.names {
		if fits == nil || fits(*x) {
			all = append(all, *x)
		}
	}
	slices.SortFunc(all, func(a, b Compared) int { return cmp.Or(b.N-a.N, strings.Compare(a.Name, b.Name)) })
	return all[:min(n, len(all))]
}
