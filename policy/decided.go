package policy

import (
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/dns"
	"shuultuur/filter"
)

// A Decision opens or blocks a site for somebody, whatever lists and rules say:
// an overlay over them. It is made by people who answer votes.
type Decision struct {
	Who   string    // an address, a network, a user or a group; "" is everyone
	Site  string    // host name, with everything below it
	Block bool      // block it, otherwise open it
	Until time.Time // zero is for good
}

// MaxDecisions is how many decisions may hold at once.
const MaxDecisions = 100_000

// Decisions are those that hold now, and the time that people were given beyond
// their quotas. They outlive engines, which ask them, and
// are safe for many goroutines. The zero value is none.
//
// An open site is as if filtering were paused there: see [Pauses]. Of several
// decisions that cover a request, the one for the longest name holds, and of
// these one for a client, user or group before one for everyone, and then a
// later one.
type Decisions struct {
	sites   atomic.Pointer[map[string][]decided]
	bonuses atomic.Pointer[[]bonus]
}

type decided struct {
	pause // Until of which is never zero
	block bool
}

// forGood is how long a decision for good holds, as far as anybody asks.
const forGood = 24 * time.Hour

// Set replaces all decisions. Later ones come last. Those beyond MaxDecisions do
// not count.
func (s *Decisions) Set(all []Decision) {
	all = all[:min(len(all), MaxDecisions)]
	if len(all) == 0 {
		s.sites.Store(nil)
		return
	}
	sites := make(map[string][]decided, len(all))
	for _, d := range all {
		one := decided{pause{Pause: Pause{Who: d.Who, Until: d.Until}}, d.Block}
		if n := (Network{}); n.UnmarshalText([]byte(d.Who)) == nil {
			one.network = n.Prefix
		}
		site := dns.Canonical(strings.TrimSuffix(strings.ToLower(d.Site), "."))
		if d.Who == "" {
			sites[site] = append(sites[site], one) // asked last
		} else {
			sites[site] = slices.Insert(sites[site], 0, one)
		}
	}
	for _, at := range sites {
		// Those for everyone are in the order in which they were made.
		if i := slices.IndexFunc(at, func(d decided) bool { return d.Who == "" }); i >= 0 {
			slices.Reverse(at[i:])
		}
	}
	s.sites.Store(&sites)
}

// find returns how long a site is open or blocked for a client, 0 when nothing
// is decided.
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
	return 0, false
}

func holds(at []decided, c *filter.Client, now time.Time) (left time.Duration, block bool) {
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

// decidedBlock is the finding of a decision that blocks.
const decidedBlock = "decided"

// blockDecided blocks what people have decided to block.
func (e *Engine) blockDecided(p *policy, t *filter.Transaction) filter.Verdict {
	f := filter.Finding{Check: "policy", Category: decidedBlock}
	if !t.Terse {
		f.Evidence = "blocked by a decision about votes"
	}
	t.Findings = append(t.Findings, f)
	t.Verdict = filter.Verdict{Action: filter.Block, Reason: filter.Reason{Policy: p.name, Finding: f}}
	return t.Verdict
}
