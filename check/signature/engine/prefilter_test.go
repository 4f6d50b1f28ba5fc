package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
			patterns[i] = text(1 + r.IntN([]int{9, 9, 9, 40}[r.IntN(4)]))
			list = append(list, newPattern(patterns[i], r.IntN(2) == 0))
		}
		f := newPrefilter(list)
		data := text(r.IntN([]int{60, 60, 60, 400}[r.IntN(4)]))
		for range r.IntN(3) {
			if p := patterns[r.IntN(len(patterns))]; len(p) <= len(data) {
				copy(data[r.IntN(len(data)-len(p)+1):], p)
			}
		}
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

// TestShortFastPatternsGiveWayToRarerTexts: a rule waits for the rarest text that it needs in the
// same bytes if its fast pattern has four bytes or less.
func TestShortFastPatternsGiveWayToRarerTexts(t *testing.T) {
	for _, c := range []struct{ matches, want string }{
		{`file.data; content:"|5c|u0"; pcre:"/\/\x5cu0[a-d]/";`, `"/\\u0" in file.data`},
		{`file.data; content:"|5c|u0"; pcre:"/\x5cu[a-d]0/";`, `"\\u0" in file.data`},
		{`file.data; content:".exe"; content:"Zq"; content:"xK9~vJw"; nocase;`, `"xk9~vjw" in file.data`},
		{`file.data; content:"unescape("; content:"xK9~vJw";`, `"unescape(" in file.data`},
		{`content:"a="; pcre:"/a=xK9~vJw\d/";`, `"a=xK9~vJw" in payload`},
		{`file.data; content:".exe"; pcre:!"/xK9~vJw/";`, `".exe" in file.data`},
		{`http.location; content:".exe"; pcre:"/xK9~vJw/";`, `".exe" in http.location`},
	} {
		e := build(t, `alert http any any -> any any (msg:"x"; flow:to_client; `+c.matches+` sid:1;)`)
		if text, _ := e.Explain(1); !strings.Contains(text, "waits for "+c.want+"\n") {
			t.Errorf("explaining %s gave:\n%s\nwant it to wait for %s", c.matches, text, c.want)
		}
	}
}

// TestManyPatternsWithTheSameBytesAreFound: more patterns than are examined together have the
// bytes by which candidates are looked up.
func TestManyPatternsWithTheSameBytesAreFound(t *testing.T) {
	var list []pattern
	for i := range 5 * manySimilar {
		list = append(list, newPattern(fmt.Appendf(nil, "zqxjkv%03d", i), i%2 == 0))
	}
	f := newPrefilter(list)
	data := []byte(strings.Repeat("zqxjkv ", 3*manySuspects) + "zqxjkv639 ZQXJKV001 zqxjkv000 ZQXJKV002" + strings.Repeat(" zqxjkv123", 2*manySuspects))
	var seen sight
	seen.reset(f.n)
	var got []int32
	f.scan(data, &seen, func(p int32) { got = append(got, p) })
	slices.Sort(got)
	if want := []int32{0, 1, 123, 639}; !slices.Equal(got, want) {
		t.Errorf("the patterns %v were found, want %v", got, want)
	}
	if n := seen.counts[123]; n < 2*manySuspects { // at the end one may be seen twice
		t.Errorf("pattern 123 was seen %d times, want %d", n, 2*manySuspects)
	}
}
