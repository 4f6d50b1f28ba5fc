package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Name makes wire form, lower case, of a name as written: with or without the
// final dot, \. and \DDD for what a label may not show (RFC 1035 section 5.1).
// "." and "" are the root.
func Name(text string) ([]byte, error) {
	if text == "." || text == "" {
		return []byte{0}, nil
	}
	name, at := make([]byte, 1, len(text)+2), 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.':
			n := len(name) - at - 1
			if n == 0 {
				return nil, fmt.Errorf("name %q has an empty label", text)
			}
			name[at] = byte(n)
			at = len(name)
			name = append(name, 0)
			continue
		case c == '\\' && i+3 < len(text) && digits(text[i+1:i+4]):
			v := int(text[i+1]-'0')*100 + int(text[i+2]-'0')*10 + int(text[i+3]-'0')
			if v > 255 {
				return nil, fmt.Errorf("name %q has an escape over 255", text)
			}
			c, i = byte(v), i+3
		case c == '\\':
			if i++; i == len(text) {
				return nil, fmt.Errorf("name %q ends in a backslash", text)
			}
			c = text[i]
		}
		if len(name)-at > maxLabel {
			return nil, fmt.Errorf("name %q has a label of more than %d octets", text, maxLabel)
		}
		name = append(name, lower[c])
	}
	if n := len(name) - at - 1; n > 0 {
		name[at] = byte(n)
		name = append(name, 0)
	}
	if len(name) > maxName {
		return nil, fmt.Errorf("name %q is longer than %d octets", text, maxName)
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

// AppendText appends a name in wire form as one writes it, with the final dot.
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

// Text is a name in wire form as one writes it, with the final dot.
func Text(name []byte) string { return string(AppendText(nil, name)) }

// errMessage says that a message of others ends early or lies.
var errMessage = errors.New("malformed DNS message")

// ReadName appends the name at off of msg to dst, lower case, pointers
// followed, and returns where it ends in msg. Pointers must lead towards the
// header, so that no loop is possible.
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
			if to >= floor {
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

// A Record is where one record of a message lies; its name is read with
// ReadName.
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
