package pattern

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"shuultuur/lib/ascii"
)

// The words of a pattern do not change its matches.
func TestPatternWordsChangeNothing(t *testing.T) {
	atoms := []string{"abc", "abcd", "sex", "kino", "a", ".", "x*", "(abc|bcd)", "(abc|d)", "[ab]+", "(?:cab)+", "abc{2}", "(sex){0,2}", "^", "$", "é", `\.`, "A.c"}
	texts := []string{"abc", "abcd", "bcd", "cab", "s", "ſex", "K", "ino", "a", "b", "x", ".", "é", "É", "abcc"}
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 1, 4).Draw(t, "expr"), rapid.SampledFrom([]string{"", "|"}).Draw(t, "join"))
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(texts), 0, 5).Draw(t, "text"), ""))
		text = ascii.AppendLower(nil, text)
		p, err := Compile(expr)
		if err != nil {
			t.Skip(err)
		}
		want := regexp.MustCompile("(?i:" + expr + ")").Match(text)
		if got := p.Match(text); got != want {
			t.Fatalf("pattern %q on %q: match %v with words %q, want %v", expr, text, got, p.words, want)
		}
	})
}

func TestPatternsKnowTheirWords(t *testing.T) {
	tests := []struct{ expr, want string }{
		{`^example\.com/banner`, "example.com/banner"},
		{`(ads|banner)/[0-9]+`, ""}, // the s has a third form, which leaves "ad"
		{`(adverts?|banner)/`, "advert banner"},
		{`[0-9]+`, ""},
		{`a|bcd`, ""},
	}
	for _, test := range tests {
		p, err := Compile(test.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(p.words, []byte(" "))); got != test.want {
			t.Errorf("pattern %q: got words %q, want %q", test.expr, got, test.want)
		}
	}
}
