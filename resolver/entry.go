package resolver

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"shuultuur/lib/dns"
	"shuultuur/resolver/cache"
)

var errNotThis = errors.New("the answer is to another question")

// headerLen is the length of a message's header, after which the question begins.
const headerLen = 12

// entryOf makes a cache entry from an upstream's answer. It drops additional records and, from
// a positive answer, the authority section, unless DNSSEC records are wanted: clients of a
// resolver do not use them.
func (s *Store) entryOf(k *cache.Key, msg []byte) (e cache.Entry, err error) {
	from, err := dns.SkipQuestions(msg)
	if err != nil {
		return e, err
	}
	if from != headerLen+len(k.Name)+4 || binary.BigEndian.Uint16(msg[4:]) != 1 {
		return e, errNotThis
	}
	e.Rcode = binary.BigEndian.Uint16(msg[2:]) & 15
	if msg[3]&0x20 != 0 {
		e.Flags |= cache.AD
	}
	answers, authorities := binary.BigEndian.Uint16(msg[6:]), binary.BigEndian.Uint16(msg[8:])
	w := walk{msg: msg, e: &e, k: k, ttl: s.maxTTL}
	off := from
	for range answers {
		if off, err = w.answer(off); err != nil {
			return e, err
		}
	}
	e.Answers = answers
	if e.Flags&cache.Aliases != 0 && !w.found {
		if _, open := dns.OpenAlias(msg); open {
			e.Flags |= cache.Open
		}
	}
	negative := e.Rcode == dns.RcodeNXDomain || e.Rcode == 0 && !w.found && e.Flags&cache.Open == 0
	end := off
	if negative || k.DO {
		for range authorities {
			if off, err = w.authority(off); err != nil {
				return e, err
			}
		}
		e.Authorities, end = authorities, off
	}
	e.Body = append([]byte(nil), msg[from:end]...)
	s.clamp(&e, &w, negative, from)
	return e, nil
}

// A walk iterates over the records of an answer.
type walk struct {
	msg   []byte
	e     *cache.Entry
	k     *cache.Key
	ttl   uint32 // the lowest of all
	found bool   // a record of the queried type
	soa   bool
	minus uint32 // TTL of the negative answer, from the SOA record
	offs  []int
}

func (w *walk) answer(off int) (int, error) {
	x, err := dns.ReadRecord(w.msg, off)
	if err != nil {
		return 0, err
	}
	switch x.Type {
	case dns.TypeCNAME, dns.TypeDNAME:
		// An answer that cannot be read cannot be judged, however a client would
		// interpret it.
		var name [256]byte
		if _, end, err := dns.ReadName(name[:0], w.msg, x.Data); err != nil || end != x.End {
			return 0, errors.New("an alias has no target")
		}
		w.e.Flags |= cache.Aliases
	case dns.TypeA, dns.TypeAAAA, dns.TypeSVCB, dns.TypeHTTPS:
		var buf [16]netip.Addr
		all, ok := appendAddresses(buf[:0], w.msg, x)
		if !ok {
			return 0, errors.New("a record cannot be read")
		}
		if at := serviceTarget(w.msg, x); at > 0 {
			w.e.Flags |= cache.Aliases // a browser connects to it
		}
		for _, a := range all {
			w.address(a)
			if x.Type == dns.TypeAAAA && a.Is4() {
				w.e.Flags |= cache.Mapped
			}
		}
	}
	if x.Type == w.k.Type {
		w.found = true
	}
	w.noteRecord(x)
	return x.End, nil
}

func (w *walk) address(a netip.Addr) {
	w.e.Flags |= cache.Address
	if isPrivate(a) {
		w.e.Flags |= cache.Private
	}
}

