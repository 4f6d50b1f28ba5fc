package redins

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"shuultuur/lib/dns"
	"shuultuur/zone/redins/geo"
	"shuultuur/zone/redins/health"
)

const maxWeight = 1 << 23 // so that the sum of all fits in 32 bits

type order uint8

const (
	asWritten order = iota
	roundRobin
	weighted
)

// An entry holds the selection criteria of one record.
type entry struct {
	addr       netip.Addr
	countries  []geo.Country
	asns       []uint32
	anyCountry bool // also for clients of countries that no record lists
	anyASN     bool
	weight     uint32
	status     *health.Status
}

// A picker selects among the addresses of a name: by health, then geography, then order, then
// count. Only turn and spots change.
type picker struct {
	entries []entry
	health  bool
	up      int32 // bounds of a status
	down    int32

	geo                       *geo.DB
	byCountry, byASN, byPlace bool
	trusts                    []netip.Prefix
	strict                    bool // z42: without a match for the client's country select none, not all

	order  order
	single bool
	turn   atomic.Uint32
	spots  atomic.Pointer[spots]
}

// spots are the locations of the addresses, by one version of the file.
type spots struct {
	generation uint64
	of         [maxChoice]geo.Spot
}

// chooses reports whether the answer may differ from all records as written.
func (p *picker) chooses() bool {
	return p.health || p.byCountry || p.byASN || p.byPlace || p.single || p.order != asWritten
}

// Pick implements zone.Picker.
func (p *picker) Pick(dst []uint16, q *dns.Query, n int) (_ []uint16, scope uint8, hasScope bool) {
	n = min(n, len(p.entries))
	start := len(dst)
	for i := range n {
		dst = append(dst, uint16(i))
	}
	if p.health {
		dst = p.healthy(dst, start)
	}
	if p.byCountry || p.byASN || p.byPlace {
		client, subnet := q.Client.Addr(), q.HasSubnet && p.trusted(q.Client.Addr())
		if subnet {
			client = q.Subnet.Addr()
		}
		var bits uint8
		dst, bits = p.keepNear(dst, start, client.Unmap())
		if subnet {
			scope, hasScope = bits, true
		}
	}
	return p.arrange(dst, start), scope, hasScope
}

func (p *picker) trusted(client netip.Addr) bool {
	if p.trusts == nil {
		return true
	}
	for _, net := range p.trusts {
		if net.Contains(client) {
			return true
		}
	}
	return false
}

// healthy removes addresses that are down, and uncertain ones while others are up. If all are
// down, all stay.
func (p *picker) healthy(dst []uint16, start int) []uint16 {
	var read [maxChoice]int32 // read once, because they change concurrently
	status := read[:0]
	for _, i := range dst[start:] {
		status = append(status, p.entries[i].status.Load())
	}
	least := p.leastStatus(status)
	kept := dst[:start]
	for k, i := range dst[start:] {
		if status[k] >= least {
			kept = append(kept, i)
		}
	}
	return kept
}

// leastStatus returns the status that an address needs to be answered: the best status there is,
// unless that is neither down nor nearly up; then any status above down.
func (p *picker) leastStatus(status []int32) int32 {
	best := int32(-1 << 31)
	for _, s := range status {
		best = max(best, s)
	}
	if p.down < best && best < p.up-1 {
		return p.down + 1
	}
	return best
}

// keepNear keeps the addresses for the client's location. bits is how much of its address
// mattered.
func (p *picker) keepNear(dst []uint16, start int, client netip.Addr) (_ []uint16, bits uint8) {
	if p.byASN {
		asn, b := p.geo.ASN(client)
		bits = max(bits, b)
		dst = p.keepMatching(dst, start, func(e *entry) (fits, fallback bool) {
			for _, a := range e.asns {
				if a == asn {
					return true, e.anyASN
				}
			}
			return false, e.anyASN
		})
	}
	if p.byCountry {
		at := p.geo.Place(client)
		bits = max(bits, at.Bits)
		dst = p.keepMatching(dst, start, func(e *entry) (fits, fallback bool) {
			for _, c := range e.countries {
				if c == at.Country {
					return true, e.anyCountry
				}
			}
			return false, e.anyCountry
		})
	}
	if p.byPlace {
		at := p.geo.Place(client)
		bits = max(bits, at.Bits)
		if at.Spot.Known() {
			dst = p.nearest(dst, start, at.Spot)
		}
	}
	return dst, bits
}

// keepMatching keeps those that match; if none does, those for everybody; if there are none of
// those either, all (or none, in z42).
func (p *picker) keepMatching(dst []uint16, start int, look func(*entry) (fits, fallback bool)) []uint16 {
	anyFits, anyFallback := false, false
	for _, i := range dst[start:] {
		fits, fallback := look(&p.entries[i])
		anyFits, anyFallback = anyFits || fits, anyFallback || fallback
	}
	if !anyFits && !anyFallback {
		if p.strict {
			return dst[:start]
		}
		return dst
	}
	kept := dst[:start]
	for _, i := range dst[start:] {
		if fits, fallback := look(&p.entries[i]); anyFits && fits || !anyFits && fallback {
			kept = append(kept, i)
		}
	}
	return kept
}

// nearest keeps those with the smallest distance to the client, several if they are at one
// place. Unknown places count as the farthest.
func (p *picker) nearest(dst []uint16, start int, client geo.Spot) []uint16 {
	s := p.spots.Load()
	if s == nil || s.generation != p.geo.Generation() {
		s = p.locate()
	}
	best := -2.0
	for _, i := range dst[start:] {
		if s.of[i].Known() {
			best = max(best, client.Cosine(s.of[i]))
		}
	}
	if best == -2 {
		return dst
	}
	kept := dst[:start]
	for _, i := range dst[start:] {
		if s.of[i].Known() && client.Cosine(s.of[i]) == best {
			kept = append(kept, i)
		}
	}
	return kept
}

// locate looks up the locations of the addresses, once for each version of the file.
func (p *picker) locate() *spots {
	s := &spots{generation: p.geo.Generation()}
	for i := range p.entries {
		s.of[i] = p.geo.Place(p.entries[i].addr).Spot
	}
	p.spots.Store(s)
	return s
}

// arrange orders the selection, with a different first address each time.
func (p *picker) arrange(dst []uint16, start int) []uint16 {
	left := dst[start:]
	if len(left) == 0 {
		return dst
	}
	first := 0
	switch p.order {
	case roundRobin:
		first = int((p.turn.Add(1) - 1) % uint32(len(left)))
	case weighted:
		first = p.byWeight(left)
	}
	if p.single {
		left[0] = left[first]
		return dst[:start+1]
	}
	rotate(left, first)
	return dst
}

// byWeight picks one at random by weight; any if no weights are given.
func (p *picker) byWeight(left []uint16) int {
	sum := uint32(0)
	for _, i := range left {
		sum += p.entries[i].weight
	}
	if sum == 0 {
		return rand.IntN(len(left))
	}
	at := rand.Uint32N(sum)
	for k, i := range left {
		w := p.entries[i].weight
		if at < w {
			return k
		}
		at -= w
	}
	return 0
}

// rotate moves the element at first to the front, in place.
func rotate(s []uint16, first int) {
	if first == 0 {
		return
	}
	reverse(s[:first])
	reverse(s[first:])
	reverse(s)
}

func reverse(s []uint16) {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
}
