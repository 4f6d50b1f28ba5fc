package resolver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// Zones are zones of our own. They answer before any policy is asked.
type Zones interface {
	// Depth returns the number of labels of the longest zone for a name that the client sees,
	// -1 when there is none.
	Depth(name []byte, labels []uint8, client netip.Addr) int
	Answer(q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome
	Wait(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome
}

// With returns a resolver that completes the answers of zones for clients that it serves, and
// knows them as names of ours. Other clients it leaves to the zones.
func (r *Resolver) With(z Zones) *Resolver {
	w := r.clone()
	w.zones = z
	return w
}

func (r *Resolver) clone() *Resolver {
	return &Resolver{parts: r.parts, block: r.block, local: r.local, zones: r.zones, private: r.private, anywhere: r.anywhere,
		whole: r.whole, warn: r.warn, warnTo: r.warnTo, dns64: r.dns64, dns64Variant: r.dns64Variant, ids: r.ids, needs: r.needs}
}

// An owner is who knows what records a name has.
type owner uint8

const (
	others owner = iota // upstreams, and rules about special names
	hosts
	zones
)

// ownerOf returns the owner of a name: the longest domain decides between zones, hosts and
// routes. At the same length a zone comes before hosts, and these before a route. PTR names that
// follow from hosts are no domains of their own: a zone comes before them.
func (r *Resolver) ownerOf(name []byte, labels []uint8, qtype uint16, client netip.Addr) (owner, *host) {
	h, host := r.local.find(name, labels)
	zone := -1
	if r.zones != nil {
		zoneName, zoneLabels := name, labels
		if qtype == dns.TypeDS && len(labels) > 0 { // the parent zone has them
			if zoneLabels = labels[1:]; len(zoneLabels) == 0 {
				zoneName = name[len(name)-1:]
			}
		}
		zone = r.zones.Depth(zoneName, zoneLabels, client)
	}
	if zone < 0 && h == nil {
		return others, nil
	}
	route := r.local.routeDepth(name, labels)
	derived := h != nil && len(h.names) > 0 && len(h.v4)+len(h.v6) == 0 && h.alias == ""
	switch {
	case zone >= 0 && zone >= route && (zone >= host || derived):
		return zones, nil
	case h != nil && host >= route:
		return hosts, h
	}
	return others, nil
}

// IsOurs reports whether a zone answers q.
func (r *Resolver) IsOurs(q *dns.Query) bool {
	by, _ := r.ownerOf(q.Name, q.Labels, q.Type, q.Client.Addr())
	return by == zones
}

// answerZone answers from a zone, and completes the answer.
func (l *lookup) answerZone() dns.Outcome {
	a := l.a
	o := l.askZone()
	if o != dns.Answered {
		return o
	}
	a.RA = true
	if !l.q.RD() || a.TC {
		return o
	}
	switch {
	case l.isReferral():
		return l.askBelow()
	case a.Answers > 0 && l.beginsWithAlias():
		l.tail, l.tailOwner = l.q.Name, zones
		if !l.identify() {
			return dns.Later
		}
		l.describe()
		if !l.follow() {
			return dns.Later
		}
		if l.followed && !l.passes() {
			l.drop()
			if !l.refuse() {
				return dns.Later
			}
		}
	}
	return dns.Answered
}

// askZone has the zones answer, without a policy.
func (l *lookup) askZone() dns.Outcome {
	if l.waits && !l.q.Late {
		return l.r.zones.Wait(l.ctx, l.q, l.a, l.t)
	}
	return l.r.zones.Answer(l.q, l.a, l.t)
}

// isReferral reports whether the reply only says which servers to ask.
func (l *lookup) isReferral() bool {
	a := l.a
	if a.AA || a.Answers > 0 || a.Authorities == 0 || a.Rcode != dns.RcodeSuccess {
		return false
	}
	x, err := dns.ReadRecord(a.Buf, l.start)
	return err == nil && x.Type == dns.TypeNS
}

// askBelow answers a name in a delegated zone as any other name, with what upstreams say. If they
// say nothing, the client gets the referral.
func (l *lookup) askBelow() dns.Outcome {
	a := l.a
	referral := append([]byte(nil), a.Buf[l.start:]...)
	counts := [3]uint16{a.Answers, a.Authorities, a.Additionals}
	if !l.identify() {
		return dns.Later
	}
	l.drop()
	l.decide()
	if o := l.give(); o != dns.Answered {
		return o
	}
	if a.Rcode == dns.RcodeServFail && l.source == stored {
		a.Buf = append(a.Buf[:l.start], referral...)
		a.Answers, a.Authorities, a.Additionals = counts[0], counts[1], counts[2]
		a.Rcode, a.HasEDE, a.EDE, a.EDEText = dns.RcodeSuccess, false, 0, nil
	}
	return dns.Answered
}

// beginsWithAlias reports whether the first answer is an alias.
func (l *lookup) beginsWithAlias() bool {
	x, err := dns.ReadRecord(l.a.Buf, l.start)
	return err == nil && (x.Type == dns.TypeCNAME || x.Type == dns.TypeDNAME) && l.q.Type != dns.TypeCNAME && l.q.Type != dns.TypeANY
}

// Overlaps says which hosts and routes are hidden by zones, and which hide what zones have.
// origins are the zones' names in wire form; hasData reports whether one has records at a name,
// apart from a delegation.
func (r *Resolver) Overlaps(origins [][]byte, hasData func(origin, name []byte) bool) (all []string) {
	look := func(what string, name []byte) {
		var zone []byte
		for _, o := range origins {
			if dns.Within(name, o) && len(o) > len(zone) {
				zone = o
			}
		}
		switch {
		case zone == nil:
		case len(zone) == len(name):
			all = append(all, fmt.Sprintf("%s: the zone %s answers for these names, because no domain there is longer; remove one of them", what, dns.Text(zone)))
		case hasData(zone, name):
			all = append(all, fmt.Sprintf("%s: it hides the records that the zone %s has there; remove one of them", what, dns.Text(zone)))
		}
	}
	for name, h := range r.local.exact {
		if len(h.v4)+len(h.v6) > 0 || h.alias != "" {
			look("dns.hosts."+hostText(name), []byte(name))
		}
	}
	for name := range r.local.below {
		look("dns.hosts.*."+hostText(name), []byte(name))
	}
	for name := range r.local.routed {
		look("dns.forward.routes."+hostText(name), []byte(name))
	}
	slices.Sort(all)
	return all
}

func hostText(name string) string { return string(dns.AppendHost(nil, []byte(name))) }

// Problems lists damaged lines of hosts files, and what policies would cut the gateway off from.
func (r *Resolver) Problems() []string {
	all := slices.Clone(r.local.faults)
	if n := r.local.damaged - len(all); n > 0 {
		all = append(all, fmt.Sprintf("dns.hosts-files: %d more lines and names are skipped", n))
	}
	return append(all, r.needs.problems()...)
}
