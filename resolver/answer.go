package resolver

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"shuultuur/dns"
	"shuultuur/filter"
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
	negative := e.Rcode == dns.RcodeNXDomain || e.Rcode == 0 && !w.found
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
	case dns.TypeA, dns.TypeAAAA:
		a, ok := addressOf(w.msg, x)
		if !ok {
			return 0, errors.New("an address record has no address")
		}
		w.address(a)
		if x.Type == dns.TypeAAAA && a.Is4() {
			w.e.Flags |= cache.Mapped
		}
	case dns.TypeSVCB, dns.TypeHTTPS:
		var buf [16]netip.Addr
		hints, ok := appendHints(buf[:0], w.msg, x)
		if !ok {
			return 0, errors.New("a service record cannot be read")
		}
		for _, a := range hints {
			w.address(a)
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

// addressOf returns the address of an A or AAAA record.
func addressOf(msg []byte, x dns.Record) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(msg[x.Data:x.End])
	return a.Unmap(), ok && (x.End-x.Data == 4) == (x.Type == dns.TypeA)
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

// judgeAnswer has the policy judge the contents of an answer besides the queried name: the
// names it leads to, so that an alias does not hide a blocked name, and addresses.
func (r *Resolver) judgeAnswer(ctx context.Context, q *dns.Query, a *dns.Reply, t *filter.Transaction, from int, e *cache.Entry) dns.Outcome {
	if t.Verdict.Action == filter.Allow {
		return dns.Answered
	}
	if e.Flags&cache.Private != 0 && !r.mayBePrivate(q) {
		r.drop(a, from)
		r.rebinds(t)
		return r.refuse(ctx, q, a, t)
	}
	// An address below the prefix gives access to the one embedded in it.
	aliases, addresses := e.Flags&cache.Aliases != 0, e.Flags&cache.Address != 0 && (r.parts.Addresses || r.dns64.IsValid())
	if !aliases && !addresses {
		return dns.Answered
	}
	off := from
	for range a.Answers {
		x, err := dns.ReadRecord(a.Buf, off)
		if err != nil {
			return dns.Answered // entryOf has read it
		}
		off = x.End
		var ok bool
		switch {
		case aliases && (x.Type == dns.TypeCNAME || x.Type == dns.TypeDNAME):
			var name [256]byte
			n, _, err := dns.ReadName(name[:0], a.Buf, x.Data)
			ok = err == nil && r.alsoPasses(a, t, n, netip.Addr{})
		case addresses && (x.Type == dns.TypeA || x.Type == dns.TypeAAAA):
			addr, is := addressOf(a.Buf, x)
			ok = is && r.mayBeReached(q, a, t, addr)
		case addresses && (x.Type == dns.TypeSVCB || x.Type == dns.TypeHTTPS):
			var buf [16]netip.Addr
			hints, is := appendHints(buf[:0], a.Buf, x)
			ok = is
			for i := 0; ok && i < len(hints); i++ {
				ok = r.mayBeReached(q, a, t, hints[i])
			}
		default:
			continue
		}
		if !ok {
			r.drop(a, from)
			return r.refuse(ctx, q, a, t)
		}
	}
	return dns.Answered
}

// rebinds sets the verdict for an address in a private network.
func (r *Resolver) rebinds(t *filter.Transaction) {
	r.setBlock(t, "rebinding")
	t.Verdict.Names.Answer = filter.NoData
}

// mayBeReached judges an address in an answer, or the one embedded in it.
func (r *Resolver) mayBeReached(q *dns.Query, a *dns.Reply, t *filter.Transaction, addr netip.Addr) bool {
	if v4 := r.dns64.embeddedIPv4(addr); v4 != addr {
		if addr = v4; isPrivate(v4) && !r.mayBePrivate(q) {
			r.rebinds(t)
			return false
		}
	}
	return !r.parts.Addresses || r.alsoPasses(a, t, nil, addr)
}

// drop removes the records from a that begin at from.
func (r *Resolver) drop(a *dns.Reply, from int) {
	a.Buf = a.Buf[:from]
	a.Answers, a.Authorities, a.Additionals, a.Rcode = 0, 0, 0, 0
}

// alsoPasses judges a name or an address that an answer leads to, as a host of the same
// transaction. If it is refused, the transaction keeps that verdict.
func (r *Resolver) alsoPasses(a *dns.Reply, t *filter.Transaction, name []byte, addr netip.Addr) bool {
	asked, was := t.Host, t.Verdict
	at := len(a.Text)
	if name != nil {
		a.Text = dns.AppendHost(a.Text, name)
	} else {
		a.Text = addr.AppendTo(a.Text)
	}
	t.Asked, t.Host, t.Verdict, t.Findings = asked, asString(a.Text[at:]), filter.Verdict{}, t.Findings[:0]
	r.parts.Decider.Decide(context.Background(), t, filter.Name)
	led := t.Host
	t.Asked, t.Host = "", asked
	if !t.Verdict.Final() || t.Verdict.Action == filter.Warn && r.warn == filter.Pass {
		if t.Verdict.After > 0 && was.After == 0 { // it passes only because of a pause
			t.Note = led
			return true
		}
		t.Verdict = was
		return true
	}
	t.Note = led // see Record
	return false
}

// mayBePrivate reports whether the queried name may have addresses in private networks.
func (r *Resolver) mayBePrivate(q *dns.Query) bool {
	if r.anywhere {
		return true
	}
	for _, i := range q.Labels {
		if _, ok := r.private[string(q.Name[i:])]; ok {
			return true
		}
	}
	return false
}
