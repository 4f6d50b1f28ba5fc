package markup

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content/element"
	"shuultuur/lib/ascii"
)

// TestEightBytesAtOnceAreReadAsOneByOne compares the functions that handle eight bytes with
// loops over single ones.
func TestEightBytesAtOnceAreReadAsOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const likely = "aZzA@[`{09-:=<>?/ \t\n\f\r\v\x00\x01\x1f!\x80\xa0\xff\xbd\xaf"
	for range 200000 {
		p := make([]byte, 8+r.IntN(20))
		for i := range p {
			p[i] = likely[r.IntN(len(likely))]
			if r.IntN(4) == 0 {
				p[i] = byte(r.IntN(256))
			}
			if r.IntN(3) == 0 {
				p[i] = 'q'
			}
		}
		eight := binary.LittleEndian.Uint64(p)
		n := 0
		for n < 8 && (p[n] > ' ' && !strings.ContainsRune("/<=>?", rune(p[n]))) {
			n++
		}
		if got := nameLen(eight); got != n {
			t.Fatalf("nameLen(%q) = %d, want %d", p[:8], got, n)
		}
		low := binary.LittleEndian.AppendUint64(nil, element.LowerEight(eight))
		for i, c := range low {
			if c != ascii.Lower(p[i]) {
				t.Fatalf("lowerEight(%q) = %q", p[:8], low)
			}
		}
		for i := range p {
			if r.IntN(3) > 0 {
				p[i] = " \n\t\x01"[r.IntN(4)]
			}
		}
		n = 0
		for n < len(p) && p[n] > 0 && p[n] <= ' ' {
			n++
		}
		if got := blankLen(p); got != n {
			t.Fatalf("blankLen(%q) = %d, want %d", p, got, n)
		}
	}
}
