package policy

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestURLForms(t *testing.T) {
	tests := []struct{ in, want string }{
		{"/", "/"},
		{"", ""},
		{"/a/b", "/a/b"},
		{"/A%2FB", "/a/b"},
		{"//a///b//", "/a/b/"},
		{"/a/./b/.", "/a/b/"},
		{"/a/../b", "/b"},
		{"/a/b/..", "/a/"},
		{"/../../a", "/a"},
		{"/..", "/"},
		{"/%2e%2E/a", "/a"},
		{"/a..b/...", "/a..b/..."},
		{"/a?b/../c//d", "/a?b/../c//d"},
		{"/a%", "/a%"},
		{"/a%4", "/a%4"},
		{"/a%zz", "/a%zz"},
		{"/%2561", "/%61"}, // once, as servers do
		{"/?%3F", "/??"},
		{"*", "*"},
	}
	for _, test := range tests {
		got, q := appendURL(nil, "h", []byte(test.in))
		if string(got) != "h"+test.want {
			t.Errorf("appendURL(%q) = %q, want %q", test.in, got, "h"+test.want)
		}
		if q < len(got) && got[q] != '?' {
			t.Errorf("appendURL(%q): the query begins at %d of %q", test.in, q, got)
		}
	}
}

func TestSearchTerms(t *testing.T) {
	tests := []struct{ in, want string }{
		{"hello+world", " hello world "},
		{"HELLO%20W%C3%96RLD", " hello wörld "},
		{"--", " "},
		{"", " "},
		{"a%2Bb%26c", " a b c "},
		{"%C8%BA%C8%BA", " ⱥⱥ "}, // a letter whose lower case is longer
		{"%ff%fe", " "},
		{"%E0%B8%97%E0%B8%B5%E0%B9%88", " ที่ "}, // marks belong to the word
		{"1+2", " 1 2 "},
		{"Stra%C3%9Fe+STRASSE", " strasse strasse "},
		{"o%E2%80%98yin+o'yin", " o yin o yin "},
		{"%D0%BA%D0%B0%D0%B7%D0%B8%CC%81%D0%BD%D0%BE", " казино "}, // with its stress
	}
	for _, test := range tests {
		if got := string(appendTerm(nil, []byte(test.in))); got != test.want {
			t.Errorf("appendTerm(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func FuzzSearchTerm(f *testing.F) {
	f.Add("/search?q=hello+world&q=x")
	f.Add("/?a&&=&q=%&q=%ff%C4%B0")
	f.Add("q")
	f.Fuzz(func(t *testing.T, path string) {
		got := appendSearch(nil, []byte(path), []string{"q", "text"})
		if !utf8.Valid(got) {
			t.Errorf("search in %q became %q, which is not UTF-8", path, got)
		}
		if len(got) > 0 && (got[0] != ' ' || got[len(got)-1] != ' ') {
			t.Errorf("search in %q became %q, which lacks a blank at an end", path, got)
		}
		if len(got) > 4*len(path)+2 {
			t.Errorf("search in %q grew to %d bytes", path, len(got))
		}
		if again := appendSearch([]byte("kept"), []byte(path), []string{"q", "text"}); string(again) != "kept"+string(got) {
			t.Errorf("appendSearch gives %q after other text, alone %q", again, got)
		}
		u, q := appendURL([]byte("kept"), "host", []byte(path))
		if !bytes.HasPrefix(u, []byte("kepthost")) || q > len(u) || len(u) > len(path)+len("kepthost/") {
			t.Errorf("appendURL(%q) = %q, query at %d", path, u, q)
		}
	})
}

// The words of a pattern do not change its matches.
func TestPatternWordsChangeNothing(t *testing.T) {
	atoms := []string{"abc", "abcd", "sex", "kino", "a", ".", "x*", "(abc|bcd)", "(abc|d)", "[ab]+", "(?:cab)+", "abc{2}", "(sex){0,2}", "^", "$", "é", `\.`, "A.c"}
	texts := []string{"abc", "abcd", "bcd", "cab", "s", "ſex", "K", "ino", "a", "b", "x", ".", "é", "É", "abcc"}
	rapid.Check(t, func(t *rapid.T) {
		expr := strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 1, 4).Draw(t, "expr"), rapid.SampledFrom([]string{"", "|"}).Draw(t, "join"))
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(texts), 0, 5).Draw(t, "text"), ""))
		text = appendLower(nil, text)
		p, err := compilePattern(expr)
		if err != nil {
			t.Skip(err)
		}
		want := regexp.MustCompile("(?i:" + expr + ")").Match(text)
		if got := p.match(text); got != want {
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
		p, err := compilePattern(test.expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(p.words, []byte(" "))); got != test.want {
			t.Errorf("pattern %q: got words %q, want %q", test.expr, got, test.want)
		}
	}
}
