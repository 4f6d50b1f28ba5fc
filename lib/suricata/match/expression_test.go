package match

import (
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/suricata/rule"
)

// TestPlacesInTextAndBufferAreTheSame converts positions in a buffer to positions in its text
// and back.
func TestPlacesInTextAndBufferAreTheSame(t *testing.T) {
	for _, n := range []int{1, stride - 1, stride, stride + 1, 3 * stride} {
		buf := make([]byte, n)
		for i := range buf {
			buf[i] = byte(i * 37)
		}
		buf[0] = 0xff
		in := Inspector{}
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
			in := Inspector{}
			in.start([]byte("xx" + s))
			got, ok := in.search(&Expression{p, re}, 2, 2)
			var want []int
			known := true
			if re.Looking() {
				runes := []rune{}
				for _, c := range []byte(s) {
					runes = append(runes, rune(c))
				}
				want, known = re.FindRunes(runes, 0)
			} else {
				all := Inspector{}
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

// TestASearchSkipsPositionsWhereNoMatchCanBegin searches a text of many non-ASCII bytes
// in which no match can begin.
func TestASearchSkipsPositionsWhereNoMatchCanBegin(t *testing.T) {
	re, err := rule.Compile(&rule.PCRE{Expr: `\x5Cu0[a-d](\x5Cu0|0)[a-d]`, Flags: "i"})
	if err != nil {
		t.Fatal(err)
	}
	var in Inspector
	in.start([]byte(strings.Repeat("\xe4\\u002F ", 1000) + `\u0A\U0b`))
	if loc, ok := in.search(&Expression{&rule.PCRE{}, re}, 0, 0); !ok || !slices.Equal(loc[:2], []int{8000, 8008}) {
		t.Errorf("search found %v, %v; want 8000 to 8008", loc, ok)
	}
	in.start([]byte(strings.Repeat("\xe4\\u002F ", 1000)))
	if loc, ok := in.search(&Expression{&rule.PCRE{}, re}, 0, 0); !ok || loc != nil || in.text != nil {
		t.Errorf("search found %v, %v, and made the text: %v; want nothing", loc, ok, in.text != nil)
	}
}
