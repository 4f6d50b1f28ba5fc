package resolver

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
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

// make makes the answer with a change from the plain one, or from that of another name. An entry
// with TTL 0 is not cached.
func (l *lookup) make(c change, plain *cache.Entry) cache.Entry {
	switch {
	case c.to != "":
		return l.makeAlias(c)
	case c.dns64:
		return l.mapped(l.q.Name, l.a.Buf[l.start:], *plain, nil)
	}
	k := l.keyOf(l.q)
	body, e := l.r.parts.Store.wait(l.ctx, &k, l.q.At, nil)
	if e.Rcode != 0 || e.Answers == 0 {
		e.Body = body
		return e
	}
	return l.changed(l.q.Name, body, e, func(m *miekg.Msg) { clean(m, c) })
}

// makeAlias makes the answer that is an alias to another name and that name's records.
func (l *lookup) makeAlias(c change) cache.Entry {
	q := l.q
	name, err := dns.Name(c.to)
	if err != nil {
		return cache.Entry{Rcode: dns.RcodeServFail, EDE: dns.EDENetwork}
	}
	if by, h := l.r.ownerOf(name, dns.Labels(nil, name), q.Type, q.Client.Addr()); h != nil && h.alias == "" {
		return l.ownAlias(c.to, h)
	} else if by != others { // it is followed, see leaves
		return l.changed(name, nil, cache.Entry{TTL: localTTL}, func(m *miekg.Msg) { prependAlias(m, q, c.to, localTTL) })
	}
	if q.Type == dns.TypeCNAME {
		return l.changed(name, nil, cache.Entry{TTL: localTTL}, func(m *miekg.Msg) { prependAlias(m, q, c.to, localTTL) })
	}
	k := l.keyOf(q)
	k.Name = name
	body, plain := l.r.parts.Store.wait(l.ctx, &k, q.At, nil)
	lead := func(m *miekg.Msg) { prependAlias(m, q, c.to, max(plain.TTL, 1)) }
	switch {
	case c.dns64 && l.r.needsDNS64(&plain):
		return l.mapped(name, body, plain, lead)
	case plain.Flags&cache.Failure != 0:
		plain.Body = nil
		return plain
	}
	return l.changed(name, body, plain, lead)
}

// ownAlias answers with an alias to a local name.
func (l *lookup) ownAlias(to string, h *host) cache.Entry {
	q := l.q
	return l.changed(q.Name, nil, cache.Entry{TTL: localTTL}, func(m *miekg.Msg) {
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
		if len(m.Answer) == 1 && q.Type != dns.TypeCNAME {
			m.Ns = append(m.Ns, &miekg.SOA{Hdr: miekg.RR_Header{Name: miekg.Fqdn(to), Rrtype: dns.TypeSOA, Class: dns.ClassIN, Ttl: l.r.block.ttl},
				Ns: "ns.invalid.", Mbox: "hostmaster.invalid.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: l.r.block.ttl})
		}
	})
}

func prependAlias(m *miekg.Msg, q *dns.Query, to string, ttl uint32) {
	rr := &miekg.CNAME{Hdr: miekg.RR_Header{Name: dns.Text(q.Name), Rrtype: dns.TypeCNAME, Class: dns.ClassIN, Ttl: ttl}, Target: miekg.Fqdn(to)}
	m.Answer = slices.Insert(m.Answer, 0, miekg.RR(rr))
}

// changed makes the answer from that for name, with the given body and counts, after how has
// changed it.
func (l *lookup) changed(name, body []byte, plain cache.Entry, how func(*miekg.Msg)) cache.Entry {
	q := l.q
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
	k := l.keyOf(q)
	e, err := l.r.parts.Store.entryOf(&k, out)
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
