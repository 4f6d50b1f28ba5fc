package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"shuultuur/check/signature/rule"
)

// TestRememberedFailuresChangeNothing tries random rules on random buffers with and without
// remembering failures: result and steps must be the same.
func TestRememberedFailuresChangeNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	word := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return b
	}
	var kept failures
	used, over := 0, 0
	for range 4000 {
		var ms []rule.Match
		for i := range 2 + r.IntN(5) {
			c := &rule.Content{Pattern: word(1 + r.IntN(3)), RelativeNext: true}
			if i > 0 {
				c.HasDistance, c.Distance = true, rule.Number{N: int32(r.IntN(4) - 1)}
				c.HasWith, c.Within = r.IntN(2) == 0, rule.Number{N: int32(3 + r.IntN(40))}
				c.Negated = r.IntN(5) == 0
			}
			ms = append(ms, c)
			if r.IntN(4) == 0 {
				ms = append(ms, &rule.DataAt{Relative: true, Negated: r.IntN(2) == 0, At: rule.Number{N: int32(r.IntN(60))}})
			}
		}
		buf := word(20 + r.IntN(100))
		var plain, remembering inspector
		plain.start(buf)
		remembering.start(buf)
		remembering.remember(&kept)
		want, got := plain.inspect(ms, 0), remembering.inspect(ms, 0)
		if got != want || remembering.over != plain.over || !plain.over && remembering.steps != plain.steps {
			t.Fatalf("%q: result %d in %d steps, want %d in %d", buf, got, remembering.steps, want, plain.steps)
		}
		if remembering.work < plain.work {
			used++
		}
		if plain.over {
			over++
		}
	}
	if used < 100 || over < 10 {
		t.Errorf("the memory was used in %d trials, and %d took all steps", used, over)
	}
}

// TestASearchSkipsPositionsWhereNoMatchCanBegin searches a text of many non-ASCII bytes
// in which no match can begin.
func TestASearchSkipsPositionsWhereNoMatchCanBegin(t *testing.T) {
	re, err := rule.Compile(&rule.PCRE{Expr: `\x5Cu0[a-d](\x5Cu0|0)[a-d]`, Flags: "i"})
	if err != nil {
		t.Fatal(err)
	}
	var in inspector
	in.start([]byte(strings.Repeat("\xe4\\u002F ", 1000) + `\u0A\U0b`))
	if loc, ok := in.search(&expression{&rule.PCRE{}, re}, 0, 0); !ok || !slices.Equal(loc[:2], []int{8000, 8008}) {
		t.Errorf("search found %v, %v; want 8000 to 8008", loc, ok)
	}
	in.start([]byte(strings.Repeat("\xe4\\u002F ", 1000)))
	if loc, ok := in.search(&expression{&rule.PCRE{}, re}, 0, 0); !ok || loc != nil || in.text != nil {
		t.Errorf("search found %v, %v, and made the text: %v; want nothing", loc, ok, in.text != nil)
	}
}
