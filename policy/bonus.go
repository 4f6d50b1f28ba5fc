package policy

import (
	"time"

	"shuultuur/arrange"
	"shuultuur/filter"
)

// A Bonus is extra time beyond quotas, for the rest of a day.
type Bonus struct {
	Who     string    `json:"who"` // an address, a network, a user or a group
	Minutes int64     `json:"minutes"`
	Until   time.Time `json:"until"`
}

// MaxBonus is the most minutes of one bonus.
const MaxBonus = 24 * 60

type bonus struct {
	pause   // for whom, and until when
	minutes int64
}

// SetBonuses replaces all bonuses. Those beyond [MaxPauses] are ignored.
func (d *Decisions) SetBonuses(all []Bonus) {
	all = all[:min(len(all), MaxPauses)]
	if len(all) == 0 {
		d.bonuses.Store(nil)
		return
	}
	ready := make([]bonus, len(all))
	for i, b := range all {
		ready[i] = bonus{pause: pause{Pause: Pause{b.Who, b.Until}}, minutes: min(b.Minutes, MaxBonus)}
		if n := (Network{}); n.UnmarshalText([]byte(b.Who)) == nil {
			ready[i].network = n.Prefix
		}
	}
	d.bonuses.Store(&ready)
}

// Bonuses returns those that are in force at a time.
func (d *Decisions) Bonuses(now time.Time) (all []Bonus) {
	if kept := d.bonuses.Load(); kept != nil {
		for _, b := range *kept {
			if b.Until.After(now) {
				all = append(all, Bonus{b.Who, b.minutes, b.Until})
			}
		}
	}
	return all
}

// minutes returns how much more than its quotas a client may use now: the sum of the
// bonuses of its user, its groups and its address.
func (d *Decisions) minutes(c *filter.Client, now time.Time) (sum int64) {
	if d == nil {
		return 0
	}
	kept := d.bonuses.Load()
	if kept == nil {
		return 0
	}
	for i := range *kept {
		if b := &(*kept)[i]; b.Until.After(now) && b.covers(c) {
			sum += b.minutes
		}
	}
	return sum
}

// Week returns when a schedule is open on each day, Monday first, in minutes of the day. A
// schedule without windows is always open. Windows with dates are left out.
func (s Schedule) Week() (days [7][]Stretch, err error) {
	if len(s) == 0 {
		for d := range days {
			days[d] = []Stretch{{0, 24 * 60}}
		}
		return days, nil
	}
	all, _, err := s.compile()
	if err != nil {
		return days, err
	}
	for _, h := range all {
		if h.dates != nil && !h.dates.not {
			continue
		}
		for d := range days {
			if h.days>>((d+1)%7)&1 == 0 {
				continue
			}
			if h.start < h.end {
				days[d] = append(days[d], Stretch{h.start, h.end})
				continue
			}
			days[d] = append(days[d], Stretch{h.start, 24 * 60})
			if next := (d + 1) % 7; h.end > 0 {
				days[next] = append(days[next], Stretch{0, h.end})
			}
		}
	}
	for d := range days {
		arrange.By(days[d], func(a, b Stretch) int { return a.From - b.From })
	}
	return days, nil
}

// A Stretch is a part of a day, in minutes since midnight, without To.
type Stretch struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Covers returns the name of the policy that covers a client, "" for none.
func (e *Engine) Covers(c *filter.Client, now time.Time) string {
	if p := e.policyFor(c, now); p != nil {
		return p.name
	}
	return ""
}
