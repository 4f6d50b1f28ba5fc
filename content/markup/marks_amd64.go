package markup

import "golang.org/x/sys/cpu"

// vectors reports whether this processor has the instructions in marks_amd64.s.
var vectors = cpu.X86.HasSSSE3

// A nibbles has a bit for each upper half of a mark, by one half of a byte: a byte is a mark if
// low and high of its halves have a bit in common.
type nibbles struct{ low, high [16]byte }

var styleNibbles = func() (t nibbles) {
	next := byte(1)
	for _, c := range []byte(styleMarks) {
		if t.high[c>>4] == 0 {
			t.high[c>>4] = next
			next <<= 1
		}
		t.low[c&0xF] |= t.high[c>>4]
	}
	return t
}()

// findMarks finds the marks in n times 64 bytes.
//
//go:noescape
func findMarks(found *uint64, p *byte, n int, of *nibbles)

func markBits(found *[markWords]uint64, p []byte, n int) {
	if !vectors {
		markBitsSlowly(found, p, n)
		return
	}
	findMarks(&found[0], &p[:64*n][0], n, &styleNibbles)
}
