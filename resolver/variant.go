package resolver

import (
	"context"
	"encoding/binary"
	"fmt"
	miekg "github.com/miekg/dns"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/dns"
	"shuultuur/filter"
	"shuultuur/resolver/cache"
)

// A change is how an answer differs from the plain one: it is that of another name, or lacks
// something.
type change struct {
	to             string // another name, as text
	noHTTP3, noECH bool
	dns64          bool // addresses may be mapped
}

// variantOf returns the change as a part of a cache key, never 0.
func (r *Resolver) variantOf(c change) uint64 {
	h := maphash.String(r.parts.Store.seed, c.to)
	if c.noHTTP3 {
		h ^= 1
	}
	if c.noECH {
		h ^= 2
	}
	if c.dns64 {
		h ^= r.dns64Variant
	}
	return h | 1<<63
}

// alias answers with another name and its addresses.
func (r *Resolver) alias(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, to string) dns.Outcome {
	// Few names end in a digit; parsing each as an address would allocate an error.
	if n := len(to); n > 0 && '0' <= to[n-1] && to[n-1] <= '9' || strings.Contains(to, ":") {
		if addr, err := netip.ParseAddr(to); err == nil {
			return r.answerAddress(q, a, addr.Unmap())
		}
	}
	switch q.Type {
	case dns.TypeA, dns.TypeAAAA, dns.TypeCNAME:
		return r.variant(ctx, q, a, t, change{to: to, dns64: r.synthesises(q)})
	}
	r.block.noData(a)
	return dns.Answered
}

// answerAddress answers with another address.
func (r *Resolver) answerAddress(q *dns.Query, a *dns.Reply, addr netip.Addr) dns.Outcome {
	switch {
	case q.Type == dns.TypeA && addr.Is4():
		b := addr.As4()
		r.block.address(a, dns.TypeA, b[:])
	case q.Type == dns.TypeAAAA && addr.Is6():
		b := addr.As16()
		r.block.address(a, dns.TypeAAAA, b[:])
	default:
		r.block.noData(a)
	}
	return dns.Answered
}

// variant answers with a changed form of the plain answer.
func (r *Resolver) variant(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, c change) dns.Outcome {
	k := keyOf(q)
	k.Variant = r.variantOf(c)
	from := len(a.Buf)
	buf, e, ok, stale := r.parts.Store.get(&k, q.At, a.Buf)
	if !ok {
		if ctx == nil {
			a.Stale = stale
			return dns.Later
		}
		e = r.make(ctx, q, c)
		if e.TTL > 0 && e.Flags&cache.Failure == 0 {
			r.parts.Store.cache.Put(&k, q.At, &e)
		}
		buf = append(a.Buf, e.Body...)
	}
	a.Buf = buf
	fill(q, a, &e)
	if c.to == "" {
		return r.judgeAnswer(ctx, q, a, t, from, &e)
	}
	return dns.Answered
}

// make fetches the plain answer and changes it. An entry with TTL 0 is not cached.
func (r *Resolver) make(ctx context.Context, q *dns.Query, c change) cache.Entry {
	if c.to == "" {
		k := keyOf(q)
		body, plain := r.parts.Store.wait(ctx, &k, q.At, nil)
		if plain.Rcode != 0 || plain.Answers == 0 {
			plain.Body = body
			return plain
		}
		return r.changedEntry(q, q.Name, body, plain, func(m *miekg.Msg) { clean(m, c) })
	}
	name, err := dns.Name(c.to)
	if err != nil {
		return cache.Entry{Rcode: dns.RcodeServFail, EDE: dns.EDENetwork}
	}
	if h := r.local.find(name, dns.Labels(nil, name)); h != nil && h.alias == "" {
		return r.ownAlias(q, c.to, h)
	}
	k := cache.Key{Name: name, Type: q.Type, Class: q.Class, DO: q.DO, CD: q.CD()}
	if q.Type == dns.TypeCNAME {
		return r.changedEntry(q, name, nil, cache.Entry{TTL: localTTL}, func(m *miekg.Msg) { prependAlias(m, q, c.to, localTTL) })
	}
	body, plain := r.parts.Store.wait(ctx, &k, q.At, nil)
	lead := func(m *miekg.Msg) { prependAlias(m, q, c.to, max(plain.TTL, 1)) }
	if c.dns64 && r.needsDNS64(&plain) {
		return r.ipv6Answer(ctx, q, name, body, plain, lead)
	}
	if plain.Flags&cache.Failure != 0 {
		plain.Body = nil
		return plain
	}
	return r.changedEntry(q, name, body, plain, lead)
}

// ownAlias answers with an alias to a local name.
func (r *Resolver) ownAlias(q *dns.Query, to string, h *host) cache.Entry {
	return r.changedEntry(q, q.Name, nil, cache.Entry{TTL: localTTL}, func(m *miekg.Msg) {
		prependAlias(m, q, to, localTTL)
		hdr := miekg.RR_Header{Name: miekg.Fqdn(to), Rrtype: q.Type, Class: dns.ClassIN, Ttl: localTTL}
		switch q.Type {
		case dns.TypeA:
			for _, a := range h.v4 {
				m.Answer = append(m.Answer, &miekg.A{Hdr: hdr, A: a})
			}
		case dns.TypeAAAA:
			for _, a := range h.v6 {
				m.Answer = append(m.Answer, &miekg.AAAA{Hdr: hdr, AAAA: a})
			}
		case dns.TypePTR:
			for _, name := range h.names {
				m.Answer = append(m.Answer, &miekg.PTR{Hdr: hdr, Ptr: dns.Text(name)})
			}
		}
	})
}

