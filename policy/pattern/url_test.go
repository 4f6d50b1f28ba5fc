package pattern

import "testing"

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
		got, q := AppendURL(nil, "h", []byte(test.in))
		if string(got) != "h"+test.want {
			t.Errorf("appendURL(%q) = %q, want %q", test.in, got, "h"+test.want)
		}
		if q < len(got) && got[q] != '?' {
			t.Errorf("appendURL(%q): the query begins at %d of %q", test.in, q, got)
		}
	}
}
