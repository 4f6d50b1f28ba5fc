package dns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxName  = 255 // octets with length octets and the root's zero, RFC 1035 section 2.3.4
	maxLabel = 63
)

// lower folds the letters of ASCII, the only ones with case in a name (RFC
// 4343). The length of a label is below 'A', so that whole names can be folded.
var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return t
}()

// Name returns the wire form, in lower case, of a name in text: with or without
// the final dot, with \. and \DDD for special bytes of labels (RFC 1035 section
// 5.1). A name in Unicode becomes punycode. "." and "" are the root.
func Name(text string) ([]byte, error) {
	if text == "." || text == "" {
		return []byte{0}, nil
	}
	written := text
	if strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
		var err error
		if text, err = international(text); err != nil {
			return nil, fmt.Errorf("%.300q is not an international domain name", written)
		}
	}
	name, at := make([]byte, 1, len(text)+2), 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.':
			n := len(name) - at - 1
			if n == 0 {
				return nil, fmt.Errorf("%.300q is not a domain name: it has an empty label", written)
			}
			name[at] = byte(n)
			at = len(name)
			name = append(name, 0)
			continue
		case c <= ' ' || c == 0x7f:
			return nil, fmt.Errorf("%.300q is not a domain name: a space or control character in a name is written \\DDD, such as \\032", written)
		case c == '\\' && i+3 < len(text) && digits(text[i+1:i+4]):
			v := int(text[i+1]-'0')*100 + int(text[i+2]-'0')*10 + int(text[i+3]-'0')
			if v > 255 {
				return nil, fmt.Errorf("%.300q is not a domain name: an escape is over 255", written)
			}
			c, i = byte(v), i+3
		case c == '\\':
			if i++; i == len(text) || digits(text[i:i+1]) {
				return nil, fmt.Errorf("%.300q is not a domain name: a backslash stands before a byte or three digits", written)
			}
			c = text[i]
		}
		if len(name)-at > maxLabel {
			return nil, fmt.Errorf("%.300q is not a domain name: a label has more than %d bytes", written, maxLabel)
		}
		name = append(name, lower[c])
	}
	if n := len(name) - at - 1; n > 0 {
		name[at] = byte(n)
		name = append(name, 0)
	}
	if len(name) > maxName {
		return nil, fmt.Errorf("%.300q is not a domain name: it is longer than %d bytes", written, maxName)
	}
	return name, nil
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// AppendText appends the presentation form of a name in wire form, with the
// final dot.
func AppendText(dst, name []byte) []byte {
	if len(name) == 0 || name[0] == 0 {
		return append(dst, '.')
	}
	for i := 0; i < len(name) && name[i] != 0; {
		end := min(i+1+int(name[i]), len(name))
		for _, c := range name[i+1 : end] {
			switch {
			case c <= ' ' || c >= 0x7f:
				dst = append(dst, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
			case c == '.' || c == '\\' || c == '"' || c == '(' || c == ')' || c == ';' || c == '@' || c == '$':
				dst = append(dst, '\\', c)
			default:
				dst = append(dst, c)
			}
		}
		dst, i = append(dst, '.'), end
	}
	return dst
}

// Text returns the presentation form of a name in wire form, with the final
// dot.
func Text(name []byte) string { return string(AppendText(nil, name)) }

// AppendHost appends a name in wire form and lower case as the filter has
// hosts: without the final dot. A byte that no host name has is written as
// \DDD, also a dot inside a label.
func AppendHost(dst, name []byte) []byte {
	if len(name) <= 1 {
		return append(dst, '.')
	}
	for i := 0; i < len(name) && name[i] != 0; {
		end := min(i+1+int(name[i]), len(name))
		if i > 0 {
			dst = append(dst, '.')
		}
		for _, c := range name[i+1 : end] {
			if c <= ' ' || c >= 0x7f || c == '.' || c == '\\' {
				dst = append(dst, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
				continue
			}
			dst = append(dst, c)
		}
		i = end
	}
	return dst
}

// Labels appends the offset of each label of a name, without the root's. The
// name may end before the root's zero. It has at most 127 labels.
func Labels(dst []uint8, name []byte) []uint8 {
	for i := 0; i < len(name) && name[i] != 0; i += 1 + int(name[i]) {
		dst = append(dst, uint8(i))
	}
	return dst
}

// NameLen returns the length of the uncompressed name in wire form that b
// begins with, or 0 if there is none.
func NameLen(b []byte) int {
	for i := 0; i < len(b) && i < maxName; i += 1 + int(b[i]) {
		if b[i] == 0 {
			return i + 1
		}
		if b[i] > maxLabel {
			break
		}
	}
	return 0
}

// ToLower folds names in wire form in place.
func ToLower(names []byte) {
	for i, c := range names {
		names[i] = lower[c]
	}
}

// EqualFold reports whether two names in wire form are the same apart from
// case.
func EqualFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower[a[i]] != lower[b[i]] {
			return false
		}
	}
	return true
}

// Within reports whether a name is the domain or below it, both in wire form
// and lower case.
func Within(name, domain []byte) bool {
	at := len(name) - len(domain)
	for i := 0; i <= at && i < len(name); i += 1 + int(name[i]) {
		if i == at {
			return bytes.Equal(name[i:], domain)
		}
	}
	return false
}

