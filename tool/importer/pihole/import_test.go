package pihole

import (
	"database/sql"
	"os"
	"path/filepath"
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
