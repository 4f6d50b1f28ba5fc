package web

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ was, is, want string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"},
		{"a\n", "a\nb\n", " a|+b"},
		{"", "a\n", "-|+a"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nx\n", "@… 5 lines| 6| 7| 8|-9|+x"},
		{"a\nb\nc\nd\n", "b\nc\nx\nd\n", "-a| b| c|+x| d"},
	} {
		var got []string
		for _, l := range Diff(c.was, c.is) {
			got = append(got, map[string]string{"add": "+", "del": "-", "at": "@", "": " "}[l.Kind]+l.Text)
		}
		if strings.Join(got, "|") != c.want {
			t.Errorf("diff of %q and %q: %q, want %q", c.was, c.is, strings.Join(got, "|"), c.want)
		}
	}
}
