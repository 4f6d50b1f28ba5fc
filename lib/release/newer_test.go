package release

import "testing"

func TestNewerVersionsAreReported(t *testing.T) {
	order := []string{"0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "v2.0.0"}
	for i, a := range order {
		for j, b := range order {
			if got := Newer(a, b); got != (i > j) {
				t.Errorf("Newer(%q, %q) = %v, want the opposite", a, b, got)
			}
		}
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"1.4.0", "devel", false},
		{"devel", "1.4.0", false},
		{"", "1.4.0", false},
		{"1.4", "1.3.0", false},
		{"1.4.0", "1.4.0-3-gabcdef012345", false}, // three commits behind the tag
		{"1.4.1", "1.4.0-3-gabcdef012345", true},
		{"1.4.0+b2", "1.4.0+b1", false}, // build metadata does not count
		{"1.4.0", "v1.4.0", false},
		{"0.1.0", "0.0.0-4711.gabcdef012345", true},
		{"99999999999.0.0", "1.0.0", false}, // not a version of this program
	} {
		if got := Newer(tt.a, tt.b); got != tt.want {
			t.Errorf("Newer(%q, %q) = %v, want the opposite", tt.a, tt.b, got)
		}
	}
}
