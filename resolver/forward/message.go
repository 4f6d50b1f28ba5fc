package forward

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"

	"shuultuur/lib/dns"
)

// Sizes and codes of messages.
const (
	headerSize = 12
	udpPayload = 1232 // payload size for UDP: no fragments (DNS flag day 2020)
	maxMessage = 65535
	padBlock   = 128 // queries over encrypted transports (RFC 8467)

	optionSubnet  = 8
	optionPadding = 12
	optionEDE     = 15

	bitQR = 1 << 15
	bitTC = 1 << 9
	bitRD = 1 << 8
	bitAD = 1 << 5
	bitCD = 1 << 4
)

// A query is one question to upstreams.
type query struct {
	name         []byte // wire form, lower case, with the root's zero
	qtype, class uint16
	opt          Option
	avoid        string // an upstream to query last
	watch        Watch  // nil: nobody
}

// A form is how a query is written for one server.
type form struct {
	id   uint16
	edns bool
	pad  bool
	name []byte // as q.name, possibly with mixed case
	way  way    // for a Watch
}

// append appends the query in a form, to be sent.
func (q *query) append(dst []byte, f form) []byte {
	flags := uint16(bitRD | bitAD) // AD: request the AD bit (RFC 6840 section 5.7)
	if q.opt.CD {
		flags |= bitCD
	}
	start := len(dst)
	additional := byte(0)
	if f.edns {
		additional = 1
	}
	dst = binary.BigEndian.AppendUint16(dst, f.id)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = append(dst, 0, 1, 0, 0, 0, 0, 0, additional)
	dst = append(dst, f.name...)
	dst = binary.BigEndian.AppendUint16(dst, q.qtype)
	dst = binary.BigEndian.AppendUint16(dst, q.class)
	if f.edns {
		dst = q.appendOPT(dst, start, f.pad)
	}
	q.show(f.way, false, dst[start:])
	return dst
}

// denial returns the answer that the name does not exist.
func (q *query) denial() []byte {
	dst := []byte{0, 0, 0x81, 0x80 | dns.RcodeNXDomain, 0, 1, 0, 0, 0, 0, 0, 0}
	dst = append(dst, q.name...)
	dst = binary.BigEndian.AppendUint16(dst, q.qtype)
	return binary.BigEndian.AppendUint16(dst, q.class)
}

// appendOPT appends the OPT record, the last of the message that begins at start.
func (q *query) appendOPT(dst []byte, start int, pad bool) []byte {
	dst = append(dst, 0, 0, dns.TypeOPT)
	dst = binary.BigEndian.AppendUint16(dst, udpPayload)
	dst = append(dst, 0, 0) // extended rcode, version
	if q.opt.DO {
		dst = append(dst, 0x80, 0)
	} else {
		dst = append(dst, 0, 0)
	}
	length := len(dst)
	dst = append(dst, 0, 0)
	if p := q.opt.Subnet; p.IsValid() {
		dst = appendSubnet(dst, p)
	}
	if pad {
		n := (padBlock - (len(dst)-start+4)%padBlock) % padBlock
		dst = append(dst, 0, optionPadding, byte(n>>8), byte(n))
		dst = append(dst, make([]byte, n)...)
	}
	binary.BigEndian.PutUint16(dst[length:], uint16(len(dst)-length-2))
	return dst
}

// appendSubnet writes the client's network, RFC 7871 section 6.
func appendSubnet(dst []byte, p netip.Prefix) []byte {
	p = p.Masked()
	family, addr := byte(2), p.Addr().AsSlice()
	if p.Addr().Is4() {
		family = 1
	}
	n := (p.Bits() + 7) / 8
	dst = append(dst, 0, optionSubnet, 0, byte(4+n), 0, family, byte(p.Bits()), 0)
	return append(dst, addr[:n]...)
}

// mixCase appends name to dst with every letter in random case (the 0x20 bits,
// draft-vixie-dnsext-dns0x20): answers must repeat it, and a forger who cannot see the query
// must guess it.
func mixCase(dst, name []byte) []byte {
	dst = append(dst[:0], name...)
	var bits uint64
	left := 0
	for i, c := range dst {
		if c|0x20 < 'a' || c|0x20 > 'z' {
			continue
		}
		if left == 0 {
			bits, left = rand.Uint64(), 64 // the runtime's ChaCha8
		}
		dst[i] = c ^ byte(bits&1)<<5
		bits >>= 1
		left--
	}
	return dst // lengths, below 64, are never letters
}

