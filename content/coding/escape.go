package coding

import (
	"bytes"
	"encoding/base64"

	"shuultuur/lib/ascii"
)

// unquote decodes quoted-printable (RFC 2045, 6.7). rest are the bytes at the end that may be
// an incomplete escape.
func unquote(p []byte) (out, rest []byte) {
	out = make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] != '=' {
			out = append(out, p[i])
			continue
		}
		if i+2 >= len(p) {
			if i+1 < len(p) && p[i+1] == '\n' {
				i++
				continue
			}
			return out, p[i:]
		}
		a, b := ascii.Unhex(p[i+1]), ascii.Unhex(p[i+2])
		switch {
		case a >= 0 && b >= 0:
			out = append(out, byte(a<<4|b))
			i += 2
		case p[i+1] == '\n':
			i++
		case p[i+1] == '\r' && p[i+2] == '\n':
			i += 2
		default:
			out = append(out, '=')
		}
	}
	return out, nil
}

// AppendUnpercented appends p with escapes such as %41 decoded.
func AppendUnpercented(dst, p []byte) []byte {
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if a, b := ascii.Unhex(p[i+1]), ascii.Unhex(p[i+2]); a >= 0 && b >= 0 {
				dst = append(dst, byte(a<<4|b))
				i += 2
				continue
			}
		}
		dst = append(dst, p[i])
	}
	return dst
}

// Unbase64 decodes p as far as it is valid, ignoring white space.
func Unbase64(p []byte) []byte {
	p = bytes.TrimRight(p, "=")
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(p)))
	if n, err := base64.RawStdEncoding.Decode(out, p); err == nil {
		return out[:n]
	}
	clean := make([]byte, 0, len(p))
	for _, c := range p {
		switch {
		case c == '-':
			c = '+'
		case c == '_':
			c = '/'
		case !ascii.IsAlnum(c) && c != '+' && c != '/':
			continue
		}
		clean = append(clean, c)
	}
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}

// UULine decodes a line: the number of bytes, then four characters for three.
func UULine(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	n := int(p[0]-' ') & 63
	var out []byte
	for p = p[1:]; len(p) > 0 && len(out) < n; p = p[min(4, len(p)):] {
		var c [4]byte
		for i := range c {
			if i < len(p) {
				c[i] = (p[i] - ' ') & 63
			}
		}
		out = append(out, c[0]<<2|c[1]>>4, c[1]<<4|c[2]>>2, c[2]<<6|c[3])
	}
	return out[:min(n, len(out))]
}
