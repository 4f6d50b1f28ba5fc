package list

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// TestNoEntryIsLostInSilence: files that were joined, that come from other systems or were cut, and lines
// that are too long. Each entry is found, or the list says which lines it refuses.
func TestNoEntryIsLostInSilence(t *testing.T) {
	formats := map[FormatName]string{
		Adblock: "||%s.a.example^", Expressions: "(^|[.])%s[.]a[.]example", Pihole: "(\\.|^)%s\\.a\\.example$", E2guardianRegexp: "%s\\.a\\.example",
		Hosts: "0.0.0.0 %s.a.example", Domains: "%s.a.example", "wildcard": "*.%s.a.example", "dnsmasq": "address=/%s.a.example/", RPZ: "%s.a.example CNAME .",
		"unbound": "local-zone: \"%s.a.example\" always_nxdomain", "csv": "%s.a.example", E2guardian: "%s.a.example", "json": "\"%s.a.example\"", Auto: "%s.a.example",
	}
	long := strings.Repeat("x", 1<<20)
	for what, x := range map[string]struct {
		text string // of lines 1, 2 and 3
		all  bool   // all of them have to be found, in lines
	}{
		"as it should be":               {"1\n2\n3\n", true},
		"a mark at the beginning":       {"\ufeff1\n2\n3\n", true},
		"files that were joined":        {"1\n\ufeff2\n3\n", true},
		"joined within a line":          {"1\n2\ufeff3\n", false},
		"a last line without its end":   {"1\n2\n3", true},
		"a line of a megabyte":          {"1\n2\n" + long + "\n3\n", true},
		"an entry of a megabyte":        {"1\n||" + strings.Repeat("x.", 1<<19) + "example^\n2\n3\n", true},
		"a last line of a megabyte":     {"1\n2\n3\n" + long, true},
		"the ends of Windows":           {"1\r\n2\r\n3\r\n", true},
		"the ends of an old Macintosh":  {"1\r2\r3\r", false},
		"the ends of a mainframe":       {"1\u00852\u00853\n", false},
		"separators of lines":           {"1\u20282\u20293\n", false},
		"nothing wide at the ends":      {"1\u200b\n\u20602\u200b \n3\u200e\n", true},
		"blanks that do not break":      {"1\u00a0\n\u00a02\n3\n", true},
		"a zero byte":                   {"1\n2\x00\n3\n", false},
		"a zero byte within":            {"1\n2\x003\n", false},
		"a page break between":          {"1\v\n\f2\n3\n", true},
		"empty lines, and blanks alone": {"\n\n1\n \t\n2\n\r\n3\n\n", true},
	} {
		for format, entry := range formats {
			text := x.text
			for i, n := range []string{"one", "two", "three"} {
				text = strings.ReplaceAll(text, fmt.Sprint(i+1), fmt.Sprintf(entry, n))
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "list")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Compile(t.Context(), "x", Config{Format: format, Path: setting.Source(file), Fetched: true}, filepath.Join(dir, "out"))
			if err != nil && (format == "json" || !x.all) {
				continue // the list is refused as a whole
			}
			if err != nil {
				t.Errorf("%s, %s: %v", format, what, err)
				continue
			}
			f, err := Open(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"one", "two", "three"} {
				found, err := f.Ask(n + ".a.example")
				if err != nil {
					t.Fatal(err)
				}
				if len(found) == 0 && (x.all || r.Bad == 0) {
					t.Errorf("%s, %s: the entry of %s is lost, and %d lines are refused: %v", format, what, n, r.Bad, r.Problems)
				}
			}
			f.Close()
		}
	}
}
