package match

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
	"shuultuur/test/race"
)

// FuzzPrefilter compares the prefilter with a search for each pattern.
func FuzzPrefilter(f *testing.F) {
	f.Add([]byte("GET /index.php?id=1 HTTP/1.1"), "index.php\nid=\nX\n.p\nhttp")
	f.Add([]byte("aaaaaaaa"), "aaaa\naaa\na\nAA")
	f.Add([]byte{0, 1, 2, 0xff, 0xfe}, "\x00\x01\n\xff")
	f.Fuzz(func(t *testing.T, data []byte, list string) {
		var patterns []Pattern
		for p := range strings.SplitSeq(list, "\n") {
			if p != "" && len(patterns) < 64 {
				patterns = append(patterns, NewPattern([]byte(p), len(patterns)%2 > 0)) // case matters in every other one
			}
		}
		if len(patterns) == 0 {
			return
		}
		got := make([]bool, len(patterns))
		var seen Sight
		NewPrefilter(patterns).Scan(data, &seen, func(p int32) { got[p] = true })
		for i, p := range patterns {
			hay := data
			if !p.Exact {
				hay = Fold(data)
			}
			if want := bytes.Contains(hay, []byte(p.Text)); got[i] != want {
				t.Errorf("the pattern %v in %q was found: %v, want %v", p, data, got[i], want)
			}
		}
	})
}

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
		patterns, list := make([][]byte, 1+r.IntN(20)), []Pattern(nil)
		for i := range patterns {
			patterns[i] = text(1 + r.IntN([]int{9, 9, 9, 40}[r.IntN(4)]))
			list = append(list, NewPattern(patterns[i], r.IntN(2) == 0))
		}
		f := NewPrefilter(list)
		data := text(r.IntN([]int{60, 60, 60, 400}[r.IntN(4)]))
		for range r.IntN(3) {
			if p := patterns[r.IntN(len(patterns))]; len(p) <= len(data) {
				copy(data[r.IntN(len(data)-len(p)+1):], p)
			}
		}
		var got []int32
		var seen Sight
		f.Scan(data, &seen, func(p int32) { got = append(got, p) })
		var c cursor
		for i, p := range patterns {
			exact, hay, needle := list[i].Exact, Fold(data), Fold(p)
			if exact {
				hay, needle = data, p
			}
			if want, found := bytes.Contains(hay, needle), slices.Contains(got, int32(i)); found != want {
				t.Fatalf("the pattern %q in %q was found: %v, want %v", p, data, found, want)
			}
			seen.Data = data
			for from := range data {
				switch r.IntN(8) {
				case 0: // backtracking
					from = r.IntN(from + 1)
				case 1: // another pattern between
					k := int32(r.IntN(len(patterns)))
					seen.next(k, &rule.Content{Pattern: Fold(patterns[k]), NoCase: true}, r.IntN(from+1), len(data), &c)
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
					hay, needle = Fold(data), Fold(p)
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

// TestManyPatternsWithTheSameBytesAreFound: more patterns than are examined together have the
// bytes by which candidates are looked up.
func TestManyPatternsWithTheSameBytesAreFound(t *testing.T) {
	var list []Pattern
	for i := range 5 * manySimilar {
		list = append(list, NewPattern(fmt.Appendf(nil, "zqxjkv%03d", i), i%2 == 0))
	}
	f := NewPrefilter(list)
	data := []byte(strings.Repeat("zqxjkv ", 3*manySuspects) + "zqxjkv639 ZQXJKV001 zqxjkv000 ZQXJKV002" + strings.Repeat(" zqxjkv123", 2*manySuspects))
	var seen Sight
	var got []int32
	f.Scan(data, &seen, func(p int32) { got = append(got, p) })
	slices.Sort(got)
	if want := []int32{0, 1, 123, 639}; !slices.Equal(got, want) {
		t.Errorf("the patterns %v were found, want %v", got, want)
	}
	if n := seen.counts[123]; n < 2*manySuspects { // at the end one may be seen twice
		t.Errorf("pattern 123 was seen %d times, want %d", n, 2*manySuspects)
	}
}
