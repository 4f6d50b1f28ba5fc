package forward

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// An Order is the order in which upstreams are queried.
type Order string

const (
	Fastest  Order = "fastest"  // the fastest; others from time to time
	Parallel Order = "parallel" // several at once
	Strict   Order = "strict"   // as listed
)

// UnmarshalText reads an order from the settings.
func (o *Order) UnmarshalText(text []byte) error {
	switch *o = Order(text); *o {
	case Fastest, Parallel, Strict:
		return nil
	}
	return fmt.Errorf("%q is not one of fastest, parallel, strict", text)
}

// plan returns the upstreams in query order, each of them twice while there is room, and how
// many to query at once. Those that are down, or to be avoided, come last. The explored one is
// also queried at once, to measure its speed; it may be nil.
func (f *Forwarder) plan(g *group, avoid string) (plan []*upstream, at int, explored *upstream) {
	up := make([]*upstream, 0, max(mostAttempts, len(g.upstreams)))
	var down []*upstream
	for _, u := range g.upstreams {
		if isDown, _ := u.health(); isDown || u.to == avoid {
			down = append(down, u)
			continue
		}
		up = append(up, u)
	}
	at = 1
	switch {
	case len(up) == 0 && len(down) > 0:
		f.broken.Add(1)
		rand.Shuffle(len(down), func(i, j int) { down[i], down[j] = down[j], down[i] })
		at = min(2, len(down)) // the health may be out of date
	case g.order == Parallel:
		sortBySpeed(up)
		at = min(g.race, len(up))
	case g.order == Fastest:
		sortBySpeed(up)
		if explored = explore(up); explored != nil {
			at = 2
		}
	}
	up = append(up, down...)
	n := len(up)
	for i := 0; len(up) < mostAttempts && i < n && n > 0; i++ {
		up = append(up, up[i])
	}
	return up[:min(len(up), mostAttempts)], at, explored
}

// sortBySpeed puts the fastest first and those of unknown speed last.
func sortBySpeed(up []*upstream) {
	type timedUpstream struct {
		u     *upstream
		speed float64
	}
	if len(up) < 2 {
		return
	}
	var room [8]timedUpstream
	all := room[:0]
	for _, u := range up {
		all = append(all, timedUpstream{u, u.speed()})
	}
	slices.SortStableFunc(all, func(a, b timedUpstream) int {
		switch {
		case a.speed == b.speed:
			return 0
		case b.speed == 0 || a.speed != 0 && a.speed < b.speed:
			return -1
		}
		return 1
	})
	for i := range all {
		up[i] = all[i].u
	}
}

// explore moves another upstream to the second place and returns it, to be queried together
// with the first: one of unknown speed, if there is one, else any from time to time.
func explore(up []*upstream) *upstream {
	if len(up) < 2 {
		return nil
	}
	i := len(up) - 1
	if up[i].speed() > 0 {
		if rand.IntN(exploreOneIn) > 0 {
			return nil
		}
		i = 1 + rand.IntN(len(up)-1)
	}
	if !up[i].exploring.CompareAndSwap(false, true) {
		return nil
	}
	up[1], up[i] = up[i], up[1]
	return up[1]
}
