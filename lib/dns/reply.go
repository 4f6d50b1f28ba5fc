package dns

import "encoding/binary"

// Start makes r ready to answer q in buf, and overwrites buf: the header, then
// the question as it was sent, where it could be read. limit is how long Buf
// may become; the caller keeps space for the OPT record beyond it. r refers to
// q until it is finished.
func (r *Reply) Start(q *Query, buf []byte, limit int) {
	r.q, r.Limit, r.Rcode = q, limit, 0
	r.Answers, r.Authorities, r.Additionals = 0, 0, 0
	r.AA, r.TC, r.RA, r.AD, r.CO, r.Stale, r.Wildcard = false, false, false, false, false, false, 0
	r.HasEDE, r.EDE, r.EDEText, r.Scope, r.HasScope, r.HasExpire = false, 0, nil, 0, false, false
	r.Buf = append(buf[:0],
		byte(q.ID>>8), byte(q.ID), byte(q.Flags>>8)&0x79|0x80, byte(q.Flags)&flagCD,
		0, 0, 0, 0, 0, 0, 0, 0)
	if q.End > headerLen {
		r.Buf = append(r.Buf, q.Msg[headerLen:q.End]...)
		r.Buf[5] = 1
	}
}

// Reset removes the records that were appended. It keeps rcode, flags and EDE.
func (r *Reply) Reset() {
	r.Buf = r.Buf[:max(headerLen, r.q.End)]
	r.Answers, r.Authorities, r.Additionals = 0, 0, 0
}

// A Mark is a point in a reply to return to.
type Mark struct {
	n                                 int
	answers, authorities, additionals uint16
}

// Mark returns the current point of the reply. A responder takes one before each RRset and
// returns to it when the RRset did not fit:
//
//	m := r.Mark()
//	... append an RRset ...
//	if r.Overflows() { r.Undo(m); r.TC = true }
func (r *Reply) Mark() Mark {
	return Mark{len(r.Buf), r.Answers, r.Authorities, r.Additionals}
}

// Undo removes everything appended since m.
func (r *Reply) Undo(m Mark) {
	r.Buf, r.Answers, r.Authorities, r.Additionals = r.Buf[:m.n], m.answers, m.authorities, m.additionals
}

// Overflows reports whether more was appended than fits.
func (r *Reply) Overflows() bool { return len(r.Buf) > r.Limit }

// Record appends a whole record. A nil owner is the name in the question. rdata
// is copied as it is: names in it are not compressed. The caller counts the
// record in Answers, Authorities or Additionals.
func (r *Reply) Record(owner []byte, typ, class uint16, ttl uint32, rdata []byte) {
	at := r.Begin(owner, typ, class, ttl)
	r.Buf = append(r.Buf, rdata...)
	r.End(at)
}

// Begin appends a record up to its data, which the caller appends to Buf
// before it calls End with the same number.
func (r *Reply) Begin(owner []byte, typ, class uint16, ttl uint32) int {
	if owner == nil {
		r.Buf = append(r.Buf, 0xc0, headerLen)
	} else {
		r.Name(owner)
	}
	r.Buf = append(r.Buf, byte(typ>>8), byte(typ), byte(class>>8), byte(class),
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), 0, 0)
	return len(r.Buf)
}

// End writes the length of the record whose data begins at at.
func (r *Reply) End(at int) {
	binary.BigEndian.PutUint16(r.Buf[at-2:], uint16(len(r.Buf)-at))
}

// Name appends a name in wire form. An ending that it shares with the name in
// the question becomes a pointer to it (RFC 1035 section 4.1.4), so Name is for
// owners and for data of the types of RFC 1035 only (RFC 3597 section 4). Only
// a name in lower case is compressed.
func (r *Reply) Name(name []byte) {
	asked := r.q.Name
	for i := 0; i < len(name) && name[i] != 0; i += 1 + int(name[i]) {
		rest := name[i:]
		at := len(asked) - len(rest)
		if at < 0 || string(asked[at:]) != string(rest) {
			continue
		}
		for _, l := range r.q.Labels {
			if int(l) == at {
				r.Buf = append(r.Buf, name[:i]...)
				r.Buf = append(r.Buf, 0xc0, byte(headerLen+at))
				if headerLen+at > 0xff {
					r.Buf[len(r.Buf)-2], r.Buf[len(r.Buf)-1] = 0xc1, byte(headerLen+at-0x100)
				}
				return
			}
		}
	}
	r.Buf = append(r.Buf, name...)
}

// Options are the contents of the OPT record in a reply to a query that had
// one.
type Options struct {
	Size      uint16 // bytes that we accept over UDP
	Cookie    []byte // the client's part, then ours
	NSID      []byte
	Keepalive uint16 // RFC 7828: hundreds of milliseconds; 0 for none
	Block     int    // pad to a multiple of this many bytes, RFC 8467; 0 for no padding
	Max       int    // longest message including all options
}

const optLen = 11 // an OPT record without options

// Room returns the most bytes that Finish appends for q, without the text of an
// EDE. A reply's Limit is the limit of the message less Room.
func (o *Options) Room(q *Query) int {
	if !q.HasEDNS {
		return 0
	}
	n := optLen + 6 // an EDE without text
	if len(o.Cookie) > 0 {
		n += 4 + len(o.Cookie)
	}
	if q.NSID && len(o.NSID) > 0 {
		n += 4 + len(o.NSID)
	}
	if o.Keepalive > 0 {
		n += 6
	}
	if q.HasSubnet {
		n += 8 + 16
	}
	if q.Expire {
		n += 8
	}
	return n
}