func (w *walk) authority(off int) (int, error) {
	x, err := dns.ReadRecord(w.msg, off)
	if err != nil {
		return 0, err
	}
	if x.Type == dns.TypeSOA && x.End-x.Data >= 22 {
		w.soa, w.minus = true, min(x.TTL, binary.BigEndian.Uint32(w.msg[x.End-4:])) // RFC 2308 section 5
	}
	w.noteRecord(x)
	return x.End, nil
}

func (w *walk) noteRecord(x dns.Record) {
	ttl := x.TTL
	if ttl >= 1<<31 { // RFC 2181 section 8
		ttl = 0
	}
	w.ttl = min(w.ttl, ttl)
	w.offs = append(w.offs, x.TTLAt)
}

// appendAddresses appends the addresses in an A, AAAA, SVCB or HTTPS record. ok is false if the
// record is malformed.
func appendAddresses(dst []netip.Addr, msg []byte, x dns.Record) (all []netip.Addr, ok bool) {
	if x.Type != dns.TypeA && x.Type != dns.TypeAAAA {
		return appendHints(dst, msg, x)
	}
	a, ok := netip.AddrFromSlice(msg[x.Data:x.End])
	return append(dst, a.Unmap()), ok && (x.End-x.Data == 4) == (x.Type == dns.TypeA)
}

// serviceTarget returns where the name begins that an SVCB or HTTPS record leads to, 0 for another
// record and for one that leads to its owner.
func serviceTarget(msg []byte, x dns.Record) int {
	if x.Type != dns.TypeSVCB && x.Type != dns.TypeHTTPS || x.Data+2 >= x.End || msg[x.Data+2] == 0 {
		return 0
	}
	return x.Data + 2
}

// Keys of parameters with addresses, to which browsers connect like those in address records.
const (
	paramIPv4 = 4
	paramIPv6 = 6
)

// appendHints appends the addresses in an SVCB or HTTPS record (RFC 9460 section 7.3). ok is
// false if the record is malformed.
func appendHints(dst []netip.Addr, msg []byte, x dns.Record) (all []netip.Addr, ok bool) {
	var name [256]byte
	if x.End-x.Data < 3 {
		return dst, false
	}
	_, at, err := dns.ReadName(name[:0], msg, x.Data+2)
	if err != nil || at > x.End {
		return dst, false
	}
	for rest := msg[at:x.End]; len(rest) > 0; {
		if len(rest) < 4 {
			return dst, false
		}
		key, n := binary.BigEndian.Uint16(rest), int(binary.BigEndian.Uint16(rest[2:]))
		if 4+n > len(rest) {
			return dst, false
		}
		v := rest[4 : 4+n]
		rest = rest[4+n:]
		size := 16
		switch key {
		case paramIPv4:
			size = 4
		case paramIPv6:
		default:
			continue
		}
		if n%size != 0 {
			return dst, false
		}
		for ; len(v) > 0; v = v[size:] {
			a, _ := netip.AddrFromSlice(v[:size])
			dst = append(dst, a.Unmap())
		}
	}
	return dst, true
}

// clamp computes the TTL of e and writes it into its records. from is where its body began in
// the message.
func (s *Store) clamp(e *cache.Entry, w *walk, negative bool, from int) {
	e.TTL = max(min(w.ttl, s.maxTTL), s.minTTL)
	if negative {
		e.Flags |= cache.Negative
		e.TTL = 0 // without SOA it is not kept, RFC 2308 section 5
		if w.soa {
			e.TTL = max(min(w.ttl, w.minus, s.negative), s.minTTL)
		}
	}
	for _, at := range w.offs {
		p := e.Body[at-from:]
		ttl := binary.BigEndian.Uint32(p)
		if ttl >= 1<<31 {
			ttl = 0
		}
		ttl = max(min(ttl, s.maxTTL), s.minTTL)
		if negative {
			ttl = min(ttl, e.TTL)
		}
		binary.BigEndian.PutUint32(p, ttl)
		if at-from < 1<<16 {
			e.TTLs = append(e.TTLs, uint16(at-from))
		}
	}
}
