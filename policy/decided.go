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
	"shuultuur/lib/dns"
)

// A Decision opens or blocks a site for a client, and overrides lists and rules. People who
// answer votes make decisions.
type Decision struct {
	Who   string    // an address, a network, a user or a group; "" is everyone
	Site  string    // host name, including all subdomains, or AnySite
	Block bool      // block it, otherwise open it
	Until time.Time // zero means forever
}

// AnySite is the site of a decision that closes the web. A decision about a site wins over it.
const AnySite = "*"

// MaxDecisions is how many decisions may be in force at once.
const MaxDecisions = 100_000

// Decisions are the decisions in force, the time that people were given beyond their quotas, and the names
// under which renamed policies count. They outlive the engines that consult them, and are safe for concurrent use. The
// zero value holds none.
//
// An open site behaves as if filtering were paused there: see [Pauses]. Of several decisions
// that cover a request, the one for the longest name wins, then one for a client, user or
// group over one for everyone, then the latest.
type Decisions struct {
	sites   atomic.Pointer[map[string][]siteDecision]
	bonuses atomic.Pointer[[]bonus]
	counted atomic.Pointer[map[[2]string]string]
}

// A siteDecision is a decision in force, in the form of a pause.
type siteDecision struct {
	pause // its Until is never zero
	block bool
}

// forGood is how long a permanent decision claims to last.
const forGood = 24 * time.Hour

// Set replaces all decisions, in the order in which they were made. Those beyond MaxDecisions
// are ignored.
func (s *Decisions) Set(all []Decision) {
	all = all[:min(len(all), MaxDecisions)]
	if len(all) == 0 {
		s.sites.Store(nil)
		return
	}
	sites := make(map[string][]siteDecision, len(all))
	for _, d := range all {
		one := siteDecision{pause{Pause: Pause{Who: d.Who, Until: d.Until}}, d.Block}
		if n := (Network{}); n.UnmarshalText([]byte(d.Who)) == nil {
			one.network = n.Prefix
		}
		site := dns.Canonical(strings.TrimSuffix(strings.ToLower(d.Site), "."))
		if d.Who == "" {
			sites[site] = append(sites[site], one) // consulted last
		} else {
			sites[site] = slices.Insert(sites[site], 0, one)
		}
	}
	for _, at := range sites {
		// Decisions for everyone keep the order in which they were made.
		if i := slices.IndexFunc(at, func(d siteDecision) bool { return d.Who == "" }); i >= 0 {
			slices.Reverse(at[i:])
		}
	}
	s.sites.Store(&sites)
}

// find returns how long a site is open or blocked for a client, 0 when nothing is decided.
func (s *Decisions) find(c *filter.Client, host string, now time.Time) (left time.Duration, block bool) {
	if s == nil {
		return 0, false
	}
	sites := s.sites.Load()
	if sites == nil {
		return 0, false
	}
	for host = dns.Canonical(host); host != ""; _, host, _ = strings.Cut(host, ".") {
		if left, block := holds((*sites)[host], c, now); left > 0 {
			return left, block
		}
		if _, err := netip.ParseAddr(host); err == nil {
			break
		}
	}
	return holds((*sites)[AnySite], c, now)
}

func holds(at []siteDecision, c *filter.Client, now time.Time) (left time.Duration, block bool) {
	for i := range at {
		d := &at[i]
		if !d.covers(c) {
			continue
		}
		left := forGood
		if !d.Until.IsZero() {
			left = d.Until.Sub(now)
		}
		if left > 0 {
			return left, d.block
		}
	}
	return 0, false
}

// decidedBlock is the category of the finding for a blocking decision.
const decidedBlock = "decided"

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

// maxBonusAhead is how far the end of a bonus may be ahead: it ends with the day, and what-if judges
// events of the day before by it.
const maxBonusAhead = 2 * MaxPause

func (b *bonus) inForce(now time.Time) bool { return clock.InForce(b.Until, now, maxBonusAhead) }

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
			if b.inForce(now) {
				all = append(all, Bonus{b.Who, b.minutes, b.Until})
			}
		}
	}
	return all
}

// TooFarAhead returns the bonuses that do not count because they end later than any bonus may: the clock is
// wrong, or was when they were given.
func (d *Decisions) TooFarAhead(now time.Time) (all []Bonus) {
	if kept := d.bonuses.Load(); kept != nil {
		for _, b := range *kept {
			if b.Until.After(now) && !b.inForce(now) {
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
		if b := &(*kept)[i]; b.inForce(now) && b.covers(c) {
			sum += b.minutes
		}
	}
	return sum
}

// SetCounted says under which other names the quotas of policies are counted, by day and name.
func (d *Decisions) SetCounted(names map[[2]string]string) { d.counted.Store(&names) }

func (d *Decisions) countedAs(policy, day string) string {
	if d == nil || d.counted.Load() == nil {
		return policy
	}
	return cmp.Or((*d.counted.Load())[[2]string{day, policy}], policy)
}
