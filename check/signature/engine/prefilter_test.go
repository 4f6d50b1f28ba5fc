package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"shuultuur/check/signature/rule"
	"shuultuur/test/race"
)

// TestPrefiltersFindWhatASearchFinds compares prefilters, and the positions that they keep,
// with a plain search, for patterns of every length at every position.
func TestPrefiltersFindWhatASearchFinds(t *testing.T) {
	race.Without(t)
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = "aAbB\x80\xa0 @`"[r.IntN(9)]
		}
		return b
	}
	for range 3000 {
		patterns, list := make([][]byte, 1+r.IntN(20)), []pattern(nil)
		for i := range patterns {
			patterns[i] = text(1 + r.IntN(9))
			list = append(list, newPattern(patterns[i], r.IntN(2) == 0))
		}
		f := newPrefilter(list)
		data := text(r.IntN([]int{60, 60, 60, 400}[r.IntN(4)]))
		var got []int32
		var seen sight
		seen.reset(f.n)
		f.scan(data, &seen, func(p int32) { got = append(got, p) })
		var c cursor
		for i, p := range patterns {
			exact, hay, needle := list[i].exact, fold(data), fold(p)
			if exact {
				hay, needle = data, p
			}
			if want, found := bytes.Contains(hay, needle), slices.Contains(got, int32(i)); found != want {
				t.Fatalf("the pattern %q in %q was found: %v, want %v", p, data, found, want)
			}
			seen.data = data
			for from := range data {
				switch r.IntN(8) {
				case 0: // backtracking
					from = r.IntN(from + 1)
				case 1: // another pattern between
					k := int32(r.IntN(len(patterns)))
					seen.next(k, &rule.Content{Pattern: fold(patterns[k]), NoCase: true}, r.IntN(from+1), len(data), &c)
				}
				want := bytes.Index(hay[from:], needle)
				if want >= 0 {
					want += from
				}
				if at, ok := seen.next(int32(i), &rule.Content{Pattern: needle, NoCase: !exact}, from, len(data), &c); ok && at != want {
					t.Fatalf("pattern %q in %q from %d: seen at %d, want %d", p, data, from, at, want)
				}
			}
			first, second := rarestBytes(p)
			for _, noCase := range []bool{true, false} {
				hay, needle := data, p
				if noCase {
					hay, needle = fold(data), fold(p)
				}
				want := bytes.Index(hay, needle)
				if len(data) < len(p) {
					continue
				}
				if found := findBy(data, needle, first, noCase); found != want {
					t.Fatalf("%q in %q, without case %v: at %d, want %d", p, data, noCase, found, want)
				}
				if found := findByTwo(data, needle, first, second, noCase); found != want {
					t.Fatalf("%q in %q by two bytes, without case %v: at %d, want %d", p, data, noCase, found, want)
				}
			}
		}
	}
}
