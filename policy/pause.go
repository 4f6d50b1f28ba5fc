package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/clock"
)

// While filtering is paused for a client, rules that would warn, block or redirect do not
// match. The engine looks up pauses once per decision, which costs one pointer while there are
// none. Some refusals do not depend on lists and words, and remain: certificate faults that
// rules name, limits and quotas, clients that no policy covers, and refusals by the servers
// themselves. Learned verdicts are neither used nor made.

// A Pause is a pause of filtering for a client, until a time.
type Pause struct {
	Who   string    `json:"who"` // an address, a network, a user or a group; "" is everybody
	Until time.Time `json:"until"`
}

// Whom is Who in words.
func (p Pause) Whom() string { return cmp.Or(p.Who, "everybody") }

// MaxPauses is how many pauses may be in force at once: every decision tests all of them.
const MaxPauses = 100

// MaxPause is the longest pause: a day of 25 hours.
const MaxPause = 25 * time.Hour

// inForce reports whether p counts at a time.
func (p Pause) inForce(now time.Time) bool { return clock.InForce(p.Until, now, MaxPause) }

// Pauses are the pauses in force. They outlive the engines that consult them, and are
// safe for concurrent use. The zero value holds none.
type Pauses struct {
	all atomic.Pointer[[]pause]
}

type pause struct {
	Pause
	network netip.Prefix // if Who is a network
}

// Set replaces all pauses. Those beyond MaxPauses are ignored.
func (s *Pauses) Set(all []Pause) {
	all = all[:min(len(all), MaxPauses)]
	if len(all) == 0 {
		s.all.Store(nil)
		return
	}
	ready := make([]pause, len(all))
	for i, p := range all {
		ready[i].Pause = p
		if n := (Network{}); n.UnmarshalText([]byte(p.Who)) == nil {
			ready[i].network = n.Prefix
		}
	}
	s.all.Store(&ready)
}

// At returns the pauses in force at a time.
func (s *Pauses) At(now time.Time) (all []Pause) {
	if kept := s.all.Load(); kept != nil {
		for _, p := range *kept {
			if p.inForce(now) {
				all = append(all, p.Pause)
			}
		}
	}
	return all
}

// Over returns the pauses that are over at a time.
func (s *Pauses) Over(now time.Time) (all []Pause) {
	if kept := s.all.Load(); kept != nil {
		for _, p := range *kept {
			if !p.Until.After(now) {
				all = append(all, p.Pause)
			}
		}
	}
	return all
}

// TooFarAhead returns the pauses that do not count because they end later than any pause may: the clock
// is wrong, or was when they began.
func (s *Pauses) TooFarAhead(now time.Time) (all []Pause) {
	if kept := s.all.Load(); kept != nil {
		for _, p := range *kept {
			if p.Until.After(now) && !p.inForce(now) {
				all = append(all, p.Pause)
			}
		}
	}
	return all
}

// remaining returns how much longer filtering is paused for a client, 0 when it is not.
func (s *Pauses) remaining(c *filter.Client, now time.Time) (remaining time.Duration) {
	if s == nil {
		return 0
	}
	all := s.all.Load()
	if all == nil {
		return 0
	}
	for i := range *all {
		if p := &(*all)[i]; p.inForce(now) && p.covers(c) {
			remaining = max(remaining, p.Until.Sub(now))
		}
	}
	return remaining
}

func (p *pause) covers(c *filter.Client) bool {
	switch {
	case p.Who == "":
		return true
	case p.network.IsValid():
		return p.network.Contains(c.Addr.Unmap())
	}
	return strings.EqualFold(p.Who, c.User) || slices.ContainsFunc(c.Groups, func(g string) bool { return strings.EqualFold(g, p.Who) })
}

// lifts reports whether a pause keeps a rule from matching. Findings on locked lists are
// refused during a pause, too.
func (w *walk) lifts(r *rule) bool {
	return w.paused > 0 && r.action >= filter.Warn && !r.certificate && !r.implied &&
		!slices.ContainsFunc(w.t.Findings, func(f filter.Finding) bool { return slices.Contains(r.locked, f.Category) })
}
