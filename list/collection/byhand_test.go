package collection

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/list"
)

// What was changed by hand comes back from its last copy, whatever happened to its file.
func TestDamagedChangesByHandComeBack(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, file string, data []byte){
		"halved":  func(t *testing.T, file string, data []byte) { replace(t, file, data[:len(data)/2]) },
		"emptied": func(t *testing.T, file string, _ []byte) { replace(t, file, nil) },
		"flipped": func(t *testing.T, file string, data []byte) { replace(t, file, flipped(data)) },
	} {
		for _, suffix := range byHand {
			t.Run(name+suffix, func(t *testing.T) {
				dir := t.TempDir()
				file := filepath.Join(dir, "own.txt")
				write(t, file, []byte("a1.example\n"))
				cfg := Config{"own": {Config: list.Config{Path: setting.Source(file), Format: list.Domains}}}
				open := func() *Collection {
					t.Helper()
					c, err := Open(t.Context(), cfg, dir, nil, slog.New(slog.DiscardHandler))
					if err != nil {
						t.Fatal(err)
					}
					return c
				}
				c := open()
				if err := c.Change(t.Context(), map[string][]list.Change{"own": {{Entry: "tea.example"}}}, func() error { open(); return nil }); err != nil {
					t.Fatal(err)
				}
				if suffix == ".edits" { // the next compilation moves them there
					write(t, file, []byte("a1.example\na2.example\n"))
					open()
				}
				data, err := os.ReadFile(c.file("own") + suffix)
				if err != nil {
					t.Fatal(err)
				}
				do(t, c.file("own")+suffix, data)
				write(t, file, []byte("a1.example\na2.example\na3.example\n")) // so that it is compiled anew
				looked, err := Try(t.Context(), cfg, dir, nil, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatalf("a start goes on, and a check does not: %v", err)
				}
				for what, c := range map[string]*Collection{"check": looked, "start": open()} {
					if hits, err := c.Search("tea.example"); err != nil || len(hits) == 0 {
						t.Errorf("%s: the entry that was added by hand is gone: %v", what, err)
					}
				}
				if all, _ := filepath.Glob(c.file("own") + suffix + ".damaged-*"); len(all) != 1 && name != "flipped" { // a bit that means nothing does no harm
					t.Errorf("%d files were set aside, want one", len(all))
				}
			})
		}
	}
}
