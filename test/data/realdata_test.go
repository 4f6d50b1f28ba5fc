package data

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDataIsFoundWhereTheVariableSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "lists", "ut1"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SHUULTUUR_DATA", dir)
	if got, want := Path(t, "lists", "ut1"), filepath.Join(dir, "lists", "ut1"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	skipped := false
	t.Run("not there", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		Path(t, "pages")
	})
	if !skipped {
		t.Error("Path of a missing file does not skip the test")
	}
}
