package match

import (
	"encoding/base64"
	"math"

	"shuultuur/lib/suricata/rule"
)

// base64 decodes from the cursor and inspects the result.
func (in *Inspector) base64(m *rule.Base64, next []rule.Match, at int) result {
	from := m.Offset
	if m.Relative {
		from += at
	}
	if from >= len(in.buf) {
		return retry
	}
	raw := in.buf[from:]
	if m.Bytes > 0 && m.Bytes < len(raw) {
		raw = raw[:m.Bytes]
	}
	out := decodeBase64(raw, false)
	if len(out) == 0 {
		return retry
	}
	if len(m.Inner) > 0 {
		sub := Inspector{buf: out, Vars: in.Vars, Work: in.Work, outside: in.outside}
		r := sub.inspect(m.Inner, 0)
		in.steps, in.Work, in.Slow, in.Over = in.steps+sub.steps, sub.Work, in.Slow+sub.Slow, in.Over || sub.Over
		in.Captures = append(in.Captures, sub.Captures...)
		if r != holds {
			return retry
		}
	}
	return in.inspect(next, at)
}

// decodeBase64 decodes as far as there are digits. It skips spaces and line ends if skip is
// true.
func decodeBase64(raw []byte, skip bool) []byte {
	if len(raw) > maxBase64 {
		raw = raw[:maxBase64]
	}
	clean := make([]byte, 0, len(raw))
	for _, c := range raw {
		if isBase64(c) {
			clean = append(clean, c)
			continue
		}
		if skip && c != '=' {
			continue
		}
		break
	}
	if len(clean)%4 == 1 {
		clean = clean[:len(clean)-1]
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/'
}

// entropyFits compares Shannon's entropy in bits per byte, and returns it.
func entropyFits(m *rule.Entropy, b []byte) (e float64, ok bool) {
	if m.Offset > len(b) {
		return 0, false
	}
	b = b[m.Offset:]
	if m.Bytes > 0 {
		if m.Bytes > len(b) {
			return 0, false
		}
		b = b[:m.Bytes]
	}
	e = Entropy(b)
	switch m.Op {
	case "=":
		ok = e == m.Value
	case "!=":
		ok = e != m.Value
	case "<":
		ok = e < m.Value
	case ">":
		ok = e > m.Value
	case "<=":
		ok = e <= m.Value
	case ">=":
		ok = e >= m.Value
	case "<>":
		ok = e > m.Value && e < m.High
	case "!<>":
		ok = e <= m.Value || e >= m.High
	}
	return e, ok
}

// Entropy returns Shannon's entropy of b in bits per byte.
func Entropy(b []byte) float64 {
	if len(b) == 0 {
		return 0
	}
	var count [256]int
	for _, c := range b {
		count[c]++
	}
	e := 0.0
	for _, n := range count {
		if n > 0 {
			p := float64(n) / float64(len(b))
			e -= p * math.Log2(p)
		}
	}
	return e
}
