package policy

import (
	"net/netip"
	"time"

	"shuultuur/filter"
)

// Counters returns the keys of the counters of a user's or a device's limits and quotas
// of today.
func (e *Engine) Counters(users []string, clients []netip.Addr, now time.Time) (keys [][16]byte) {
	d := e.dayOf(now)
	of := func(l *limit, c filter.Client) {
		t := &filter.Transaction{Client: c}
		if l.window > 0 {
			n := l.countOne(t)
			keys = append(keys, n.Keys(now)...)
		} else {
			keys = append(keys, l.counter(t, d.name))
		}
	}
	for _, p := range e.policies {
		if p.requests != nil {
			for _, a := range clients {
				of(p.requests, filter.Client{Addr: a})
			}
		}
		for _, list := range [][]limit{p.limits, p.queries, p.quotas} {
			for i := range list {
				l := &list[i]
				if l.by == "host" || l.by == "policy" {
					continue
				}
				for _, u := range users {
					if l.by == "user" && u != "" {
						of(l, filter.Client{User: u})
					}
				}
				for _, a := range clients { // before login, a limit by user counts the address
					of(l, filter.Client{Addr: a})
				}
			}
		}
	}
	return keys
}
