package zone

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"net/netip"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/dns"
)

// A Served is a version of a zone as it is served. It does not change.
type Served struct{ t *table }

// Zone returns the zone of exactly this origin that the client sees, nil if there is none.
func (z *Responder) Zone(origin string, client netip.Addr) *Served {
	name, err := dns.Name(origin)
	if err != nil {
		return nil
	}
	if t := visible(z.origins(z.hash(name), name), client); t != nil && t.unavailable == "" {
		return &Served{t}
	}
	return nil
}

// Served returns the zone of an origin and view, nil if there is none.
func (z *Responder) Served(origin, view string) *Served {
	name, err := dns.Name(origin)
	if err != nil {
		return nil
	}
	for _, t := range z.origins(z.hash(name), name) {
		if t.view == view && t.unavailable == "" {
			return &Served{t}
		}
	}
	return nil
}

// Info describes the zone.
func (s *Served) Info() Info { return s.t.info() }

// Records yields all records in wire form, uncompressed: the SOA first, but not again at the
// end; those of one RRset together, followed by their signatures. The slice is reused for the
// next record. Of a Choice all records are yielded; an Alias is not.
func (s *Served) Records() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		t := s.t
		var buf []byte
		soa := t.set(t.apex, 6)
		if !t.eachRecord(t.apex, soa, &buf, yield) {
			return
		}
		for n := uint32(arenaStart); n < uint32(len(t.arena)); n = t.end(n) {
			if !t.live(n) {
				continue
			}
			at := n + nodeName + uint32(t.arena[n+nodeLen])
			for left := u16(t.arena, n+nodeSets); left > 0; left-- {
				if at != soa && !t.eachRecord(n, at, &buf, yield) {
					return
				}
				at = t.next(at)
			}
		}
	}
}

// Expire returns the seconds until the zone expires on this server (RFC 7314): by its SOA
// record, or for a copy the remaining time.
func (s *Served) Expire(now time.Time) uint32 {
	t := s.t
	if t.expires != nil {
		return uint32(min(max(0, t.expires.Load()-now.Unix()), math.MaxUint32))
	}
	soa := t.records(t.negative)
	return binary.BigEndian.Uint32(soa[len(soa)-8:])
}

// SOA returns the SOA record in wire form.
func (s *Served) SOA() (soa []byte) {
	for b := range s.Records() {
		return bytes.Clone(b)
	}
	return nil
}

// Since returns the difference to an earlier version: the removed and added records in wire
// form, including SOA records and their signatures. ok is false unless this version was made
// from that one by a single change.
func (s *Served) Since(old *Served) (gone, come [][]byte, ok bool) {
	if old == nil || s.t.base != old.t.id {
		return nil, nil, false
	}
	was, is := map[string]bool{}, map[string]bool{}
	for _, name := range s.t.changed {
		old.t.collect(old.t.node([]byte(name)), was)
		s.t.collect(s.t.node([]byte(name)), is)
	}
	for wire := range was {
		if !is[wire] {
			gone = append(gone, []byte(wire))
		}
	}
	for wire := range is {
		if !was[wire] {
			come = append(come, []byte(wire))
		}
	}
	return gone, come, true
}

// collect adds the records of a node, if it exists.
func (t *table) collect(n uint32, all map[string]bool) {
	if n == 0 {
		return
	}
	var buf []byte
	t.sets(n, func(at uint32) {
		t.eachRecord(n, at, &buf, func(wire []byte) bool {
			all[string(wire)] = true
			return true
		})
	})
}

// sets calls visit for each set of a node that has records.
func (t *table) sets(n uint32, visit func(at uint32)) {
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		if u16(t.arena, at) != 0 {
			visit(at)
		}
		at = t.next(at)
	}
}

// Source returns the zone as it was before its Signer signed it, plus the records that the
// Signer added at the origin besides signatures and chains.
func (s *Served) Source() *Zone {
	t := s.t
	z := &Zone{Origin: dns.Text(t.origin), View: t.view, Clients: t.clients, Resolver: t.resolver, ClimbCAA: t.climbCAA, Expires: t.expires, Records: make([]miekg.RR, 0, t.count)}
	for n := uint32(arenaStart); n < uint32(len(t.arena)); n = t.end(n) {
		if !t.live(n) {
			continue
		}
		s.sourceOf(n, z)
	}
	return z
}

