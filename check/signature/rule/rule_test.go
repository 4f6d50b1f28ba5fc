package rule

import (
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/test/data"
)

// TestPublicRulesLoad reads the public rule sets: none may be refused.
func TestPublicRulesLoad(t *testing.T) {
	for name, want := range map[string]int{"et-open.rules.gz": 29744, "et-open-http.rules.gz": 16024} {
		f, err := os.Open(data.Path(t, "rules", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		rules, mistakes, err := NewParser().Read(name, z)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d rules in %v", name, len(rules), time.Since(start))
		for i, m := range mistakes {
			if i < 20 {
				t.Error(m)
			}
		}
		if len(rules) != want {
			t.Errorf("%s: %d rules, want %d", name, len(rules), want)
		}
	}
}

// TestExpressionsWithLookAroundFindTheSameByRunes holds the short cuts of anchored
// expressions against the engine that takes none.
func TestExpressionsWithLookAroundFindTheSameByRunes(t *testing.T) {
	for _, expr := range []string{`^(?P<s>.{1,5})u(?P=s)n`, `^[a-f0-9]{2}-->.*?<b>(?!x)`, `^\s*\{a(?=b)`, `^(?<!q)[]a-c]+\x61?(?=\))`, `a(?=b)`, `^a{2,}(?=b)`} {
		re, err := Compile(&PCRE{Expr: expr, Flags: "Rs"})
		if err != nil || !re.Looking() {
			t.Fatal(expr, err)
		}
		for _, s := range []string{"", "-u-n", "--u--nx", "xuxn", "0f--> zz <b>y", "0f-->\n<b>x", " {ab", "{ac", "]abca)", "q]a)", "aab", "xab", strings.Repeat("a", 20000) + "b", "-u-n" + strings.Repeat(" ", 1000)} {
			want, known := re.Find(s, 0)
			got, ok := re.FindRunes([]rune(s), 0)
			if known && ok && fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s in %.20q: %v, want %v", expr, s, got, want)
			}
			if re.Rejects(s, 0) && len(want) > 0 {
				t.Errorf("%s in %.20q is there and rejected", expr, s)
			}
		}
	}
}
