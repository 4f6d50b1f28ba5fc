package coding

import (
	"bytes"

	"shuultuur/lib/ascii"
)

// A Transfer decodes the transfer coding (RFC 2045 section 6) of a part that arrives in
// pieces: base64 or quoted-printable. The zero Transfer returns bytes unchanged.
type Transfer struct {
	coding transferCoding
	carry  []byte // too few bytes to decode yet
}

type transferCoding uint8

const (
	transferNone transferCoding = iota
	transferBase64
	transferQuoted
)

// Reset begins a part; name is the value of its Content-Transfer-Encoding.
func (t *Transfer) Reset(name []byte) {
	name = bytes.TrimSpace(name)
	if end := bytes.IndexAny(name, " \t;("); end >= 0 {
		name = name[:end] // without a comment
	}
	t.coding, t.carry = transferNone, t.carry[:0]
	switch {
	case ascii.EqualLower(name, "base64"):
		t.coding = transferBase64
	case ascii.EqualLower(name, "quoted-printable"):
		t.coding = transferQuoted
	}
}

// Coded reports whether there is a coding.
func (t *Transfer) Coded() bool { return t.coding != transferNone }

// Next returns the next bytes of the part, decoded.
func (t *Transfer) Next(p []byte) []byte {
	switch t.coding {
	case transferBase64:
		in := append(t.carry, p...)
		clean := in[:0]
		for _, c := range in {
			if ascii.IsAlnum(c) || c == '+' || c == '/' {
				clean = append(clean, c)
			}
		}
		whole := len(clean) &^ 3
		out := Unbase64(bytes.Clone(clean[:whole]))
		t.carry = clean[:copy(clean, clean[whole:])]
		return out
	case transferQuoted:
		out, rest := unquote(append(t.carry, p...))
		t.carry = append(t.carry[:0], rest...)
		return out
	}
	return p
}

// End returns the rest, decoded, at the end of the part.
func (t *Transfer) End() []byte {
	last := bytes.Clone(t.carry)
	t.carry = t.carry[:0]
	if t.coding == transferBase64 {
		return Unbase64(last)
	}
	return last
}
