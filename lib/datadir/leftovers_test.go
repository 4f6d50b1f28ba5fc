package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestFilesThatNobodyWritesAnyMoreGo: those of a program that was killed, and nothing else.
func TestFilesThatNobodyWritesAnyMoreGo(t *testing.T) {
	now := time.Now()
	f := &Folder{Dir: t.TempDir()}
	lay := func(dir, name string, at time.Time) string {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("anna"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
		return file
	}
	old := now.Add(-time.Hour)
	var gone []string
	for _, name := range []string{"accounts/accounts.json.123.tmp", "votes/a.0.tmp", "sources/own/new-77.tmp", "lists/text-1.tmp", "deep/er/still/x.list.9.tmp"} {
		gone = append(gone, lay(f.Dir, name, old))
	}
	kept := []string{lay(f.Dir, "accounts/sessions.json.123.tmp", now)}
	for _, name := range []string{"accounts/accounts.json", "x.tmp", "own.tmp.list", "new-.tmp", "a.12.tmp.damaged", "events.db"} {
		kept = append(kept, lay(f.Dir, name, old))
	}
	if found := f.Leftovers(now.Add(-time.Minute), true); len(found) != len(gone) {
		t.Errorf("found %q, want %q", found, gone)
	}
	removed := f.Leftovers(now.Add(-time.Minute), false)
	slices.Sort(removed)
	slices.Sort(gone)
	if !slices.Equal(removed, gone) {
		t.Errorf("removed %q, want %q", removed, gone)
	}
	for _, file := range kept {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s has gone: %v", file, err)
		}
	}
	dir := t.TempDir()
	settings := lay(dir, "shuultuur.yaml", old)
	mine := lay(dir, "shuultuur.yaml.55.tmp", old)
	others := []string{settings, lay(dir, "other.yaml.55.tmp", old), lay(dir, "shuultuur.yaml.tmp", old), lay(dir, "shuultuur.yaml.56.tmp", now)}
	if removed := LeftoversOf(settings, now.Add(-time.Minute)); !slices.Equal(removed, []string{mine}) {
		t.Errorf("removed %q, want %q", removed, mine)
	}
	for _, file := range others {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s has gone: %v", file, err)
		}
	}
}
