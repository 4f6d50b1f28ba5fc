package resolver

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
	"shuultuur/resolver/cache"
)

// synthesises reports whether q may get mapped addresses. A client that validates gets the
// signed records (RFC 6147 section 5.5).
func (r *Resolver) synthesises(q *dns.Query) bool {
	return r.dns64.IsValid() && q.Type == dns.TypeAAAA && !(q.DO && q.CD())
}

// needsDNS64 reports whether e, an answer for AAAA, has no addresses, or only ones to ignore, so
// that DNS64 applies. No answer at all counts as none (RFC 6147 sections 5.1.2 and 5.1.3),
// except with validation, which requires a proof (section 5.5).
func (r *Resolver) needsDNS64(e *cache.Entry) bool {
	if e.Flags&cache.Failure != 0 {
		return !r.parts.Validated
	}
	return e.Rcode == 0 && e.Flags&(cache.Negative|cache.Mapped) != 0
}

// noSOATTL bounds the TTL of a synthesised record when nothing says how long there will be no
// real one (RFC 6147 section 5.1.7).
const noSOATTL = 600

// mapped makes the DNS64 answer for name, whose plain answer lacks addresses. lead, if not
// nil, puts an alias in front. The result is not marked as validated, because it is not
// signed.
func (l *lookup) mapped(name, body []byte, plain cache.Entry, lead func(*miekg.Msg)) cache.Entry {
	r, q := l.r, l.q
	most := uint32(noSOATTL)
	good := 0
	same := lead == nil // return the plain answer if there is nothing to synthesise
	if lead == nil {
		lead = func(*miekg.Msg) {}
	}
	kept := l.changed(name, body, plain, func(m *miekg.Msg) {
		for _, rr := range m.Ns {
			if rr.Header().Rrtype == dns.TypeSOA && plain.Flags&cache.Negative != 0 {
				most = rr.Header().Ttl // it includes the minimum of the zone, see clamp
			}
		}
		isMapped := func(rr miekg.RR) bool {
			x, ok := rr.(*miekg.AAAA)
			return ok && x.AAAA.To4() != nil
		}
		if slices.ContainsFunc(m.Answer, isMapped) {
			m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool { return isMapped(rr) || covers(rr, dns.TypeAAAA) })
			same = false
		}
		for _, rr := range m.Answer {
			if rr.Header().Rrtype == dns.TypeAAAA {
				good++
			}
		}
		lead(m)
	})
	if good > 0 { // the others are ignored, RFC 6147 section 5.1.4
		return kept
	}
	if plain.Flags&cache.Failure != 0 {
		kept = plain
		kept.Body = nil
	} else if same {
		kept.Flags |= plain.Flags & cache.AD
	}
	k := l.keyOf(q)
	k.Name, k.Type = name, dns.TypeA
	body, four := r.parts.Store.wait(l.ctx, &k, q.At, nil)
	if four.Flags&cache.Failure != 0 {
		four.Body = nil
		return four
	}
	if four.Rcode != 0 || four.Flags&cache.Negative != 0 {
		return kept
	}
	synthesised := 0
	e := l.changed(name, body, four, func(m *miekg.Msg) {
		m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool {
			x, ok := rr.(*miekg.A)
			if !ok {
				return covers(rr, dns.TypeA)
			}
			v4, _ := netip.AddrFromSlice(x.A.To4())
			return !v4.IsValid() || !r.dns64.maps(v4)
		})
		m.Ns = nil // proofs about the A records
		for i, rr := range m.Answer {
			if x, ok := rr.(*miekg.A); ok {
				h := x.Hdr
				h.Rrtype, h.Ttl = dns.TypeAAAA, min(h.Ttl, most)
				m.Answer[i] = &miekg.AAAA{Hdr: h, AAAA: r.dns64.embed([4]byte(x.A.To4())).AsSlice()}
				synthesised++
			}
		}
		lead(m)
	})
	if synthesised == 0 && e.Flags&cache.Failure == 0 {
		e = kept
	}
	// Whether the target is a private address does not depend on the prefix.
	e.Flags = e.Flags&^cache.Private | four.Flags&cache.Private
	return e
}

// covers reports whether rr is a signature of records of a type.
func covers(rr miekg.RR, typ uint16) bool {
	x, ok := rr.(*miekg.RRSIG)
	return ok && x.TypeCovered == typ
}

// embedded answers a PTR query for an address that embeds an IPv4 address with an alias to that
// one's name (RFC 6147 section 5.3.1).
func (l *lookup) embedded() {
	r := l.r
	addr, ok := r.pointee(l.q)
	if !ok {
		return
	}
	name := dns.Reverse(addr)
	labels := dns.Labels(nil, name)
	special, at := r.local.special(name, labels)
	switch {
	case special != 0 && !r.local.has(name, labels):
		r.local.answer(special, at, l.q, l.a, &r.block)
		l.source = written
	case l.t.Verdict.Action != filter.Allow && !l.alsoPasses(name, netip.Addr{}):
		l.source = verdict
	default:
		l.source, l.change = stored, change{to: strings.TrimSuffix(dns.Text(name), ".")}
	}
}

// pointee returns the IPv4 address embedded in the one whose name q queries.
func (r *Resolver) pointee(q *dns.Query) (netip.Addr, bool) {
	const digits = 32
	if !r.dns64.IsValid() || q.Type != dns.TypePTR || len(q.Labels) != digits+2 || string(q.Name[2*digits:]) != "\x03ip6\x04arpa\x00" {
		return netip.Addr{}, false
	}
	var b [16]byte
	for i := range digits {
		c := q.Name[2*i+1]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return netip.Addr{}, false
		}
		b[15-i/2] |= c << (4 * (i & 1))
	}
	addr := netip.AddrFrom16(b)
	if !r.dns64.Contains(addr) {
		return netip.Addr{}, false
	}
	return r.dns64.embeddedIPv4(addr), true
}

// DNS64 describes the effect of DNS64 on an upstream's answer, "" for none.
func (r *Resolver) DNS64(q *dns.Query) string {
	if r.synthesises(q) {
		return fmt.Sprintf("where there is no IPv6 address, those below %v that stand for the IPv4 ones", r.dns64)
	}
	if addr, ok := r.pointee(q); ok {
		return fmt.Sprintf("the name of %v, for which the address below %v stands", addr, r.dns64)
	}
	return ""
}

// newDNS64 checks d, and computes the value that distinguishes its answers in a
// cache that outlives it.
func (r *Resolver) newDNS64(d DNS64) error {
	if err := d.check(); err != nil {
		return setting.At("dns64", err)
	}
	r.dns64 = d
	if d.IsValid() {
		r.dns64Variant = maphash.String(r.parts.Store.seed, d.String())
	}
	return nil
}
