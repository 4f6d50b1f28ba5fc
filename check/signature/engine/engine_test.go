package engine

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"shuultuur/check/signature/rule"
)

// FuzzPrefilter compares the prefilter with a search for each pattern.
func FuzzPrefilter(f *testing.F) {
	f.Add([]byte("GET /index.php?id=1 HTTP/1.1"), "index.php\nid=\nX\n.p\nhttp")
	f.Add([]byte("aaaaaaaa"), "aaaa\naaa\na\nAA")
	f.Add([]byte{0, 1, 2, 0xff, 0xfe}, "\x00\x01\n\xff")
	f.Fuzz(func(t *testing.T, data []byte, list string) {
		var patterns []pattern
		for p := range strings.SplitSeq(list, "\n") {
			if p != "" && len(patterns) < 64 {
				patterns = append(patterns, newPattern([]byte(p), len(patterns)%2 > 0)) // case matters in every other one
			}
		}
		if len(patterns) == 0 {
			return
		}
		got := make([]bool, len(patterns))
		var seen sight
		seen.reset(len(patterns))
		newPrefilter(patterns).scan(data, &seen, func(p int32) { got[p] = true })
		for i, p := range patterns {
			hay := data
			if !p.exact {
				hay = fold(data)
			}
			if want := bytes.Contains(hay, []byte(p.text)); got[i] != want {
				t.Errorf("the pattern %v in %q was found: %v, want %v", p, data, got[i], want)
			}
		}
	})
}

// naive tries two contents, the second relative to the first, at every position.
func naive(buf []byte, a, b *rule.Content) bool {
	for i := 0; i+len(a.Pattern) <= len(buf); i++ {
		if !bytes.HasPrefix(buf[i:], a.Pattern) {
			continue
		}
		end := i + len(a.Pattern)
		for j := max(0, end+int(b.Distance.N)); j+len(b.Pattern) <= len(buf); j++ {
			if b.HasWith && j+len(b.Pattern) > end+int(b.Distance.N)+int(b.Within.N) {
				break
			}
			if bytes.HasPrefix(buf[j:], b.Pattern) {
				return true
			}
		}
	}
	return false
}

// FuzzContent compares the inspection of two contents with a naive one.
func FuzzContent(f *testing.F) {
	f.Add([]byte("abcabcxabcd"), "abc", "d", 0, 1)
	f.Add([]byte("aaaaab"), "a", "b", 0, 1)
	f.Add([]byte("ba"), "a", "b", -2, 0)
	f.Fuzz(func(t *testing.T, buf []byte, x, y string, distance, within int) {
		if x == "" || y == "" || len(buf) > 300 || distance > 1000 || distance < -1000 || within < 0 || within > 1000 {
			return
		}
		a := &rule.Content{Pattern: []byte(x), RelativeNext: true}
		b := &rule.Content{Pattern: []byte(y), HasDistance: true, Distance: rule.Number{N: int32(distance)}, HasWith: within >= len(y), Within: rule.Number{N: int32(within)}}
		in := inspector{}
		in.start(buf)
		got := in.inspect([]rule.Match{a, b}, 0) == match
		if want := naive(buf, a, b); got != want {
			t.Errorf("%q then %q (distance %d, within %d) in %q: %v, want %v", x, y, distance, within, buf, got, want)
		}
	})
}

// FuzzNormalURI searches for targets that break the normalisation.
func FuzzNormalURI(f *testing.F) {
	for _, s := range []string{"/a/../b", "http://h/x?y#z", "/%u0041%zz%", "\\..\\", "/a/./b//c/..", "?"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, target []byte) {
		if out := NormalURI(target); len(out) > len(target) {
			t.Errorf("NormalURI(%q) is longer: %q", target, out)
		}
	})
}

