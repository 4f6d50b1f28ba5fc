package pihole

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/importertest"
)

// withDatabase makes gravity.db, which the repository has as text.
func withDatabase(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "gravity.sql"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "gravity.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(string(text)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsMadeOfAConfiguration(t *testing.T) {
	importertest.Golden(t, "pihole", func(w *build.Work, path string) error {
		withDatabase(t, path)
		return Import(w, path)
	}, Rules)
}

// TestOptionsOfDnsmasqThatAreNoListsHold: whether Pi-hole has a setting for them, or they are lines
// that it hands on.
func TestOptionsOfDnsmasqThatAreNoListsHold(t *testing.T) {
	const upstream = "[dns]\nupstreams = [\"9.9.9.9\"]\n"
	for name, tt := range map[string]struct{ toml, has, lacks string }{
		"domain needed":           {upstream + "domainNeeded = true\n", "category/without-dot", ""},
		"not needed":              {upstream + "domainNeeded = false\n", "upstreams: [9.9.9.9]", "without-dot"},
		"a line that asks for it": {upstream + "[misc]\ndnsmasq_lines = [\"domain-needed\"]\n", "category/without-dot", ""},
		"all names but some":      {upstream + "[misc]\ndnsmasq_lines = [\"address=/#/0.0.0.0\", \"server=/good.example/10.0.0.1\"]\n", "unless: [category/resolved]", ""},
		"answers that are none":   {upstream + "[misc]\ndnsmasq_lines = [\"bogus-nxdomain=192.0.2.7\"]\n", "category/refused-addresses", ""},
	} {
		dir := importertest.Folder(t, map[string]string{"pihole.toml": tt.toml})
		got := importertest.Settings(t, "pihole", Import, dir)
		if !strings.Contains(got, tt.has) || tt.lacks != "" && strings.Contains(got, tt.lacks) {
			t.Errorf("%s: want %q and not %q in\n%s", name, tt.has, tt.lacks, got)
		}
	}
}