// An answer describes a message that answers a query.
type answer struct {
	msg      []byte
	rcode    uint16 // with the EDNS part
	tc       bool
	edns     bool
	sameCase bool // the question came back exactly as sent
}

// mayImprove reports whether another upstream may have a better answer.
func (a *answer) mayImprove() bool {
	switch a.rcode {
	case dns.RcodeSuccess, dns.RcodeNXDomain:
		return false
	}
	return true
}

// Errors of a message received as an answer.
var (
	errForged = errors.New("it does not answer this query")
	errFormat = errors.New("the answer is malformed")
)

// check verifies that msg answers the query sent as f. errForged means that the message is
// unrelated (RFC 5452 section 3), errFormat that it is malformed. Every record is parsed, so
// that callers may rely on counts, lengths and names.
func (q *query) check(msg []byte, f form) (answer, error) {
	a := answer{msg: msg}
	if len(msg) < headerSize || binary.BigEndian.Uint16(msg) != f.id {
		return a, errForged
	}
	flags := binary.BigEndian.Uint16(msg[2:])
	if flags&bitQR == 0 || flags>>11&15 != 0 {
		return a, errForged
	}
	a.rcode, a.tc = flags&15, flags&bitTC != 0
	end := headerSize + len(f.name)
	if binary.BigEndian.Uint16(msg[4:]) != 1 || len(msg) < end+4 ||
		binary.BigEndian.Uint16(msg[end:]) != q.qtype || binary.BigEndian.Uint16(msg[end+2:]) != q.class {
		return a, errForged
	}
	if a.sameCase = string(msg[headerSize:end]) == string(f.name); !a.sameCase && !dns.EqualFold(msg[headerSize:end], f.name) {
		return a, errForged
	}
	q.show(f.way, true, msg)
	return a, a.walk(end + 4)
}

// walk parses all records from off on.
func (a *answer) walk(off int) error {
	msg := a.msg
	n := int(binary.BigEndian.Uint16(msg[6:])) + int(binary.BigEndian.Uint16(msg[8:]))
	extra := int(binary.BigEndian.Uint16(msg[10:]))
	for i := range n + extra {
		owner := off
		off = nameEnd(msg, off)
		if off < 0 || off+10 > len(msg) {
			// A truncated message may end anywhere: the query is repeated over TCP.
			return a.cut()
		}
		rtype := binary.BigEndian.Uint16(msg[off:])
		if rtype == dns.TypeOPT {
			if i < n || a.edns || msg[owner] != 0 {
				return errFormat
			}
			a.edns = true
			a.rcode |= uint16(msg[off+4]) << 4
		}
		off += 10 + int(binary.BigEndian.Uint16(msg[off+8:]))
		if off > len(msg) {
			return a.cut()
		}
	}
	return nil
}

// extendedError returns the Extended DNS Error of a parsed message with an rcode other than
// NOERROR and NXDOMAIN, 0 if it has none.
func extendedError(msg []byte) uint16 {
	if rcode := msg[3] & 15; rcode == dns.RcodeSuccess || rcode == dns.RcodeNXDomain {
		return 0
	}
	off := nameEnd(msg, headerSize) + 4
	for off > 4 && off+11 <= len(msg) {
		name := nameEnd(msg, off)
		if name < 0 || name+10 > len(msg) {
			return 0
		}
		end := name + 10 + int(binary.BigEndian.Uint16(msg[name+8:]))
		if end > len(msg) {
			return 0
		}
		if binary.BigEndian.Uint16(msg[name:]) == dns.TypeOPT {
			return extendedOption(msg[name+10 : end])
		}
		off = end
	}
	return 0
}

func extendedOption(options []byte) uint16 {
	for len(options) >= 4 {
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if options = options[4:]; n > len(options) {
			return 0
		}
		if code == optionEDE && n >= 2 {
			return binary.BigEndian.Uint16(options)
		}
		options = options[n:]
	}
	return 0
}

func (a *answer) cut() error {
	if a.tc {
		return nil
	}
	return errFormat
}

// nameEnd returns where the name at off ends, -1 if it is malformed.
func nameEnd(msg []byte, off int) int {
	var name [256]byte
	_, end, err := dns.ReadName(name[:0], msg, off)
	if err != nil {
		return -1
	}
	return end
}
