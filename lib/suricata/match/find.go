package match

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"shuultuur/lib/suricata/rule"
)

// Find returns the first position of a content in data, or -1.
func Find(data []byte, c *rule.Content) int {
	p := c.Pattern // folded when compiled, if case does not matter
	switch {
	case len(p) == 0:
		return 0
	case len(p) == 1 && !c.NoCase:
		return bytes.IndexByte(data, p[0])
	case len(data) >= shortBuffer:
		first, second := rarestBytes(p)
		if common(p[first]) <= rareByte || len(p) == 1 {
			return findBy(data, p, first, c.NoCase)
		}
		return findByTwo(data, p, first, second, c.NoCase)
	case !c.NoCase:
		return bytes.Index(data, p)
	}
	for i := 0; i+len(p) <= len(data); i++ {
		if lower[data[i]] == p[0] && Begins(data[i:], p) {
			return i
		}
	}
	return -1
}

// shortBuffer is the number of bytes up to which a buffer is searched byte by byte, because
// selecting rare bytes of a pattern would take longer. rareByte is the frequency up to which a
// single byte is searched for: more frequent ones give too many candidates.
const (
	shortBuffer = 64
	rareByte    = 6
)

// rarestBytes returns the positions of the two bytes of a pattern that are least frequent in
// pages, the rarest first. They are equal for a pattern of one byte.
func rarestBytes(p []byte) (first, second int) {
	for i, c := range p {
		switch {
		case common(c) < common(p[first]):
			first, second = i, first
		case second == first || i != first && common(c) < common(p[second]):
			second = i
		}
	}
	return first, second
}

// findByTwo returns the first position of a pattern in data, or -1. It compares two bytes of
// the pattern, at positions a and b, with 32 or eight positions of data at a time. With noCase
// the pattern must be folded.
func findByTwo(data, p []byte, a, b int, noCase bool) int {
	const ones, cases = 0x0101010101010101, 0x2020202020202020
	x, y := uint64(p[a]|0x20)*ones, uint64(p[b]|0x20)*ones
	first, second := data[a:], data[b:]
	i := 0
	for n := (min(len(first), len(second)) - i) / 32; vectors && n > 0; n = (min(len(first), len(second)) - i) / 32 {
		k := indexTwoAVX2(&first[i], &second[i], n, p[a]|0x20, p[b]|0x20)
		if i += k; k == n*32 {
			break
		}
		if noCase && Begins(data[i:], p) || !noCase && bytes.HasPrefix(data[i:], p) {
			return i
		}
		i++
	}
	for ; i+8 <= len(first) && i+8 <= len(second); i += 8 {
		// A byte of v is 0 where both bytes match, in any case.
		v := (binary.LittleEndian.Uint64(first[i:]) | cases) ^ x | (binary.LittleEndian.Uint64(second[i:]) | cases) ^ y
		for zero := (v - ones) &^ v & (ones << 7); zero != 0; zero &= zero - 1 {
			k := i + bits.TrailingZeros64(zero)/8
			if noCase && Begins(data[k:], p) || !noCase && bytes.HasPrefix(data[k:], p) {
				return k
			}
		}
	}
	for ; i+len(p) <= len(data); i++ {
		if noCase && Begins(data[i:], p) || !noCase && bytes.HasPrefix(data[i:], p) {
			return i
		}
	}
	return -1
}

// findBy returns the first position of a pattern in data, or -1. It searches for the byte at
// position off of the pattern. With noCase the pattern must be folded.
func findBy(data, p []byte, off int, noCase bool) int {
	end := len(data) - len(p) + off + 1 // limit of the positions of that byte
	index := func(c byte, from int) int {
		if from >= end {
			return end
		}
		if n := bytes.IndexByte(data[from:end], c); n >= 0 {
			return from + n
		}
		return end
	}
	small, large := p[off], p[off]
	if noCase && small >= 'a' && small <= 'z' {
		large -= 'a' - 'A'
	}
	s, l := index(small, off), end
	if large != small {
		l = index(large, off)
	}
	for s < end || l < end {
		i := min(s, l)
		if noCase && Begins(data[i-off:], p) || !noCase && bytes.HasPrefix(data[i-off:], p) {
			return i - off
		}
		if i == s {
			s = index(small, i+1)
		} else {
			l = index(large, i+1)
		}
	}
	return -1
}

func equalAt(data []byte, c *rule.Content) bool {
	if c.NoCase {
		return Begins(data, c.Pattern)
	}
	return bytes.HasPrefix(data, c.Pattern)
}

// Begins reports whether data begins with a folded pattern, in any case.
func Begins(data, p []byte) bool {
	if len(data) < len(p) {
		return false
	}
	for i, c := range p {
		if lower[data[i]] != c {
			return false
		}
	}
	return true
}

// Fold returns p with ASCII letters in lower case.
func Fold(p []byte) []byte {
	q := make([]byte, len(p))
	for i, c := range p {
		q[i] = lower[c]
	}
	return q
}

var lower = func() (t [256]byte) {
	for i := range t {
		t[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			t[i] += 'a' - 'A'
		}
	}
	return
}()
