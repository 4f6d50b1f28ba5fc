package web

import "testing"

func TestAFormLeadsToNoOtherSite(t *testing.T) {
	for _, to := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "", "/login"} {
		if got := LocalPath(to); got != "/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}
