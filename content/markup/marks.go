package markup

import "math/bits"

// This file finds the bytes that divide a style sheet, sixteen at once where the processor can.

// marks finds the bytes of p that styleMark has, from one position on.
type marks struct {
	p     []byte
	found [markWords]uint64 // a bit for each byte of a part of p, the first lowest
	from  int               // where the part begins
	words int               // of found
	word  int               // the current one
	rest  uint64            // its bits from the next mark on
}

// markWords is the length of a part in words: 4 KiB of p.
const markWords = 64

// begin begins at p[i:].
func (m *marks) begin(p []byte, i int) {
	m.p, m.from, m.words, m.word, m.rest = p, i, 0, -1, 0
}

// next returns the position of the next mark, len(p) for none.
func (m *marks) next() int {
	for m.rest == 0 {
		if m.word++; m.word >= m.words {
			if m.from += 64 * m.words; m.from >= len(m.p) {
				return len(m.p)
			}
			m.fill()
		}
		m.rest = m.found[m.word]
	}
	i := m.from + 64*m.word + bits.TrailingZeros64(m.rest)
	m.rest &= m.rest - 1
	return i
}

// fill finds the marks of the next part.
func (m *marks) fill() {
	part := m.p[m.from:min(len(m.p), m.from+64*markWords)]
	n := len(part) / 64
	if n > 0 {
		markBits(&m.found, part, n)
	}
	if part = part[64*n:]; len(part) > 0 {
		m.found[n] = 0
		for i, c := range part {
			if styleMark[c] {
				m.found[n] |= 1 << i
			}
		}
		n++
	}
	m.words, m.word = n, 0
}

// markBitsSlowly finds the marks in n times 64 bytes.
func markBitsSlowly(found *[markWords]uint64, p []byte, n int) {
	for k := range n {
		word := uint64(0)
		for i, c := range p[64*k : 64*k+64] {
			if styleMark[c] {
				word |= 1 << i
			}
		}
		found[k] = word
	}
}

const styleMarks = "{};\"'*\\"

// styleMark has the bytes that divide a style sheet.
var styleMark = func() (t [256]bool) {
	for _, c := range []byte(styleMarks) {
		t[c] = true
	}
	return t
}()
