package accounts

import "testing"

func TestSigningInLeadsToNoOtherSite(t *testing.T) {
	for _, to := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "", "/login"} {
		if got := localPath(to); got != "/" {
			t.Errorf("after signing in, %q leads to %q", to, got)
		}
	}
}
