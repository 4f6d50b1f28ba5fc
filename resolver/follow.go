package resolver

import (
	"encoding/binary"
	"slices"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/resolver/cache"
)

// follow completes an answer with the records of aliases that lead elsewhere: to a name of ours,
// or from one to a name of others, or to one of which an upstream has said nothing. It reports
// false if the lookup would have to wait.
func (l *lookup) follow() bool {
	seen := make([]string, 0, 4)
	for range dns.MaxAliases {
		target := l.leaves()
		if target == nil || slices.Contains(seen, string(target)) || string(target) == string(l.q.Name) {
			return true
		}
		seen = append(seen, string(target))
		sub, ok := l.ofTarget(target)
		if !ok {
			return false
		}
		if !l.graft(target, sub) {
			return true
		}
	}
	return true
}

// leaves returns the first name that an alias at the end of the answer leads to and that has
// another owner than the alias, nil when there is none.
func (l *lookup) leaves() (target []byte) {
	client := l.q.Client.Addr()
	a := l.a
	a.Text = slices.Grow(a.Text, 256+128) // memory for a name and its labels, which is used again
	n := len(a.Text)
	last, room := a.Text[n:n:n+256], a.Text[n+256:n+256:n+384]
	tail := l.tailOwner
	c, err := dns.FollowAliases(last, a.Buf, l.start, a.Answers, a.Authorities, l.tail, l.q.Type, func(name []byte) bool {
		by, h := l.r.ownerOf(name, dns.Labels(room, name), l.q.Type, client)
		switch {
		case by == others && tail != zones:
			tail = others // an alias of hosts or of the policy is answered together with its target
			return true
		case by == zones && tail == zones:
			return true
		case h != nil && h.alias == "" && tail == hosts: // so is this one
			return false
		}
		target = slices.Clone(name)
		return false
	})
	switch {
	case err != nil:
		return nil
	case target != nil:
		return target
	case l.a.Rcode != dns.RcodeSuccess || !c.Open() || !l.q.RD():
	case tail == others, tail == zones && a.Authorities > 0: // the latter is a delegation
		return slices.Clone(c.Last)
	}
	return nil
}

// ofTarget answers the question of l for another name, without a policy: what an answer leads
// to is judged when it is complete. ok is false if that would have to wait.
func (l *lookup) ofTarget(name []byte) (sub *lookup, ok bool) {
	q := new(dns.Query)
	if q.Parse(dns.AppendQuery(nil, name, l.q.Type, 0)) != dns.OK {
		return nil, false // a name in wire form always can be read
	}
	q.Flags = l.q.Flags
	q.EDNS, q.Client, q.Local, q.Transport, q.ClientID = l.q.EDNS, l.q.Client, l.q.Local, l.q.Transport, l.q.ClientID
	q.At, q.Recursion, q.Late = l.q.At, l.q.Recursion, l.q.Late
	sub = &lookup{r: l.r, q: q, a: new(dns.Reply), t: new(filter.Transaction), client: l.client, waits: l.waits, ctx: l.ctx}
	sub.a.Start(q, nil, 1<<16)
	sub.start, sub.tail = len(sub.a.Buf), q.Name
	var h *host
	switch sub.tailOwner, h = l.r.ownerOf(q.Name, q.Labels, q.Type, q.Client.Addr()); {
	case sub.tailOwner == zones:
		if o := sub.askZone(); o == dns.Later {
			return nil, false
		} else if o == dns.Answered && !sub.isReferral() {
			return sub, true
		}
		sub.drop()
		sub.tailOwner = others
	case h != nil && h.alias != "":
		sub.alias(h.alias)
		if sub.source == written {
			return sub, true
		}
		return sub, sub.load()
	case h != nil:
		h.answer(q, sub.a, &l.r.block)
		return sub, true
	}
	if special, at := l.r.local.special(q.Name, q.Labels); special != 0 {
		l.r.local.answer(special, at, q, sub.a, &l.r.block)
		return sub, true
	}
	sub.source = stored
	return sub, sub.load()
}

