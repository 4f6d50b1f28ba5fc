package resolver

import (
	"context"
	"fmt"
	miekg "github.com/miekg/dns"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/resolver/cache"
	"shuultuur/setting"
)

// DNS64 is the prefix of IPv6 addresses that a translator (NAT64) maps to IPv4 (RFC 6147); the
// zero value means none. In the settings it is true for the well-known prefix 64:ff9b::/96, or
// a prefix of 32, 40, 48, 56, 64 or 96 bits (RFC 6052 section 2.2).
type DNS64 struct{ netip.Prefix }

// UnmarshalYAML reads true, false or a prefix.
func (d *DNS64) UnmarshalYAML(read func(any) error) error {
	var on bool
	if read(&on) == nil {
		*d = DNS64{}
		if on {
			d.Prefix = nat64
		}
		return nil
	}
	var s string
	if err := read(&s); err != nil {
		return err
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor a prefix such as %v", s, nat64)
	}
	d.Prefix = p
	return nil
}

// check returns why d is invalid.
func (d DNS64) check() error {
	if !d.IsValid() {
		return nil
	}
	b := d.Addr().As16()
	switch {
	case !d.Addr().Is6() || d.Addr().Is4In6():
		return fmt.Errorf("%v is not a prefix of IPv6", d)
	case !slices.Contains([]int{32, 40, 48, 56, 64, 96}, d.Bits()):
		return fmt.Errorf("%v: the length is none of 32, 40, 48, 56, 64 and 96", d)
	case d.Masked() != d.Prefix:
		return fmt.Errorf("%v has bits set beyond its length; write %v", d, d.Masked())
	case b[8] != 0:
		return fmt.Errorf("%v: bits 64 to 71 have to be zero (RFC 6052 section 2.2)", d)
	}
	return nil
}

// embed returns the IPv6 address that embeds an IPv4 address.
func (d DNS64) embed(v4 [4]byte) netip.Addr {
	b := d.Addr().As16()
	i := d.Bits() / 8
	for _, x := range v4 {
		if i == 8 { // bits 64 to 71 are zero
			i++
		}
		b[i] = x
		i++
	}
	return netip.AddrFrom16(b)
}

// embeddedIPv4 returns the IPv4 address embedded in a, or else a.
func (d DNS64) embeddedIPv4(a netip.Addr) netip.Addr {
	if !d.IsValid() || !d.Contains(a) {
		return a
	}
	b := a.As16()
	var v4 [4]byte
	i := d.Bits() / 8
	for j := range v4 {
		if i == 8 {
			i++
		}
		v4[j] = b[i]
		i++
	}
	return netip.AddrFrom4(v4)
}

// maps reports whether a may be mapped: the well-known prefix is only for global addresses
// (RFC 6052 section 3.1).
func (d DNS64) maps(a netip.Addr) bool {
	if d.Prefix != nat64 {
		return true
	}
	return !isPrivate(a) && !slices.ContainsFunc(notGlobal, func(p netip.Prefix) bool { return p.Contains(a) })
}

// notGlobal are the networks of RFC 5735 section 3 that are not private.
var notGlobal = []netip.Prefix{
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
}

// ipv4only is the name by which clients discover the prefix (RFC 7050), in wire form. A
// resolver with DNS64 answers it itself (RFC 8880 section 7.1).
const ipv4only = "\x08ipv4only\x04arpa\x00"

// sixth adds mapped IPv6 addresses to local names that have only IPv4 addresses, and adds
// ipv4only.arpa.
func (l *local) sixth(d DNS64) {
	if !d.IsValid() {
		return
	}
	for _, hosts := range []map[string]*host{l.exact, l.below} {
		for _, h := range hosts {
			if len(h.v6) > 0 {
				continue
			}
			for _, b := range h.v4 {
				if v4 := [4]byte(b); d.maps(netip.AddrFrom4(v4)) {
					h.v6 = append(h.v6, d.embed(v4).AsSlice())
				}
			}
		}
	}
	if l.exact[ipv4only] != nil {
		return
	}
	h := new(host)
	for _, v4 := range [][4]byte{{192, 0, 0, 170}, {192, 0, 0, 171}} {
		h.add(netip.AddrFrom4(v4))
		h.add(d.embed(v4)) // the only use of the well-known prefix for these
		l.pointer(netip.AddrFrom4(v4), []byte(ipv4only))
	}
	l.exact[ipv4only] = h
	l.kinds[ipv4only] = empty
}

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

