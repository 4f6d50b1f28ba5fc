package search

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"shuultuur/policy/pattern"
)

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
		if got := string(AppendTerm(nil, []byte(test.in))); got != test.want {
			t.Errorf("appendTerm(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func FuzzSearchTerm(f *testing.F) {
	f.Add("/search?q=hello+world&q=x")
	f.Add("/?a&&=&q=%&q=%ff%C4%B0")
	f.Add("q")
	f.Fuzz(func(t *testing.T, path string) {
		got := AppendTerms(nil, []byte(path), []string{"q", "text"})
		if !utf8.Valid(got) {
			t.Errorf("search in %q became %q, which is not UTF-8", path, got)
		}
		if len(got) > 0 && (got[0] != ' ' || got[len(got)-1] != ' ') {
			t.Errorf("search in %q became %q, which lacks a blank at an end", path, got)
		}
		if len(got) > 4*len(path)+2 {
			t.Errorf("search in %q grew to %d bytes", path, len(got))
		}
		if again := AppendTerms([]byte("kept"), []byte(path), []string{"q", "text"}); string(again) != "kept"+string(got) {
			t.Errorf("AppendTerms gives %q after other text, alone %q", again, got)
		}
		u, q := pattern.AppendURL([]byte("kept"), "host", []byte(path))
		if !bytes.HasPrefix(u, []byte("kepthost")) || q > len(u) || len(u) > len(path)+len("kepthost/") {
			t.Errorf("appendURL(%q) = %q, query at %d", path, u, q)
		}
	})
}