func prependAlias(m *miekg.Msg, q *dns.Query, to string, ttl uint32) {
	rr := &miekg.CNAME{Hdr: miekg.RR_Header{Name: dns.Text(q.Name), Rrtype: dns.TypeCNAME, Class: dns.ClassIN, Ttl: ttl}, Target: miekg.Fqdn(to)}
	m.Answer = slices.Insert(m.Answer, 0, miekg.RR(rr))
}

// changedEntry makes an entry for q from the answer for name, with the given body and counts,
// after how has changed it.
func (r *Resolver) changedEntry(q *dns.Query, name, body []byte, plain cache.Entry, how func(*miekg.Msg)) cache.Entry {
	failed := cache.Entry{Rcode: dns.RcodeServFail, EDE: dns.EDEIndeterminate}
	msg := make([]byte, headerLen, headerLen+len(name)+4+len(body))
	binary.BigEndian.PutUint16(msg[4:], 1)
	binary.BigEndian.PutUint16(msg[6:], plain.Answers)
	binary.BigEndian.PutUint16(msg[8:], plain.Authorities)
	msg[2], msg[3] = 0x80, byte(plain.Rcode&15)
	msg = append(msg, name...)
	msg = binary.BigEndian.AppendUint16(msg, q.Type)
	msg = binary.BigEndian.AppendUint16(msg, q.Class)
	msg = append(msg, body...)
	var m miekg.Msg
	if err := m.Unpack(msg); err != nil {
		return failed
	}
	m.Question[0].Name = dns.Text(q.Name)
	how(&m)
	m.Compress = true
	out, err := m.Pack()
	if err != nil {
		return failed
	}
	k := keyOf(q)
	e, err := r.parts.Store.entryOf(&k, out)
	if err != nil {
		return failed
	}
	e.Flags &^= cache.AD
	e.EDE = plain.EDE
	e.TTL = min(e.TTL, plain.TTL)
	return e
}

// clean removes from HTTPS and SVCB records the parts that c names (RFC 9460; ech
// is of RFC 9849).
func clean(m *miekg.Msg, c change) {
	for _, rr := range m.Answer {
		switch x := rr.(type) {
		case *miekg.HTTPS:
			x.Value = cleanParams(x.Value, c)
		case *miekg.SVCB:
			x.Value = cleanParams(x.Value, c)
		}
	}
	// Signatures are no longer valid.
	m.Answer = slices.DeleteFunc(m.Answer, func(rr miekg.RR) bool { return rr.Header().Rrtype == dns.TypeRRSIG })
}

func cleanParams(ps []miekg.SVCBKeyValue, c change) []miekg.SVCBKeyValue {
	return slices.DeleteFunc(ps, func(p miekg.SVCBKeyValue) bool {
		switch x := p.(type) {
		case *miekg.SVCBAlpn:
			if c.noHTTP3 {
				x.Alpn = slices.DeleteFunc(x.Alpn, func(s string) bool { return s == "h3" || strings.HasPrefix(s, "h3-") })
			}
			return len(x.Alpn) == 0
		case *miekg.SVCBECHConfig:
			return c.noECH
		}
		return false
	})
}

// record makes a record from a rule's value, nil if that is invalid. A TXT value is one text,
// including blanks and quotes.
func (r *Resolver) record(q *dns.Query, typ, value string) miekg.RR {
	if q.Type == dns.TypeTXT {
		x := &miekg.TXT{Hdr: miekg.RR_Header{Name: dns.Text(q.Name), Rrtype: dns.TypeTXT, Class: dns.ClassIN, Ttl: r.block.ttl}}
		for s := range slices.Chunk([]byte(value), 255) {
			x.Txt = append(x.Txt, escapeText(s))
		}
		return x
	}
	rr, err := miekg.NewRR(fmt.Sprintf("%s %d IN %s %s", dns.Text(q.Name), r.block.ttl, typ, value))
	if err != nil {
		return nil
	}
	return rr
}

// escapeText escapes bytes as miekg/dns reads them.
func escapeText(s []byte) string {
	var b strings.Builder
	for _, c := range s {
		if c == '\\' || c == '"' || c < ' ' || c > '~' {
			fmt.Fprintf(&b, "\\%03d", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// rewrite answers by a rule of an ad blocker: modifier is "dnsrewrite=rcode;type;value";
// several are joined by "|", and the first error or alias takes precedence over records. It
// declines other modifiers.
func (r *Resolver) rewrite(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, modifier string) dns.Outcome {
	rest, ok := strings.CutPrefix(modifier, "dnsrewrite=")
	if !ok {
		return dns.Declined
	}
	for one := range strings.SplitSeq(rest, "|") {
		rcode, rest, _ := strings.Cut(one, ";")
		if code, ok := miekg.StringToRcode[strings.ToUpper(rcode)]; ok && code != 0 {
			a.Rcode = uint16(code)
			if code == dns.RcodeNXDomain {
				r.block.noData(a)
			}
			return dns.Answered
		}
		typ, value, _ := strings.Cut(rest, ";")
		if n, err := dns.Type(typ); err == nil && n == dns.TypeCNAME && q.Type != dns.TypeCNAME {
			return r.alias(ctx, q, a, t, strings.TrimSuffix(strings.ToLower(value), "."))
		}
	}
	for one := range strings.SplitSeq(rest, "|") {
		_, rest, _ := strings.Cut(one, ";")
		typ, value, _ := strings.Cut(rest, ";")
		if n, err := dns.Type(typ); err != nil || n != q.Type {
			continue
		}
		rr := r.record(q, typ, value)
		if rr == nil {
			continue
		}
		buf := make([]byte, 1024)
		n, err := miekg.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			continue
		}
		a.Buf = append(a.Buf, buf[:n]...)
		a.Answers++
	}
	if a.Answers == 0 {
		r.block.noData(a)
	}
	return dns.Answered
}
