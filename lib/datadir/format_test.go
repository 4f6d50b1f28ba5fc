package datadir

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/release"
)

// files returns the names and texts of the files in a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(b)
	}
	return texts
}

// withSteps runs the test as a program of another version, with other steps.
func withSteps(t *testing.T, version string, now ...step) {
	t.Helper()
	oldSteps, oldVersion := steps, release.Linked
	t.Cleanup(func() { steps, release.Linked = oldSteps, oldVersion })
	steps, release.Linked = now, version
}

// TestFormats opens data folders: known formats are taken and recorded. In a folder of an
// unknown format nothing is changed.
func TestFormats(t *testing.T) {
	append1 := func(text string) step {
		return func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, "book"))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "book"), append(b, text...), 0o644)
		}
	}
	for _, c := range []struct {
		name, file string // format file of the folder; empty for none
		steps      []step
		refused    []string // words that the error must have
		note, book string   // contents after it was taken
	}{
		{name: "without a file", note: `{"format":1,"program":"1.0.0"}`, book: "1"},
		{name: "of an older program", file: `{"format":1,"program":"0.9.0"}`, note: `{"format":1,"program":"1.0.0"}`, book: "1"},
		{name: "of a newer program in this format", file: `{"format":1,"program":"1.1.0"}`, note: `{"format":1,"program":"1.0.0"}`, book: "1"},
		{name: "with more in the file", file: `{"format":1,"more":[1]}`, note: `{"format":1,"program":"1.0.0"}`, book: "1"},
		{name: "older by two", steps: []step{append1("2"), append1("3")}, note: `{"format":3,"program":"1.0.0"}`, book: "123"},
		{name: "older by one", file: `{"format":2,"program":"0.9.0"}`, steps: []step{append1("2"), append1("3")}, note: `{"format":3,"program":"1.0.0"}`, book: "13"},
		{name: "newer", file: `{"format":2,"program":"2.0.0"}`, refused: []string{"data format 2", "shuultuur 2.0.0", "this is shuultuur 1.0.0", "up to 1", "install", "restore a backup"}},
		{name: "newer, of nobody", file: `{"format":9}`, refused: []string{"data format 9", "install a newer program again"}},
		{name: "no format", file: `{"format":0}`, refused: []string{"no format 0", FormatFile}},
		{name: "no object", file: `format 1`, refused: []string{"does not say which format", FormatFile, "delete this file"}},
		{name: "too long", file: `{"format":1,"program":"` + strings.Repeat("x", maxFormatFile) + `"}`, refused: []string{"does not say which format"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSteps(t, "1.0.0", c.steps...)
			dir := t.TempDir()
			write := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("book", "1")
			if c.file != "" {
				write(FormatFile, c.file)
			}
			before := files(t, dir)
			for _, take := range []bool{false, true} {
				open := Look
				if take {
					open = Open
				}
				f, err := open(dir)
				if c.refused != nil {
					if err == nil {
						t.Fatalf("Open with take %v accepts the unknown format", take)
					}
					for _, w := range c.refused {
						if !strings.Contains(err.Error(), w) {
							t.Errorf("the error lacks %q: %v", w, err)
						}
					}
					if now := files(t, dir); !maps.Equal(now, before) {
						t.Errorf("a refused folder was changed: %v", now)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				now := files(t, dir)
				if !take && (now["book"] != "1" || now[FormatFile] != c.file) {
					t.Errorf("a process that only looks changed the folder: %v", now)
				}
				if take && (strings.TrimSpace(now[FormatFile]) != c.note || now["book"] != c.book) {
					t.Errorf("after Open the folder has %q and %q, want %q and %q", now[FormatFile], now["book"], c.note, c.book)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestAMigrationGoesOn: a migration continues where it was interrupted, and the folder is not
// taken until it is complete.
func TestAMigrationGoesOn(t *testing.T) {
	var ran []int
	full := errors.New("the disk is full")
	second := func(string) error { ran = append(ran, 2); return full }
	withSteps(t, "1.0.0", func(string) error { ran = append(ran, 1); return nil }, func(dir string) error { return second(dir) })
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, full) || !strings.Contains(err.Error(), "data format 3 of format 2") {
		t.Fatalf("Open whose migration fails: %v", err)
	}
	if _, err := HolderOf(dir); !errors.Is(err, ErrFree) {
		t.Errorf("after a failed migration the folder is still locked: %v", err)
	}
	if f, err := FormatOf(dir); err != nil || f.Number != 2 {
		t.Errorf("after the first step the format is %+v, %v; want 2", f, err)
	}
	second = func(string) error { ran = append(ran, 2); return nil }
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := len(ran); got != 3 || ran[0] != 1 || ran[1] != 2 || ran[2] != 2 {
		t.Errorf("the steps %v ran, want 1, 2, 2", ran)
	}
}
