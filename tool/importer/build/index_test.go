package build

import (
	"testing"

	"shuultuur/tool/importer/report"
)

func TestCoverFindsTheWiderEntry(t *testing.T) {
	x := NewIndex("banned")
	for i, s := range []string{"example.com", "other.org/a", "10.0.0.1"} {
		x.Add(s, report.Place{File: "list", Line: i + 1})
	}
	for key, want := range map[string]string{
		"www.example.com": "example.com", "example.com/x": "example.com", "other.org/a/b": "other.org/a",
		"w.other.org/a?x": "other.org/a", "other.org/ab": "", "notexample.com": "", "example.com": "", "110.0.0.1": "",
	} {
		if got, _, _ := x.cover(key, false); got != want {
			t.Errorf("%q is covered by %q, want %q", key, got, want)
		}
	}
}
