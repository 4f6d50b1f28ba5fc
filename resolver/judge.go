package resolver

import (
	"context"
	"net/netip"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/resolver/cache"
)

// passes has the policy judge the contents of an answer besides the queried name: the names it
// leads to, so that an alias does not hide a blocked name, and addresses. An answer that does not
// pass is refused.
func (l *lookup) passes() (ok bool) {
	flags := l.flags
	if l.followed {
		flags = cache.Aliases | cache.Address | cache.Private // it may have them
	}
	// An address below the prefix gives access to the one embedded in it.
	aliases, addresses := flags&cache.Aliases != 0, flags&cache.Address != 0 && (l.r.parts.Addresses || l.r.dns64.IsValid())
	switch {
	case l.refused:
		return false
	case l.t.Verdict.Action == filter.Allow:
		return true
	case flags&cache.Private != 0 && !l.mayBePrivate() && l.isRebinding():
		l.block("rebinding", filter.NoData)
		return false
	case !aliases && !addresses:
		return true
	}
	off := l.start
	ok = true
	for i := uint16(0); ok && i < l.a.Answers; i++ {
		x, err := dns.ReadRecord(l.a.Buf, off)
		if err != nil {
			break // entryOf has read it
		}
		off = x.End
		if i < l.unjudged {
			continue
		}
		switch x.Type {
		case dns.TypeCNAME, dns.TypeDNAME:
			ok = !aliases || l.aliasPasses(x.Data)
		case dns.TypeA, dns.TypeAAAA, dns.TypeSVCB, dns.TypeHTTPS:
			if at := serviceTarget(l.a.Buf, x); at > 0 {
				ok = !aliases || l.aliasPasses(at)
			}
			ok = ok && (!addresses || l.addressesPass(x))
		}
	}
	return ok
}

// isRebinding reports whether an answer has an address of a private network whose owner may have
// none. What our zones and hosts say, and the servers of a route, is meant.
func (l *lookup) isRebinding() bool {
	off, found := l.start, false
	for range l.a.Answers {
		x, err := dns.ReadRecord(l.a.Buf, off)
		if err != nil {
			return true
		}
		off = x.End
		switch x.Type {
		case dns.TypeA, dns.TypeAAAA, dns.TypeSVCB, dns.TypeHTTPS:
		default:
			continue
		}
		var buf [16]netip.Addr
		all, _ := appendAddresses(buf[:0], l.a.Buf, x)
		for _, a := range all {
			if isPrivate(a) || isPrivate(l.r.dns64.embeddedIPv4(a)) {
				if found = true; !l.ownerMayBePrivate(x.Owner) {
					return true
				}
			}
		}
	}
	return !found && !l.followed // the entry says that there was one
}

// ownerMayBePrivate reports whether the name at off, which owns a record of the answer, may have
// addresses in private networks.
func (l *lookup) ownerMayBePrivate(off int) bool {
	var name [256]byte
	n, _, err := dns.ReadName(name[:0], l.a.Buf, off)
	if err != nil {
		return false
	}
	var room [128]uint8
	labels := dns.Labels(room[:0], n)
	for _, at := range labels {
		if _, found := l.r.private[string(n[at:])]; found {
			return true
		}
	}
	by, _ := l.r.ownerOf(n, labels, l.q.Type, l.q.Client.Addr())
	return by != others
}

// aliasPasses judges the name at an offset, which an alias leads to.
func (l *lookup) aliasPasses(at int) bool {
	var name [256]byte
	n, _, err := dns.ReadName(name[:0], l.a.Buf, at)
	return err == nil && l.alsoPasses(n, netip.Addr{})
}

// addressesPass judges the addresses in a record, or those embedded in them.
func (l *lookup) addressesPass(x dns.Record) bool {
	var buf [16]netip.Addr
	all, ok := appendAddresses(buf[:0], l.a.Buf, x)
	for i := 0; ok && i < len(all); i++ {
		a := l.r.dns64.embeddedIPv4(all[i])
		if a != all[i] && isPrivate(a) && !l.mayBePrivate() {
			l.block("rebinding", filter.NoData)
			return false
		}
		ok = !l.r.parts.Addresses || l.alsoPasses(nil, a)
	}
	return ok
}

// alsoPasses judges a name or an address that an answer leads to, as a host of the same
// transaction. If it is refused, the transaction keeps that verdict.
func (l *lookup) alsoPasses(name []byte, addr netip.Addr) bool {
	a, t := l.a, l.t
	asked, was := t.Host, t.Verdict
	at := len(a.Text)
	if name != nil {
		a.Text = dns.AppendHost(a.Text, name)
	} else {
		a.Text = addr.AppendTo(a.Text)
	}
	t.Asked, t.Host, t.Verdict, t.Findings = asked, asString(a.Text[at:]), filter.Verdict{}, t.Findings[:0]
	l.r.parts.Decider.Decide(context.Background(), t, filter.Name)
	led := t.Host
	t.Asked, t.Host = "", asked
	pass := !t.Verdict.Final() || t.Verdict.Action == filter.Warn && l.r.warn == filter.Pass
	if pass && (t.Verdict.After == 0 || was.After > 0) {
		t.Verdict = was
	} else { // refused, or it passes only because of a pause
		t.Note = led // see Record
	}
	return pass
}

// mayBePrivate reports whether the queried name may have addresses in private networks.
func (l *lookup) mayBePrivate() bool {
	found := l.r.anywhere
	for i := 0; !found && i < len(l.q.Labels); i++ {
		_, found = l.r.private[string(l.q.Name[l.q.Labels[i]:])]
	}
	return found
}
