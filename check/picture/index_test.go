//go:build !small

package picture

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

func randomIndex(r *rand.Rand, words, within, n int) *index {
	x := &index{words: words, within: within}
	for i := range n {
		for range words {
			x.all = append(x.all, r.Uint64())
		}
		x.lines = append(x.lines, uint32(i))
	}
	x.build()
	return x
}

func TestIndexAgreesWithComparingAll(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct{ words, within, n int }{
		{4, 31, 3000}, {4, 31, 20_000}, {1, 6, 20_000}, {1, 0, 20_000}, {1, 1, 20_000}, {1, 9, 20_000}, {1, 20, 20_000}, {4, 31, 1}, {1, 6, 0},
	} {
		t.Run(fmt.Sprintf("%d words, %d bits, %d hashes", c.words, c.within, c.n), func(t *testing.T) {
			x := randomIndex(r, c.words, c.within, c.n)
			distance := func(a, b []uint64) (d int) {
				for i, w := range a {
					d += bits.OnesCount64(w ^ b[i])
				}
				return d
			}
			hits := 0
			for range 200 {
				h := make([]uint64, c.words)
				for i := range h {
					h[i] = r.Uint64()
				}
				if c.n > 0 {
					copy(h, x.hash(r.IntN(c.n)))
				}
				for range r.IntN(c.within*3/2 + 2) {
					h[r.IntN(c.words)] ^= 1 << r.IntN(64)
				}
				best := c.within + 1
				for i := range c.n {
					best = min(best, distance(h, x.hash(i)))
				}
				at, d, ok := x.nearest(h...)
				if ok != (best <= c.within) || ok && (d != best || distance(h, x.hash(at)) != d) {
					t.Fatalf("got hash %d at distance %d, %v; the nearest is at %d", at, d, ok, best)
				}
				if ok {
					hits++
				}
			}
			if c.n > 0 && hits < 50 {
				t.Errorf("only %d hashes were near: nothing was tested", hits)
			}
		})
	}
}

func BenchmarkNearestOfTenMillion(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, c := range []struct{ words, within int }{{4, 31}, {1, 6}} {
		x := randomIndex(r, c.words, c.within, 10_000_000)
		b.Run(fmt.Sprintf("%d words", c.words), func(b *testing.B) {
			h := make([]uint64, c.words)
			for b.Loop() {
				for i := range h {
					h[i] = r.Uint64()
				}
				x.nearest(h...)
			}
		})
	}
}
