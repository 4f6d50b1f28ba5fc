//go:build !small

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/test/peer"
)

// TestImportOfWhatDebianShips imports the shipped configuration of each installed program. The
// import itself checks the settings that it makes.
func TestImportOfWhatDebianShips(t *testing.T) {
	for _, tt := range []struct{ program, path string }{
		{"e2guardian", "/etc/e2guardian"}, {"squid", "/etc/squid/squid.conf"}, {"squidguard", "/etc/squidguard/squidGuard.conf"},
		{"privoxy", "/etc/privoxy"}, {"unbound", "/etc/unbound"}, {"dnsmasq", "/etc/dnsmasq.conf"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			peer.NotQuick(t, tt.program)
			if _, err := os.Stat(tt.path); err != nil {
				t.Skipf("%s is not installed", tt.program)
			}
			if !hasSettings(tt.path) {
				t.Skipf("%s has comments alone, which import refuses", tt.path)
			}
			everyLineIsNamed(t, tt.program, tt.path)
		})
	}
}

// hasSettings reports whether a folder, or a file with more than comments, is at a path: Debian's
// dnsmasq.conf has nothing else until somebody edits it.
func hasSettings(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return true // a folder
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// TestImportNamesEveryLine compares the report with the lines of each configuration that has a
// setting on each line.
func TestImportNamesEveryLine(t *testing.T) {
	for _, program := range imported {
		switch program {
		case "adguardhome", "pihole", "technitium", "nextdns", "blocky", "opnsense": // settings of these programs have several lines, or share one
			continue
		}
		t.Run(program, func(t *testing.T) {
			path, err := filepath.Abs(copyOf(t, program))
			if err != nil {
				t.Fatal(err)
			}
			everyLineIsNamed(t, program, path)
		})
	}
}

// everyLineIsNamed imports a configuration and looks for each of its lines in the report.
func everyLineIsNamed(t *testing.T, program, path string) {
	to := filepath.Join(t.TempDir(), "new")
	var out bytes.Buffer
	if status := importCommand(t.Context(), env{stdout: &out, stderr: &out}, []string{program, path, "-to", to}); status != 0 {
		t.Fatalf("import ends with status %d:\n%s", status, out.String())
	}
	report, err := os.ReadFile(filepath.Join(to, "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(report, []byte("… and ")) {
		t.Errorf("the report leaves lines out")
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(p, "/lists/") && slices.Contains([]string{".conf", ".yaml", ".yml", ".json", ".xml", ".toml", ".action", ""}, filepath.Ext(p)) &&
			bytes.Contains(report, []byte("  "+p+":")) {
			files = append(files, p)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("the report names the files %q: %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, words := 0, false
		for line := range strings.Lines(string(data)) {
			n++
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "{") { // sections use Privoxy's aliases
				words = strings.HasPrefix(line, "{{")
			}
			// The report names a setting of several lines by its last line, and by the values
			// in it.
			if line == "" || words || strings.HasPrefix(line, "#") || strings.HasSuffix(line, `\`) || strings.HasSuffix(line, "{") || strings.HasSuffix(line, ":") || strings.Trim(line, "{}[],<>/") == "" {
				continue
			}
			if !bytes.Contains(report, fmt.Appendf(nil, "  %s:%d: ", file, n)) {
				t.Errorf("the report does not name %s:%d: %s", file, n, line)
			}
		}
	}
}
