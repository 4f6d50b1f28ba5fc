package match

import (
	"math"
	"strconv"

	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/rule"
)

// read reads the number for a byte_ keyword and returns where it ends.
func (in *Inspector) read(r *rule.Reader, at int) (n uint64, end int, ok bool) {
	i := in.value(r.Offset)
	if r.Relative {
		i += at
	}
	size := in.value(r.Bytes)
	if i < 0 || size < 0 || i+size > len(in.buf) {
		if !r.Text || i < 0 || i >= len(in.buf) {
			return 0, 0, false
		}
		size = len(in.buf) - i
	}
	raw := in.buf[i : i+size]
	if r.Text {
		n, used, ok := digits(raw, r.Base)
		if !ok {
			return 0, 0, false
		}
		return in.masked(r, n), i + used, true
	}
	if size > 8 || size == 0 {
		return 0, 0, size == 0
	}
	for k := range raw {
		if r.Little {
			n |= uint64(raw[k]) << (8 * k)
		} else {
			n = n<<8 | uint64(raw[k])
		}
	}
	return in.masked(r, n), i + size, true
}

func (in *Inspector) masked(r *rule.Reader, n uint64) uint64 {
	if r.Mask == 0 {
		return n
	}
	n &= uint64(r.Mask)
	for m := r.Mask; m&1 == 0; m >>= 1 {
		n >>= 1
	}
	return n
}

// digits parses a number as strtoull does: spaces, a sign, and digits up to the first other byte. A number
// below zero is what it is modulo 2^64. The "0x" of a hexadecimal number counts only before a digit.
func digits(raw []byte, base int) (n uint64, used int, ok bool) {
	i := 0
	for i < len(raw) && (raw[i] == ' ' || raw[i] >= '\t' && raw[i] <= '\r') {
		i++
	}
	minus := i < len(raw) && raw[i] == '-'
	if minus || i < len(raw) && raw[i] == '+' {
		i++
	}
	if base == 16 && i+2 < len(raw) && raw[i] == '0' && raw[i+1]|0x20 == 'x' && ascii.Unhex(raw[i+2]) >= 0 {
		i += 2
	}
	from := i
	for i < len(raw) {
		if c := raw[i]; ascii.Unhex(c) < 0 || ascii.Unhex(c) >= base {
			break
		}
		i++
	}
	if i == from {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(string(raw[from:i]), base, 64)
	if minus {
		n = -n
	}
	return n, i, err == nil
}

func (in *Inspector) byteTest(m *rule.ByteTest, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	v := in.operand(m.Value)
	switch m.Op {
	case "<":
		ok = n < v
	case ">":
		ok = n > v
	case "<=":
		ok = n <= v
	case ">=":
		ok = n >= v
	case "=":
		ok = n == v
	case "&":
		ok = n&v != 0
	case "^":
		ok = n^v != 0
	}
	return ok != m.Negated
}

func (in *Inspector) byteJump(m *rule.ByteJump, cursor int) (int, bool) {
	n, end, ok := in.read(&m.Reader, cursor)
	if !ok {
		return 0, false
	}
	if m.Bytes.N == 0 && m.Bytes.Var == 0 {
		end = in.value(m.Offset)
		if m.Relative {
			end += cursor
		}
	}
	jump := int64(n) * int64(m.Multiplier)
	if n > math.MaxInt32 {
		return 0, false
	}
	if m.Align && jump%4 != 0 {
		jump += 4 - jump%4
	}
	post := int64(m.Post)
	if m.PostVar > 0 {
		post = int64(in.Vars[m.PostVar-1])
	}
	to := int64(end) + jump + post
	switch {
	case m.Begin:
		to = jump + post
	case m.End:
		to = int64(len(in.buf)) + jump + post
	}
	if to < 0 || to > int64(len(in.buf)) {
		return 0, false
	}
	return int(to), true
}

func (in *Inspector) byteExtract(m *rule.ByteExtract, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	n *= m.Multiplier
	if a := uint64(m.Align); a > 0 && n%a != 0 {
		n += a - n%a
	}
	in.Vars[m.Slot-1] = n
	return true
}

func (in *Inspector) byteMath(m *rule.ByteMath, at int) bool {
	n, _, ok := in.read(&m.Reader, at)
	if !ok {
		return false
	}
	v := in.operand(m.Value)
	switch m.Op {
	case "+":
		n += v
	case "-":
		n -= v
	case "*":
		n *= v
	case "/":
		if v == 0 {
			return false
		}
		n /= v
	case "<<":
		if v >= 64 {
			n = 0
		} else {
			n <<= v
		}
	case ">>":
		if v >= 64 {
			n = 0
		} else {
			n >>= v
		}
	}
	in.Vars[m.Slot-1] = n
	return true
}
