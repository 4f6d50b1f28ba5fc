package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// Sizes and codes of messages.
const (
	headerSize = 12
	udpPayload = 1232 // bytes asked for over UDP: no fragments (DNS flag day 2020)
	maxMessage = 65535
	padBlock   = 128 // queries over encrypted transports (RFC 8467)

	typeOPT       = 41
	optionSubnet  = 8
	optionPadding = 12
	optionEDE     = 15
	classIN       = 1

	rcodeSuccess  = 0
	rcodeFormErr  = 1
	rcodeServFail = 2
	rcodeNXDomain = 3
	rcodeNotImp   = 4
	rcodeRefused  = 5
	rcodeBadVers  = 16

	bitQR = 1 << 15
	bitTC = 1 << 9
	bitRD = 1 << 8
	bitRA = 1 << 7
	bitAD = 1 << 5
	bitCD = 1 << 4
)

// A query is one question to upstreams.
type query struct {
	name         []byte // wire form, lower case, with the root's zero
	qtype, class uint16
	opt          Option
	avoid        string // an upstream that is asked last
}

// form is how a query is written for one server.
type form struct {
	id   uint16
	edns bool
	pad  bool
	name []byte // as q.name, maybe in other case
}

// append writes the query in a form.
func (q *query) append(dst []byte, f form) []byte {
	flags := uint16(bitRD | bitAD) // AD: we want to know (RFC 6840 section 5.7)
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
	return dst
}

// denial is the answer that the name does not exist.
func (q *query) denial() []byte {
	dst := []byte{0, 0, 0x81, 0x80 | rcodeNXDomain, 0, 1, 0, 0, 0, 0, 0, 0}
	dst = append(dst, q.name...)
	dst = binary.BigEndian.AppendUint16(dst, q.qtype)
	return binary.BigEndian.AppendUint16(dst, q.class)
}

// appendOPT writes the OPT record, the last of the message that begins at
// start.
func (q *query) appendOPT(dst []byte, start int, pad bool) []byte {
	dst = append(dst, 0, 0, typeOPT)
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

// mixCase writes name to dst with every letter in random case (the 0x20 bits,
// draft-vixie-dnsext-dns0x20): what answers must repeat, and who cannot see
// the query must guess.
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
	return dst // lengths, below 64, never look like letters
}

// An answer is what is known of a message that answers a query.
type answer struct {
	msg      []byte
	rcode    uint16 // with the EDNS part
	tc       bool
	edns     bool
	sameCase bool // the question came back as it was sent
}

// poor says whether another upstream may know better.
func (a *answer) poor() bool {
	switch a.rcode {
	case rcodeSuccess, rcodeNXDomain:
		return false
	}
	return true
}

// What can be wrong with a message that came as an answer.
var (
	errForged = errors.New("it is not an answer to this question")
	errFormat = errors.New("the answer is malformed")
)

// check says whether msg answers the query that was sent as f. errForged is
// for a message that has nothing to do with it (RFC 5452 section 3), errFormat
// for one that has and cannot be read. Every record is walked: who takes the
// message may rely on counts, lengths and names.
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
	if a.sameCase = string(msg[headerSize:end]) == string(f.name); !a.sameCase && !sameName(msg[headerSize:end], f.name) {
		return a, errForged
	}
	return a, a.walk(end + 4)
}

// sameName compares two names in wire form without regard to case.
func sameName(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

// lower is for the bytes of a name and leaves lengths, which are below 64.
func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// walk goes through all records from off on.
func (a *answer) walk(off int) error {
	msg := a.msg
	n := int(binary.BigEndian.Uint16(msg[6:])) + int(binary.BigEndian.Uint16(msg[8:]))
	extra := int(binary.BigEndian.Uint16(msg[10:]))
	for i := range n + extra {
		owner := off
		off = skipName(msg, off)
		if off < 0 || off+10 > len(msg) {
			// A truncated message may end anywhere: it is asked for again.
			return a.cut()
		}
		rtype := binary.BigEndian.Uint16(msg[off:])
		if rtype == typeOPT {
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

// extendedError returns the Extended DNS Error of a message that has been
// walked and says neither NOERROR nor NXDOMAIN, 0 if it has none.
func extendedError(msg []byte) uint16 {
	if rcode := msg[3] & 15; rcode == rcodeSuccess || rcode == rcodeNXDomain {
		return 0
	}
	off := skipName(msg, headerSize) + 4
	for off > 4 && off+11 <= len(msg) {
		name := skipName(msg, off)
		if name < 0 || name+10 > len(msg) {
			return 0
		}
		end := name + 10 + int(binary.BigEndian.Uint16(msg[name+8:]))
		if end > len(msg) {
			return 0
		}
		if binary.BigEndian.Uint16(msg[name:]) == typeOPT {
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

// skipName returns where the name at off ends, -1 if it is malformed. A
// pointer must lead back, past the header, so that no name goes on for ever.
func skipName(msg []byte, off int) int {
	end, first, size := -1, off, 0
	for off < len(msg) {
		switch c := int(msg[off]); {
		case c == 0:
			if end < 0 {
				end = off + 1
			}
			return end
		case c < 64:
			off += 1 + c
			if size += 1 + c; size > 254 {
				return -1
			}
		case c >= 192:
			if off+1 >= len(msg) {
				return -1
			}
			if end < 0 {
				end = off + 2
			}
			to := c&63<<8 | int(msg[off+1])
			if to < headerSize || to >= first {
				return -1
			}
			off, first = to, to
		default:
			return -1
		}
	}
	return -1
}

// text writes a name in wire form for people.
func text(name []byte) string {
	var b strings.Builder
	for i := 0; i < len(name) && name[i] != 0; i += 1 + int(name[i]) {
		if end := i + 1 + int(name[i]); end <= len(name) {
			for _, c := range name[i+1 : end] {
				if c <= ' ' || c >= 127 || c == '.' || c == '\\' {
					fmt.Fprintf(&b, "\\%03d", c)
					continue
				}
				b.WriteByte(c)
			}
		}
		b.WriteByte('.')
	}
	if b.Len() == 0 {
		return "."
	}
	return b.String()
}

// wireName writes a host name in wire form and lower case.
func wireName(host string) ([]byte, error) {
	host = strings.TrimSuffix(host, ".")
	var out []byte
	if host != "" {
		for label := range strings.SplitSeq(strings.ToLower(host), ".") {
			if label == "" || len(label) > 63 {
				return nil, fmt.Errorf("%q is not a domain: a label has 1 to 63 bytes", host)
			}
			out = append(append(out, byte(len(label))), label...)
		}
	}
	if out = append(out, 0); len(out) > 255 {
		return nil, fmt.Errorf("%q is not a domain: it is longer than 255 bytes", host)
	}
	return out, nil
}

// checkName says whether name is one in wire form, without pointers.
func checkName(name []byte) bool {
	if len(name) == 0 || len(name) > 255 {
		return false
	}
	i := 0
	for i < len(name) && name[i] != 0 {
		if name[i] > 63 {
			return false
		}
		i += 1 + int(name[i])
	}
	return i == len(name)-1
}
