package test

import (
	"os/exec"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

// ascending are versions as tags and git-describe give them, oldest first, and what
// each format of packages makes of them.
var ascending = []struct{ version, deb, apk, pkg string }{
	{"0.0.0-1168-g99038d7e360d", "0.0.0+1168.g99038d7e360d", "0.0.0_git1168", "0.0.0.1168"},
	{"1.2.3-alpha.1", "1.2.3~alpha.1", "1.2.3_alpha1", "1.2.3.a1"},
	{"1.2.3-alpha.2", "1.2.3~alpha.2", "1.2.3_alpha2", "1.2.3.a2"},
	{"1.2.3-beta1", "1.2.3~beta1", "1.2.3_beta1", "1.2.3.b1"},
	{"1.2.3-rc.9", "1.2.3~rc.9", "1.2.3_rc9", "1.2.3.r9"},
	{"1.2.3-rc.9-4-gabcdef0", "1.2.3~rc.9+4.gabcdef0", "1.2.3_rc9_git4", "1.2.3.r9.4"},
	{"1.2.3-rc.9-12-g0123456", "1.2.3~rc.9+12.g0123456", "1.2.3_rc9_git12", "1.2.3.r9.12"},
	{"1.2.3-rc.10", "1.2.3~rc.10", "1.2.3_rc10", "1.2.3.r10"},
	{"1.2.3", "1.2.3", "1.2.3", "1.2.3"},
	{"1.2.3-1-gfedcba9", "1.2.3+1.gfedcba9", "1.2.3_git1", "1.2.3.1"},
	{"1.2.3-30-g1234567", "1.2.3+30.g1234567", "1.2.3_git30", "1.2.3.30"},
	{"1.2.4-rc.1", "1.2.4~rc.1", "1.2.4_rc1", "1.2.4.r1"},
	{"1.2.10", "1.2.10", "1.2.10", "1.2.10"},
	{"2.0.0", "2.0.0", "2.0.0", "2.0.0"},
}

func packageVersion(t *testing.T, format, version string) string {
	t.Helper()
	out, err := exec.Command("sh", "../dist/version.sh", format, version).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", format, version, err)
	}
	return strings.TrimSpace(string(out))
}

func TestVersionsOfPackages(t *testing.T) {
	t.Parallel()
	for _, v := range ascending {
		for format, want := range map[string]string{"deb": v.deb, "rpm": v.deb, "ipk": v.deb, "apk": v.apk, "pkg": v.pkg} {
			if got := packageVersion(t, format, v.version); got != want {
				t.Errorf("%s of %s is %s, want %s", format, v.version, got, want)
			}
		}
	}
	for _, wrong := range [][]string{
		{"apk", "1.2"}, {"apk", "v1.2.3"}, {"deb", "devel"}, {"deb", "1.2.3-rc"}, {"rpm", "1.2.3-nightly.1"}, {"pkg", "1.2.3-rc.1.2"},
		{"pkg", "1.2.3-4"}, {"deb", "1.2.3+build"}, {"deb", ""}, {"msi", "1.2.3"},
	} {
		if out, err := exec.Command("sh", "../dist/version.sh", wrong[0], wrong[1]).CombinedOutput(); err == nil || !strings.HasPrefix(string(out), "version.sh: ") {
			t.Errorf("%q is not refused with a reason: %v, %s", wrong, err, out)
		}
	}
	// What the tree itself is called, with a tag or without.
	out, err := exec.Command("sh", "../dist/version.sh").Output()
	if err != nil {
		t.Skipf("this is no clone with its history: %v", err)
	}
	packageVersion(t, "apk", strings.TrimSpace(string(out)))
}

// TestPackagesOrderVersions asks the programs of the formats.
func TestPackagesOrderVersions(t *testing.T) {
	t.Parallel()
	older := map[string]func(a, b string) *exec.Cmd{
		"dpkg": func(a, b string) *exec.Cmd { return exec.Command("dpkg", "--compare-versions", a+"-1", "lt", b+"-1") },
		"rpm": func(a, b string) *exec.Cmd {
			return exec.Command("sh", "-c", `[ "$(rpm --eval "%{lua:print(rpm.vercmp('$1', '$2'))}")" = -1 ]`, "sh", a, b)
		},
	}
	for program, compare := range older {
		t.Run(program, func(t *testing.T) {
			peer.Program(t, program)
			for i, b := range ascending[1:] {
				if a := ascending[i]; compare(a.deb, b.deb).Run() != nil {
					t.Errorf("%s is not older than %s", a.deb, b.deb)
				}
			}
		})
	}
}