// synthetic answers q with mapped addresses. The plain answer e lacks addresses and begins at
// from in a.
func (r *Resolver) synthetic(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, from int, plain *cache.Entry) dns.Outcome {
	k := keyOf(q)
	k.Variant = r.variantOf(change{dns64: true})
	end := len(a.Buf)
	buf, e, ok, stale := r.parts.Store.get(&k, q.At, a.Buf)
	switch {
	case ok:
		buf = append(buf[:from], buf[end:]...)
	case ctx == nil:
		a.Buf, a.Stale = a.Buf[:from], stale
		return dns.Later
	default:
		e = r.ipv6Answer(ctx, q, q.Name, a.Buf[from:], *plain, nil)
		if e.TTL > 0 && e.Flags&cache.Failure == 0 {
			r.parts.Store.cache.Put(&k, q.At, &e)
		}
		buf = append(a.Buf[:from], e.Body...)
	}
	a.Buf = buf
	fill(q, a, &e)
	return r.judgeAnswer(ctx, q, a, t, from, &e)
}

// noSOATTL bounds the TTL of a synthesised record when nothing says how long there will be no
// real one (RFC 6147 section 5.1.7).
const noSOATTL = 600

// ipv6Answer makes the DNS64 answer for name, whose plain answer lacks addresses. lead, if not
// nil, puts an alias in front. The result is not marked as validated, because it is not
// signed.
func (r *Resolver) ipv6Answer(ctx context.Context, q *dns.Query, name, body []byte, plain cache.Entry, lead func(*miekg.Msg)) cache.Entry {
	most := uint32(noSOATTL)
	good := 0
	same := lead == nil // return the plain answer if there is nothing to synthesise
	if lead == nil {
		lead = func(*miekg.Msg) {}
	}
	kept := r.changedEntry(q, name, body, plain, func(m *miekg.Msg) {
		for _, rr := range m.Ns {
			if rr.Header().Rrtype == dns.TypeSOA && plain.Flags&cache.Negative != 0 {
				most = rr.Header().Ttl // it includes the minimum of the zone, see clamp
			}
		}
		mapped := func(rr miekg.RR) bool {
			x, ok := rr.(*miekg.AAAA)
			return ok && x.AAAA.To4() != nil
		}
		if slices.ContainsFunc(m.Answer, mapped) {
			m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool { return mapped(rr) || covers(rr, dns.TypeAAAA) })
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
	k := cache.Key{Name: name, Type: dns.TypeA, Class: q.Class, DO: q.DO, CD: q.CD()}
	body, four := r.parts.Store.wait(ctx, &k, q.At, nil)
	if four.Flags&cache.Failure != 0 {
		four.Body = nil
		return four
	}
	if four.Rcode != 0 || four.Flags&cache.Negative != 0 {
		return kept
	}
	synthesised := 0
	e := r.changedEntry(q, name, body, four, func(m *miekg.Msg) {
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

// answerEmbeddedPTR answers a PTR query for an address that embeds an IPv4 address with an
// alias to that one's name (RFC 6147 section 5.3.1).
func (r *Resolver) answerEmbeddedPTR(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction) dns.Outcome {
	addr, ok := r.pointee(q)
	if !ok {
		return dns.Declined
	}
	name := dns.Reverse(addr)
	labels := dns.Labels(nil, name)
	if r.local.find(name, labels) == nil {
		if k, at := r.local.special(name, labels); k != 0 {
			r.local.answer(k, at, q, a, &r.block)
			return dns.Answered
		}
	}
	if t.Verdict.Action != filter.Allow && !r.alsoPasses(a, t, name, netip.Addr{}) {
		return r.refuse(ctx, q, a, t)
	}
	return r.variant(ctx, q, a, t, change{to: strings.TrimSuffix(dns.Text(name), ".")})
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