// Finish writes the header and, where the query had one, the OPT record, and
// returns the message. A reply that is longer than its Limit loses the records
// from the first on that does not fit, and has TC set: a client that cannot come
// by TCP has the others.
func (r *Reply) Finish(o *Options) []byte {
	q := r.q
	if len(r.Buf) > r.Limit {
		r.cut()
		r.TC = true
	}
	if r.Rcode > 15 && !q.HasEDNS {
		r.Rcode = RcodeServFail
	}
	additionals := r.Additionals
	if q.HasEDNS {
		additionals++
		r.opt(o)
	}
	h := r.Buf[:headerLen]
	h[2] &= 0x79
	h[2] |= 0x80 | bit(r.AA, 4) | bit(r.TC, 2)
	h[3] = h[3]&flagCD | bit(r.RA, 0x80) | bit(r.AD, 0x20) | byte(r.Rcode&15)
	binary.BigEndian.PutUint16(h[6:], r.Answers)
	binary.BigEndian.PutUint16(h[8:], r.Authorities)
	binary.BigEndian.PutUint16(h[10:], additionals)
	return r.Buf
}

// cut removes the records from the first RRset on that does not end within Limit: part of one is no
// answer (RFC 2181 section 9).
func (r *Reply) cut() {
	var names [2][256]byte
	off, full := max(headerLen, r.q.End), false
	for _, count := range []*uint16{&r.Answers, &r.Authorities, &r.Additionals} {
		total, kept, end := *count, uint16(0), off
		var set []byte // the owner of the RRset that begins at off, and its type
		var typ uint16
		for i := uint16(0); i < total && !full; i++ {
			x, err := ReadRecord(r.Buf, end)
			if err != nil {
				full = true
				break
			}
			owner, _, err := ReadName(names[i&1][:0], r.Buf, x.Owner)
			if err != nil || x.Type != typ || string(owner) != string(set) {
				off, kept = end, i // the one before is complete
			}
			if set, typ = owner, x.Type; x.End > r.Limit {
				full = true
				break
			}
			end = x.End
		}
		if !full {
			off, kept = end, total
		}
		*count = kept
	}
	r.Buf = r.Buf[:off]
}

func bit(b bool, v byte) byte {
	if b {
		return v
	}
	return 0
}

// opt appends the OPT record.
func (r *Reply) opt(o *Options) {
	q := r.q
	r.Buf = append(r.Buf, 0, 0, TypeOPT, byte(o.Size>>8), byte(o.Size),
		byte(r.Rcode>>4), 0, bit(q.DO, 0x80)|bit(r.CO, 0x40), 0, 0, 0)
	at := len(r.Buf)
	if len(o.Cookie) > 0 {
		r.option(optionCookie, o.Cookie)
	}
	if q.NSID && len(o.NSID) > 0 {
		r.option(optionNSID, o.NSID)
	}
	if q.Expire && r.HasExpire {
		r.Buf = append(r.Buf, 0, optionExpire, 0, 4)
		r.Buf = binary.BigEndian.AppendUint32(r.Buf, r.Expire)
	}
	if o.Keepalive > 0 {
		r.Buf = append(r.Buf, 0, optionKeepalive, 0, 2, byte(o.Keepalive>>8), byte(o.Keepalive))
	}
	if q.HasSubnet {
		r.subnet()
	}
	if r.HasEDE {
		if n := o.Max - len(r.Buf) - 6; n >= 0 {
			text := r.EDEText[:min(len(r.EDEText), n)]
			if q.Structured && len(text) < len(r.EDEText) {
				text = nil // an incomplete object is useless
			}
			for len(text) < len(r.EDEText) && len(text) > 0 && r.EDEText[len(text)]&0xc0 == 0x80 {
				text = text[:len(text)-1] // not inside a UTF-8 character
			}
			r.Buf = append(r.Buf, 0, optionEDE, byte((2+len(text))>>8), byte(2+len(text)), byte(r.EDE>>8), byte(r.EDE))
			r.Buf = append(r.Buf, text...)
		}
	}
	if o.Block > 0 && q.Padding {
		r.pad(o)
	}
	r.End(at)
}

func (r *Reply) option(code byte, v []byte) {
	r.Buf = append(r.Buf, 0, code, byte(len(v)>>8), byte(len(v)))
	r.Buf = append(r.Buf, v...)
}

// subnet appends the client subnet option: family, prefix and address as in
// the query (RFC 7871 section 7.2.1), and our scope.
func (r *Reply) subnet() {
	p := r.q.Subnet
	family, n := byte(1), (p.Bits()+7)/8
	if p.Addr().Is6() {
		family = 2
	}
	scope := byte(0)
	if r.HasScope {
		scope = r.Scope
	}
	r.Buf = append(r.Buf, 0, optionSubnet, 0, byte(4+n), 0, family, byte(p.Bits()), scope)
	if family == 1 {
		a := p.Addr().As4()
		r.Buf = append(r.Buf, a[:n]...)
		return
	}
	a := p.Addr().As16()
	r.Buf = append(r.Buf, a[:n]...)
}

// pad fills up to a whole number of blocks, as far as there is space.
func (r *Reply) pad(o *Options) {
	n := len(r.Buf) + 4
	n = min((n+o.Block-1)/o.Block*o.Block, o.Max) - n
	if n < 0 {
		return
	}
	r.Buf = append(r.Buf, 0, optionPadding, byte(n>>8), byte(n))
	for ; n > 0; n-- {
		r.Buf = append(r.Buf, 0)
	}
}
