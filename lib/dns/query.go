package dns

import (
	"encoding/binary"
	"net/netip"
)

// A Status is the result of Parse.
type Status uint8

const (
	OK        Status = iota
	Drop             // too short for a header, or an answer: replies to answers could loop between two servers
	Malformed        // reply FORMERR; the question is echoed if it could be read
	Unknown          // an opcode other than QUERY, NOTIFY and UPDATE: reply NOTIMP, without the question (RFC 8906 section 8.1.4)
	Bare             // no question, only a cookie (RFC 7873 section 5.4): reply with the OPT record alone
)

const (
	headerLen = 12

	OpcodeQuery  = 0
	OpcodeNotify = 4
	OpcodeUpdate = 5

	optionNSID      = 3
	optionSubnet    = 8
	optionExpire    = 9
	optionCookie    = 10
	optionKeepalive = 11
	optionPadding   = 12
	optionEDE       = 15
)

// Opcode returns the kind of message: OpcodeQuery, OpcodeNotify or OpcodeUpdate after
// Parse returned OK.
func (q *Query) Opcode() uint16 { return q.Flags >> 11 & 15 }

// Parse fills q from a message and keeps it: q is valid until msg changes.
// Parse sets nothing that is not in the message (Client, Local, Transport, At,
// Recursion). Unless it returns OK or Bare, only ID, Flags and, where End is
// not 0, the question can be used.
//
// A name with a compression pointer in the question is malformed, because
// there is nothing it could point to. So are a second question, records in the
// answer or authority section of an ordinary query (IXFR may have one
// authority record, RFC 1995), two OPT records, and an option whose length
// exceeds the record. The zone of an update (RFC 2136) is its question.
func (q *Query) Parse(msg []byte) Status {
	q.Msg, q.Name, q.Labels, q.End, q.Type, q.Class = msg, nil, nil, 0, 0, 0
	q.EDNS = EDNS{Size: minUDP}
	q.TSIG, q.Late = 0, false
	if len(msg) < headerLen {
		q.ID, q.Flags = 0, 0
		return Drop
	}
	q.ID, q.Flags = binary.BigEndian.Uint16(msg), binary.BigEndian.Uint16(msg[2:])
	if q.Flags&flagQR != 0 {
		return Drop
	}
	op := q.Opcode()
	if op != OpcodeQuery && op != OpcodeNotify && op != OpcodeUpdate {
		q.unknown()
		return Unknown
	}
	counts := binary.BigEndian.Uint64(msg[4:]) // questions, answers, authorities, additionals
	off := headerLen
	switch counts >> 48 {
	case 0:
	case 1:
		if off = q.question(); off < 0 {
			return Malformed
		}
	default:
		return Malformed
	}
	if counts<<16 != 0 {
		s := q.records(off, int(counts>>32&0xffff), int(counts>>16&0xffff), int(counts&0xffff))
		if s != OK {
			return s
		}
	}
	if counts>>48 == 0 {
		if len(q.Cookie) > 0 && op == OpcodeQuery && counts<<16>>32 == 0 {
			return Bare
		}
		return Malformed
	}
	return OK
}

// unknown looks for the OPT record of a message with another opcode, whose sections may mean
// something else: a reply has one if the query has (RFC 6891 section 6.1.1).
func (q *Query) unknown() {
	msg := q.Msg
	off := headerLen
	for range min(binary.BigEndian.Uint16(msg[4:]), 1) {
		if off = q.question(); off < 0 {
			off = len(msg)
		}
	}
	counts := binary.BigEndian.Uint64(msg[4:])
	if q.records(off, int(counts>>32&0xffff), int(counts>>16&0xffff), int(counts&0xffff)) != OK {
		q.EDNS = EDNS{Size: minUDP}
	}
	q.Name, q.Labels, q.End, q.Type, q.Class, q.TSIG = nil, nil, 0, 0, 0, 0
}

// minUDP is the size that every client accepts, RFC 1035 section 4.2.1.
const minUDP = 512

// question reads the question into q and returns its end, or -1.
func (q *Query) question() int {
	msg, off, labels := q.Msg, headerLen, 0
	for {
		if off >= len(msg) {
			return -1
		}
		n := int(msg[off])
		at := off - headerLen
		if n == 0 {
			q.name[at] = 0
			off++
			break
		}
		// The root's zero comes after this label.
		if n > maxLabel || at+1+n+1 > maxName || off+1+n > len(msg) {
			return -1
		}
		q.labels[labels] = uint8(at)
		labels++
		from, to := msg[off:off+1+n], q.name[at:at+1+n]
		to[0] = from[0]
		for i := 1; i < len(from) && i < len(to); i++ {
			to[i] = lower[from[i]]
		}
		off += 1 + n
	}
	if off+4 > len(msg) {
		return -1
	}
	q.Name, q.Labels = q.name[:off-headerLen], q.labels[:labels]
	q.Type = binary.BigEndian.Uint16(msg[off:])
	q.Class = binary.BigEndian.Uint16(msg[off+2:])
	q.End = off + 4
	return q.End
}