// graft replaces what an answer has after the alias to target by the answer for target. It
// reports false when the answer is complete thereby: it has failed.
func (l *lookup) graft(target []byte, sub *lookup) bool {
	a, b := l.a, sub.a
	m, ok := l.message()
	if b.Rcode == dns.RcodeServFail {
		if ok && l.tailOwner == zones && !l.followed {
			l.unjudged = uint16(lastAlias(m.Answer))
		}
		l.followed = true
		l.refused = l.change.to == "" && !l.passes()
		l.drop()
		a.Rcode, a.AD, a.HasEDE, a.EDE, a.EDEText = b.Rcode, false, b.HasEDE, b.EDE, b.EDEText
		return false
	}
	n, ok2 := sub.message()
	if !ok || !ok2 {
		l.drop()
		a.Rcode, a.AD = dns.RcodeServFail, false
		return false
	}
	names := map[string]bool{}
	if _, err := dns.FollowAliases(nil, a.Buf, l.start, a.Answers, 0, l.q.Name, l.q.Type, func(name []byte) bool {
		names[dns.Text(name)] = true
		return string(name) != string(target)
	}); err != nil {
		return false
	}
	keepPath(m, names)
	kept := len(m.Answer)
	m.Answer, m.Ns, m.Extra = append(m.Answer, n.Answer...), append(m.Ns, n.Ns...), nil
	if !l.q.DO {
		m.Ns = n.Ns
	}
	m.Rcode, m.Compress = 0, true
	out, err := m.Pack()
	if err != nil || len(out) < l.start {
		l.drop()
		a.Rcode, a.AD = dns.RcodeServFail, false
		return false
	}
	if l.tailOwner == zones && !l.followed {
		l.unjudged = uint16(lastAlias(m.Answer[:kept]))
	}
	a.Buf = append(a.Buf[:l.start], out[l.start:]...)
	a.Answers, a.Authorities, a.Additionals = uint16(len(m.Answer)), uint16(len(m.Ns)), 0
	a.Rcode, a.AD = b.Rcode, a.AD && b.AD
	a.HasEDE, a.EDE, a.EDEText = b.HasEDE, b.EDE, b.EDEText
	l.tail, l.tailOwner, l.followed = target, sub.tailOwner, true
	return true
}

// lastAlias returns the index of the last alias, which leads to another owner.
func lastAlias(rrs []miekg.RR) int {
	for i, rr := range slices.Backward(rrs) {
		if rr.Header().Rrtype == dns.TypeCNAME {
			return i
		}
	}
	return 0
}

// keepPath removes the records that do not lead from the question to names, and from the
// authority section all but proofs.
func keepPath(m *miekg.Msg, names map[string]bool) {
	owners := []string{}
	for _, rr := range m.Answer {
		if c, ok := rr.(*miekg.CNAME); ok && names[miekg.CanonicalName(c.Target)] {
			owners = append(owners, miekg.CanonicalName(c.Hdr.Name))
		}
	}
	m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool {
		name, t := miekg.CanonicalName(rr.Header().Name), rr.Header().Rrtype
		if s, ok := rr.(*miekg.RRSIG); ok {
			t = s.TypeCovered
		}
		switch t {
		case dns.TypeCNAME:
			return !slices.Contains(owners, name)
		case dns.TypeDNAME:
			return !slices.ContainsFunc(owners, func(o string) bool { return miekg.IsSubDomain(name, o) })
		}
		return true
	})
	m.Ns = slices.DeleteFunc(m.Ns, func(rr miekg.RR) bool {
		t := rr.Header().Rrtype
		if s, ok := rr.(*miekg.RRSIG); ok {
			t = s.TypeCovered
		}
		return t != miekg.TypeNSEC && t != miekg.TypeNSEC3
	})
}

// message reads the reply so far.
func (l *lookup) message() (*miekg.Msg, bool) {
	a := l.a
	msg := slices.Clone(a.Buf)
	binary.BigEndian.PutUint16(msg[4:], 1)
	binary.BigEndian.PutUint16(msg[6:], a.Answers)
	binary.BigEndian.PutUint16(msg[8:], a.Authorities)
	binary.BigEndian.PutUint16(msg[10:], a.Additionals)
	m := new(miekg.Msg)
	return m, m.Unpack(msg) == nil
}

// mayLead reports whether the answer from the store has to be followed: it has aliases, and an
// upstream has not followed them, or some of them may lead to names of ours.
func (l *lookup) mayLead(e *cache.Entry) bool {
	if e.Flags&cache.Aliases == 0 || l.q.Type == dns.TypeCNAME {
		return false
	}
	return e.Flags&cache.Open != 0 || l.r.zones != nil || len(l.r.local.exact)+len(l.r.local.below) > 0
}