// Compare orders names in wire form and lower case as RFC 4034 section 6.1
// does: label by label from the right. Both may end before a domain that they
// share.
func Compare(a, b []byte) int {
	var as, bs [128]uint8
	la, lb := Labels(as[:0], a), Labels(bs[:0], b)
	for i, j := len(la)-1, len(lb)-1; i >= 0 && j >= 0; i, j = i-1, j-1 {
		x, y := int(la[i]), int(lb[j])
		if c := bytes.Compare(a[x+1:x+1+int(a[x])], b[y+1:y+1+int(b[y])]); c != 0 {
			return c
		}
	}
	return len(la) - len(lb)
}

// SortKey returns a string that sorts as Compare does, and that begins with the
// keys of the name's ancestors: the labels from the right, each followed by a
// zero byte. A zero or one inside a label is preceded by a one.
func SortKey(name []byte) string {
	var at [128]uint8
	labels := Labels(at[:0], name)
	key := make([]byte, 0, len(name)+8)
	for i := len(labels) - 1; i >= 0; i-- {
		s := int(labels[i])
		for _, c := range name[s+1 : s+1+int(name[s])] {
			if c <= 1 {
				key = append(key, 1)
				c++
			}
			key = append(key, c)
		}
		key = append(key, 0)
	}
	return string(key)
}

// Reverse returns the name of the PTR records of an address, in wire form (RFC
// 1035 section 3.5, RFC 3596 section 2.5).
func Reverse(a netip.Addr) []byte {
	name := make([]byte, 0, 74)
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		for i := range b {
			s := strconv.Itoa(int(b[3-i]))
			name = append(append(name, byte(len(s))), s...)
		}
		return append(name, "\x07in-addr\x04arpa\x00"...)
	}
	b := a.As16()
	const hex = "0123456789abcdef"
	for i := range b {
		name = append(name, 1, hex[b[15-i]&15], 1, hex[b[15-i]>>4])
	}
	return append(name, "\x03ip6\x04arpa\x00"...)
}

// errMessage reports that a received message ends early or contradicts itself.
var errMessage = errors.New("malformed DNS message")

// ReadName appends the name at off of msg to dst, in lower case, follows
// pointers, and returns where the name ends in msg. Pointers must lead
// backwards, so that no loop is possible.
func ReadName(dst, msg []byte, off int) ([]byte, int, error) {
	start, next, floor := len(dst), -1, off
	for {
		if off >= len(msg) {
			return dst, 0, errMessage
		}
		n := int(msg[off])
		switch {
		case n == 0:
			if next < 0 {
				next = off + 1
			}
			return append(dst, 0), next, nil
		case n&0xc0 == 0xc0:
			if off+2 > len(msg) {
				return dst, 0, errMessage
			}
			to := int(binary.BigEndian.Uint16(msg[off:]) & 0x3fff)
			if next < 0 {
				next = off + 2
			}
			if to >= floor || to < headerLen {
				return dst, 0, errMessage
			}
			off, floor = to, to
			continue
		case n > maxLabel || off+1+n > len(msg) || len(dst)-start+1+n+1 > maxName:
			return dst, 0, errMessage
		}
		dst = append(dst, byte(n))
		for _, c := range msg[off+1 : off+1+n] {
			dst = append(dst, lower[c])
		}
		off += 1 + n
	}
}

// skipName steps over a name, compressed or not, and returns where it ends, or
// -1. Pointers are not followed.
func skipName(msg []byte, off int) int {
	for n := 0; n < maxName; {
		if off >= len(msg) {
			return -1
		}
		switch c := int(msg[off]); {
		case c == 0:
			return off + 1
		case c&0xc0 == 0xc0:
			if off+2 > len(msg) {
				return -1
			}
			return off + 2
		case c > maxLabel:
			return -1
		default:
			off += 1 + c
			n += 1 + c
		}
	}
	return -1
}

// A Record is the position of a record in a message. ReadName reads its owner.
type Record struct {
	Owner, TTLAt int // offsets of the owner and of the four octets of the TTL
	Type, Class  uint16
	TTL          uint32
	Data, End    int // msg[Data:End] is its data; the next record begins at End
}

// ReadRecord reads the record that begins at off.
func ReadRecord(msg []byte, off int) (Record, error) {
	at := skipName(msg, off)
	if at < 0 || at+10 > len(msg) {
		return Record{}, errMessage
	}
	h := msg[at:]
	x := Record{
		Owner: off, TTLAt: at + 4,
		Type: binary.BigEndian.Uint16(h), Class: binary.BigEndian.Uint16(h[2:]),
		TTL:  binary.BigEndian.Uint32(h[4:]),
		Data: at + 10, End: at + 10 + int(binary.BigEndian.Uint16(h[8:])),
	}
	if x.End > len(msg) {
		return Record{}, errMessage
	}
	return x, nil
}

// SkipQuestions returns where the first record of a message begins.
func SkipQuestions(msg []byte) (int, error) {
	if len(msg) < headerLen {
		return 0, errMessage
	}
	off := headerLen
	for range binary.BigEndian.Uint16(msg[4:]) {
		if off = skipName(msg, off); off < 0 || off+4 > len(msg) {
			return 0, errMessage
		}
		off += 4
	}
	return off, nil
}