func TestURIsAreNormalised(t *testing.T) {
	for in, want := range map[string]string{
		"/a/./b/../c":             "/a/c",
		"http://u@h:1/p%41?q=%42": "/pA?q=B",
		`\a\\b`:                   "/a/b",
		"/%u0041%2541%zz":         "/A%41%zz",
		"/a+b":                    "/a+b",
	} {
		if got := string(NormalURI([]byte(in))); got != want {
			t.Errorf("NormalURI(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestThresholdsLimitAlerts(t *testing.T) {
	for _, tc := range []struct {
		kind string
		want string // of six matches, one each second
	}{
		{"type limit, track by_src, count 2, seconds 60", "++----"},
		{"type threshold, track by_src, count 2, seconds 60", "-+-+-+"},
		{"type both, track by_src, count 3, seconds 60", "--+---"},
		{"type limit, track by_src, count 1, seconds 3", "+--+--"},
		{"type backoff, track by_src, count 1, multiplier 2", "++-+--"},
	} {
		th, err := rule.ParseThreshold(tc.kind)
		if err != nil {
			t.Fatal(err)
		}
		s, got := NewState(), ""
		for i := range 6 {
			if s.allow(th, countKey{sid: 1}, time.Unix(int64(1000+i), 0), 0) {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != tc.want {
			t.Errorf("%s: alerts of six matches are %s, want %s", tc.kind, got, tc.want)
		}
	}
}

// TestRulesOutsideAnyBufferInspectTheStream covers rules with a pattern, rules without one for
// a prefilter, and traces.
func TestRulesOutsideAnyBufferInspectTheStream(t *testing.T) {
	for _, tt := range []struct {
		options string
		want    bool
	}{
		{`content:"POST"; `, true},
		{`content:!"POST"; `, true},
		{`pcre:"/^[A-Z]+/"; `, true},
		{`http.method; content:"POST"; `, false},
	} {
		rules, _, err := rule.NewParser().Read("a.rules", strings.NewReader(`alert http any any -> any any (`+tt.options+`sid:1;)`))
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range []bool{false, true} {
			e, _, err := New(Config{Rules: rules, Packets: true, Trace: trace})
			if err != nil {
				t.Fatal(err)
			}
			if got := e.HasStream(rule.ToServer); got != tt.want {
				t.Errorf("%s, trace %v: the stream is looked at: %v, want %v", tt.options, trace, got, tt.want)
			}
		}
	}
}

// TestPlacesInTextAndBufferAreTheSame converts positions in a buffer to positions in its text
// and back.
func TestPlacesInTextAndBufferAreTheSame(t *testing.T) {
	for _, n := range []int{1, stride - 1, stride, stride + 1, 3 * stride} {
		buf := make([]byte, n)
		for i := range buf {
			buf[i] = byte(i * 37)
		}
		buf[0] = 0xff
		in := inspector{}
		in.start(buf)
		text := in.latin()
		for i := 0; i <= n; i++ {
			want := len(text)
			if i < n {
				want = 0
				for _, c := range buf[:i] {
					want += len(string(rune(c)))
				}
			}
			if got := in.toText(i); got != want || in.toBytes(want) != i {
				t.Fatalf("%d of %d: place %d in the text, want %d; back %d", i, n, got, want, in.toBytes(want))
			}
		}
	}
}

// TestExpressionsWithAlternativesAreSearchedForAtTheBeginning has expressions that match at
// the beginning only, whatever alternatives their groups have.
func TestExpressionsWithAlternativesAreSearchedForAtTheBeginning(t *testing.T) {
	for expr, want := range map[string]bool{`^a`: true, `^(?:a|b)c`: true, `^[|]`: true, `^\|`: true, `^a|^b`: true, `^(a|b)(?=c|d)`: true,
		`^a|b`: false, `^(?=a)b|c`: false, `(?:a|b)`: false, `a^`: false} {
		re, err := rule.Compile(&rule.PCRE{Expr: expr, Flags: "R"})
		if err != nil {
			t.Fatal(expr, err)
		}
		if re.Anchored() != want {
			t.Errorf("%s is anchored: %v, want %v", expr, re.Anchored(), want)
		}
	}
}

// TestShortCutsOfExpressionsChangeNoMatch compares searches at the beginning, or in a part of
// a subject, with searches in the whole subject.
func TestShortCutsOfExpressionsChangeNoMatch(t *testing.T) {
	subjects := []string{"", "-u-n", "--u--nx", "xuxn", "0f--> zz <b>y", "0f-->\n<b>x", " {ab", "{ac", "]abca)", "q]a)", "aab", "xab", strings.Repeat("a", 20000) + "b", "-u-n" + strings.Repeat(" ", 1000),
		"\xe4b\xff", "a\xe4b\xff\n", "\n", "ab\n", "\xc3\xa4b"}
	for _, expr := range []string{`^(?P<s>.{1,5})u(?P=s)n`, `^[a-f0-9]{2}-->.*?<b>(?!x)`, `^\s*\{a(?=b)`, `^(?<!q)[]a-c]+\x61?(?=\))`, `a(?=b)`, `^a{2,}(?=b)`,
		`^a+b`, `^(\xe4|a)+?b`, `^.*$`, `^[^\x00]{0,64}?b`, `^$`, `^ab$`, `b`, `\xff$`, `a(.*)`, `^\xc3.b`, `^(?:-u|x)u?`, `^-u|b`, `^-u|^x`, `(^|x)u`, `^(?P<s>-|x)u(?P=s)n`, `^(?P<s>-|x)u(?P=s)n|b(?=x)`,
		`[ab]b`, `u[-x]n`, `x?u`, `\bb`, `\Bb`, `(?:\bu|y)`, `\xe4?b\xff`, `a{3}b`, `\xa4?[b-d]`, `(?m)^b`} {
		p := &rule.PCRE{Expr: expr, Flags: "Rs", Relative: true}
		re, err := rule.Compile(p)
		if err != nil {
			t.Fatal(expr, err)
		}
		for _, s := range subjects {
			in := inspector{}
			in.start([]byte("xx" + s))
			got, ok := in.search(&expression{p, re}, 2, 2)
			var want []int
			known := true
			if re.Looking() {
				runes := []rune{}
				for _, c := range []byte(s) {
					runes = append(runes, rune(c))
				}
				want, known = re.FindRunes(runes, 0)
			} else {
				all := inspector{}
				all.start([]byte(s))
				want = re.Find(all.latin())
				for i := range want {
					if want[i] >= 0 {
						want[i] = all.toBytes(want[i])
					}
				}
			}
			move(want, 2)
			if known && ok && !slices.Equal(got, want) {
				t.Errorf("searching %s in %.20q found %v, want %v", expr, s, got, want)
			}
		}
	}
}
