package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"shuultuur/vote/store"
)

// A damaged database of votes is set aside, and a new one begun.
func TestADamagedDatabaseIsSetAside(t *testing.T) {
	for name, do := range map[string]func(data []byte) []byte{
		"the head is halved": func(data []byte) []byte { return data[:50] },
		"the first page":     func(data []byte) []byte { return data[:2000] },
		"emptied":            func([]byte) []byte { return nil },
		"zeros":              func(data []byte) []byte { return make([]byte, len(data)) },
		"a text":             func([]byte) []byte { return []byte("these are no votes at all, and nobody can read them\n") },
	} {
		t.Run(name, func(t *testing.T) {
			for file, starts := range map[string]bool{"votes.db": true, "votes": false} {
				if name == "emptied" && !starts {
					continue // an empty file of another name may be a new database
				}
				path := filepath.Join(t.TempDir(), file)
				d, err := store.Open(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, do(data), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				d, err = store.Open(t.Context(), path)
				if (err == nil) != starts {
					t.Errorf("%s: %v", file, err)
				}
				if err == nil {
					if _, err := d.Queue(t.Context(), 10); err != nil {
						t.Error(err)
					}
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				}
				if set, _ := filepath.Glob(path + ".damaged-*"); (len(set) == 1) != starts {
					t.Errorf("%s: set aside: %q", file, set)
				}
			}
		})
	}
}
