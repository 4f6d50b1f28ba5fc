package traffic

import "testing"

// FuzzNormalURI searches for targets that break the normalisation.
func FuzzNormalURI(f *testing.F) {
	for _, s := range []string{"/a/../b", "http://h/x?y#z", "/%u0041%zz%", "\\..\\", "/a/./b//c/..", "?"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, target []byte) {
		if out := NormalURI(target); len(out) > len(target) {
			t.Errorf("NormalURI(%q) is longer: %q", target, out)
		}
	})
}

func TestURIsAreNormalised(t *testing.T) {
	for in, want := range map[string]string{
		"/a/./b/../c":             "/a/c",
		"http://u@h:1/p%41?q=%42": "/pA?q=B",
		`\a\\b`:                   "/a/b",
		"/%u0041%2541%zz":         "/A%41%zz",
		"/a+b":                    "/a+b",
	} {
		if got := string(NormalURI([]byte(in))); got != want {
			t.Errorf("NormalURI(%s) = %s, want %s", in, got, want)
		}
	}
}
