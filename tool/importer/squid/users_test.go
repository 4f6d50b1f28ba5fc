package squid

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/importertest"
)

// TestPeopleKeepThePasswordsThatCanBeVerified: one old hash in a password file locks that person out
// and nobody else.
func TestPeopleKeepThePasswordsThatCanBeVerified(t *testing.T) {
	const (
		anna = "anna:$2y$05$abcdefghijklmnopqrstuuMhU2RrTn9pYJhVVhVDrVnZ2FEvPPTVC\n"
		carl = "carl:$apr1$x1./yZ12$0123456789012345678901\n"
		dora = "dora:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n"
	)
	for name, c := range map[string]struct {
		file    string
		kept    string // lines of our file that have a password; none: the other program's file is used
		locked  string // people in our file whom no password fits
		says    string
		closing int
	}{
		"hashes that are verified":    {anna + carl + dora, "", "", "identity.basic.file", 0},
		"one of the old crypt(3)":     {anna + "ben:rl.3StKT.4T8M\n" + carl, anna + carl, "ben", "people in it (1) cannot sign in", 1},
		"a password in plain text":    {anna + "eve:secret\n", anna, "eve", "people in it (1) cannot sign in", 1},
		"the last of two lines":       {"anna:rl.3StKT.4T8M\n" + anna + carl + "carl:rl.3StKT.4T8M\n", anna, "carl", ": carl", 1},
		"comments and broken lines":   {"# people\n\nno colon\n:" + anna[5:] + anna + "ben:\n", anna, "ben", "people in it (2) cannot sign in", 1},
		"nobody can be verified":      {"ben:rl.3StKT.4T8M\n", "", "nobody-yet", `make the file anew with "shuultuur passwd"`, 0},
		"there is nobody in the file": {"# nobody\n", "", "nobody-yet", `make the file anew with "shuultuur passwd"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := importertest.Folder(t, map[string]string{"passwd": c.file, "squid.conf": "http_port 3128\nauth_param basic program /usr/lib/squid/basic_ncsa_auth passwd\nacl auth proxy_auth REQUIRED\nhttp_access allow auth\nhttp_access deny all\n"})
			to := t.TempDir()
			w := build.New(t.Context(), "squid", dir, to)
			if err := Import(w, dir); err != nil {
				t.Fatal(err)
			}
			if err := w.Write(); err != nil {
				t.Fatal(err)
			}
			var report strings.Builder
			if err := w.Report.Text(&report); err != nil || !strings.Contains(report.String(), c.says) {
				t.Errorf("the report lacks %q (%v):\n%s", c.says, err, report.String())
			}
			if w.Report.Opened.Count != 0 || w.Report.Closed.Count < c.closing {
				t.Errorf("the import opens %d and closes %d, want 0 and at least %d", w.Report.Opened.Count, w.Report.Closed.Count, c.closing)
			}
			ours, err := os.ReadFile(filepath.Join(to, "passwd"))
			if used := string(w.Set.Identity.Basic.File); c.kept+c.locked == "" {
				if err == nil || used != filepath.Join(dir, "passwd") {
					t.Errorf("the settings have the password file %s, want that of Squid", used)
				}
				return
			} else if used != "passwd" {
				t.Errorf("the settings have the password file %s, want a copy", used)
			}
			if err != nil {
				t.Fatal(err)
			}
			locked := regexp.MustCompile(`(?m)^(\S+):\$argon2id\$.*\n`)
			if m := locked.FindAllStringSubmatch(string(ours), -1); len(m) != 1 || m[0][1] != c.locked {
				t.Errorf("the people whom no password fits are %q, want %q", m, c.locked)
			}
			kept := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(locked.ReplaceAllString(string(ours), ""), "")
			if kept != c.kept {
				t.Errorf("these keep their passwords:\n%swant\n%s", kept, c.kept)
			}
		})
	}
}

// TestSignInIsAskedAsSquidDoes: domains about which a line decides before another asks who clients are
// need no sign-in; where that is not so for everybody, or for all requests, all are asked.
func TestSignInIsAskedAsSquidDoes(t *testing.T) {
	const before, after = "http_port 3128\nauth_param basic program /usr/lib/squid/basic_ncsa_auth passwd\nacl auth proxy_auth REQUIRED\nacl lan src 10.0.0.0/8\nacl guests src 10.9.0.0/16\nacl good dstdomain .Good.example other.example .com\nacl bad dstdomain .bad.example\nacl night time 20:00-23:59\n", "http_access deny all\n"
	for name, c := range map[string]struct {
		lines string
		want  []string
	}{
		"allowed before":                   {"http_access allow good\nhttp_access allow auth\n", []string{"=other.example", "good.example"}},
		"allowed and refused before":       {"http_access deny bad\nhttp_access allow all good\nhttp_access allow auth\n", []string{"=other.example", "bad.example", "good.example"}},
		"allowed after":                    {"http_access deny !auth\nhttp_access allow good\n", nil},
		"at night alone":                   {"http_access allow good night\nhttp_access allow auth\n", nil},
		"refused at night, allowed by day": {"http_access deny good night\nhttp_access allow good\nhttp_access allow auth\n", []string{"=other.example", "good.example"}},
		"for some of those who are asked":  {"http_access allow guests good\nhttp_access allow auth\n", nil},
		"for all of those who are asked":   {"http_access deny !lan\nhttp_access allow lan good\nhttp_access allow lan auth\n", []string{"=other.example", "good.example"}},
		"others are not asked":             {"http_access allow guests\nhttp_access allow good\nhttp_access allow auth\n", []string{"=other.example", "good.example"}},
		"but what is listed":               {"http_access allow !good\nhttp_access allow auth\n", nil},
		"replies depend on people":         {"http_access allow good\nhttp_access allow auth\nhttp_reply_access deny auth\n", nil},
		"nobody is asked":                  {"http_access allow good\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := importertest.Folder(t, map[string]string{"passwd": "", "squid.conf": before + c.lines + after})
			w := build.New(t.Context(), "squid", dir, t.TempDir())
			if err := Import(w, dir); err != nil {
				t.Fatal(err)
			}
			if got := w.Set.Identity.Open; !slices.Equal(got, c.want) {
				t.Errorf("no sign-in is needed for %q, want %q", got, c.want)
			}
		})
	}
}