// sourceOf adds the part of Source for a node.
func (s *Served) sourceOf(n uint32, z *Zone) {
	t := s.t
	z.Records = t.source(n, z.Records)
	if f := t.flags(n); f&isNamed != 0 {
		owner := dns.Text(append(bytes.Clone(t.name(n)), t.origin...))
		if f&isUnknown != 0 {
			z.Unknown = append(z.Unknown, Unknown{Name: owner})
		} else {
			z.Empty = append(z.Empty, owner)
		}
	}
	at := n + nodeName + uint32(t.arena[n+nodeLen])
	for left := u16(t.arena, n+nodeSets); left > 0; left-- {
		if choice := u32(t.arena, at+setChoice); choice != 0 {
			owner := dns.Text(append(bytes.Clone(t.name(n)), t.origin...))
			if choice == unknownChoice {
				z.Unknown = append(z.Unknown, Unknown{owner, u16(t.arena, at)})
			} else if typ := u16(t.arena, at); typ == 0 {
				z.Aliases = append(z.Aliases, Alias{owner, t.aliases[choice-1].text})
			} else {
				z.Choices = append(z.Choices, Choice{owner, typ, t.picks[choice-1]})
			}
		}
		at = t.next(at)
	}
}

// SourceRecords yields the records of Source in wire form. The slice is reused for the next
// one.
func (s *Served) SourceRecords() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		t := s.t
		var buf []byte
		for n := uint32(arenaStart); n < uint32(len(t.arena)); n = t.end(n) {
			if t.live(n) && !t.eachSource(n, &buf, yield) {
				return
			}
		}
	}
}

// IsStatic reports whether records describe the zone completely: nothing depends on the client or
// on addresses elsewhere, and every name has records.
func (s *Served) IsStatic() bool { return len(s.t.picks)+len(s.t.aliases) == 0 && !s.t.bare }

// At returns the records of a name in Source.
func (s *Served) At(name string) []miekg.RR { return s.Name(name).Records }

// Name returns the part of Source for a name.
func (s *Served) Name(name string) *Zone {
	z := &Zone{Origin: dns.Text(s.t.origin)}
	wire, err := dns.Name(name)
	if err != nil || !dns.Within(wire, s.t.origin) {
		return z
	}
	if n := s.t.node(wire[:len(wire)-len(s.t.origin)]); n != 0 {
		s.sourceOf(n, z)
	}
	return z
}

// source appends the records of a node that the Signer did not make.
func (t *table) source(n uint32, all []miekg.RR) []miekg.RR {
	var buf []byte
	t.eachSource(n, &buf, func(wire []byte) bool {
		if rr, _, err := miekg.UnpackRR(wire, 0); err == nil { // it was packed here
			all = append(all, rr)
		}
		return true
	})
	return all
}

// eachSource yields the records of a node that the Signer did not make.
func (t *table) eachSource(n uint32, buf *[]byte, yield func([]byte) bool) bool {
	if t.signer != nil && t.flags(n)&isNSEC3 != 0 {
		return true
	}
	more := true
	t.sets(n, func(at uint32) {
		if !more || t.signer != nil && u16(t.arena, at) == miekg.TypeNSEC {
			return
		}
		left := int(u16(t.arena, at+setCount))
		if t.signer == nil {
			left += int(t.arena[at+setSigs])
		}
		t.eachRecord(n, at, buf, func(wire []byte) bool {
			if left--; left >= 0 {
				more = yield(wire)
			}
			return more && left > 0
		})
	})
	return more
}

// eachRecord yields the records of a set and its signatures.
func (t *table) eachRecord(n, s uint32, buf *[]byte, yield func([]byte) bool) bool {
	data := t.records(s)
	patches := s + setData + uint32(len(data)) + u32(t.arena, s+setSigLen)
	left := int(u16(t.arena, s+setPatch))
	base := 0
	for _, part := range [][]byte{data, t.signatures(s)} {
		for len(part) > 0 {
			size := 12 + int(part[10])<<8 + int(part[11])
			b := append((*buf)[:0], t.name(n)...)
			b = append(b, t.origin...)
			b = append(b, part[2:12]...)
			length := len(b) - 2
			from := 12
			for left > 0 && int(u32(t.arena, patches)) < base+size && base < len(data) {
				p := int(u32(t.arena, patches)) - base
				b = append(append(b, part[from:p]...), t.origin...)
				from = p + 2
				patches += 4
				left--
			}
			b = append(b, part[from:size]...)
			b[length], b[length+1] = byte((len(b)-length-2)>>8), byte(len(b)-length-2)
			*buf = b
			if !yield(b) {
				return false
			}
			part = part[size:]
			base += size
		}
	}
	return true
}