// records walks the sections after the question. It reads the OPT record,
// notes where TSIG is, and skips other records.
func (q *Query) records(off, answers, authorities, additionals int) Status {
	if q.Opcode() == OpcodeQuery && (answers > 0 || authorities > 1 || authorities == 1 && q.Type != TypeIXFR) {
		return Malformed
	}
	msg, total := q.Msg, answers+authorities+additionals
	for i := range total {
		start := off
		off = skipName(msg, off)
		if off < 0 || off+10 > len(msg) {
			return Malformed
		}
		typ := binary.BigEndian.Uint16(msg[off:])
		data := off + 10
		end := data + int(binary.BigEndian.Uint16(msg[off+8:]))
		if end > len(msg) {
			return Malformed
		}
		switch {
		case q.TSIG != 0: // RFC 8945 section 5.1: TSIG is the last record
			return Malformed
		case typ == TypeTSIG:
			if i < answers+authorities {
				return Malformed
			}
			q.TSIG = start
		case typ == TypeOPT:
			// RFC 6891 section 6.1.1: one, in the additional section, owned by the root.
			if q.HasEDNS || i < answers+authorities || off != start+1 {
				return Malformed
			}
			if s := q.opt(msg[off:data], msg[data:end]); s != OK {
				return s
			}
		}
		off = end
	}
	return OK
}

// opt reads an OPT record: fixed is its type to its length, options the rest.
func (q *Query) opt(fixed, options []byte) Status {
	q.HasEDNS = true
	q.Size = max(binary.BigEndian.Uint16(fixed[2:]), minUDP)
	q.Version = fixed[5]
	q.DO, q.CO = fixed[6]&0x80 != 0, fixed[6]&0x40 != 0
	if q.Version != 0 {
		// The options of another version may have any form: BADVERS, not
		// FORMERR (RFC 6891 section 6.1.3).
		return OK
	}
	for len(options) > 0 {
		if len(options) < 4 {
			return Malformed
		}
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if 4+n > len(options) {
			return Malformed
		}
		v := options[4 : 4+n]
		options = options[4+n:]
		switch code {
		case optionCookie:
			if n != 8 && (n < 16 || n > 40) { // RFC 7873 section 5.2.2
				return Malformed
			}
			if q.Cookie == nil { // of several the first counts, section 5.2
				q.Cookie = v
			}
		case optionSubnet:
			if !q.HasSubnet && !q.subnet(v) {
				return Malformed
			}
		case optionNSID:
			q.NSID = true
		case optionExpire:
			q.Expire = true
		case optionPadding:
			q.Padding = true
		case optionKeepalive:
			q.Keepalive = true
		case optionEDE:
			q.Structured = n == 2 && v[0] == 0 && v[1] == 0
		}
	}
	return OK
}

// subnet reads the option of RFC 7871 section 6. Bits beyond the prefix must
// be zero and the scope must be 0 in a query. A family other than IPv4 and
// IPv6 is ignored, as an unknown option would be.
func (q *Query) subnet(v []byte) bool {
	if len(v) < 4 {
		return false
	}
	family, bits, scope, a := binary.BigEndian.Uint16(v), int(v[2]), v[3], v[4:]
	if scope != 0 || len(a) != (bits+7)/8 {
		return false
	}
	var whole [16]byte
	var addr netip.Addr
	switch family {
	case 1:
		if bits > 32 {
			return false
		}
		copy(whole[:], a)
		addr = netip.AddrFrom4([4]byte(whole[:4]))
	case 2:
		if bits > 128 {
			return false
		}
		copy(whole[:], a)
		addr = netip.AddrFrom16(whole)
	default:
		return true
	}
	p := netip.PrefixFrom(addr, bits)
	if p.Masked() != p {
		return false
	}
	q.Subnet, q.HasSubnet = p, true
	return true
}

// AppendQuery appends a recursive query with ID 0 for a name, in wire form, and
// a type. size is the UDP size in the OPT record; 0 adds no OPT record.
func AppendQuery(dst, name []byte, typ uint16, size uint16) []byte {
	opt := byte(0)
	if size > 0 {
		opt = 1
	}
	dst = append(dst, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, opt)
	dst = append(dst, name...)
	dst = append(dst, byte(typ>>8), byte(typ), 0, ClassIN)
	if size > 0 {
		dst = append(dst, 0, 0, TypeOPT, byte(size>>8), byte(size), 0, 0, 0, 0, 0, 0)
	}
	return dst
}
