package collection

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list"
)

// A list of our own that is damaged, or changed by whatever accident, does not open the filter: the
// version that was read before serves, at a reload and at a start, until the file is good again.
func TestAnOwnListThatIsDamagedKeepsItsLastGoodVersion(t *testing.T) {
	good := []byte(hosts("a", 40))
	rules := []byte("||a1.example^$script\n||a1.example^\n@@||a2.example^$image\n||a3.example/x^\n")
	for name, c := range map[string]struct {
		format list.FormatName
		was    []byte
		is     []byte // nil: the file is deleted
		keeps  bool
	}{
		"emptied":                  {was: good, is: []byte{}, keeps: true},
		"zeros":                    {was: good, is: make([]byte, len(good)), keeps: true},
		"the second half is zeros": {was: good, is: append(bytes.Clone(good[:len(good)/2-20]), make([]byte, len(good)/2)...), keeps: true},
		"a page of an error":       {was: good, is: []byte("<!DOCTYPE html>\n<html><body>502 Bad Gateway</body></html>\n"), keeps: true},
		"only comments":            {was: good, is: []byte("# a1.example\n#\n"), keeps: true},
		"only blank lines":         {was: good, is: []byte("\n\n\n"), keeps: true},
		"most lines refused":       {was: good, is: append([]byte("a1.example\n"), bytes.Repeat([]byte("!!! ???\n"), 39)...), keeps: true},
		"rules that are gone":      {format: list.Adblock, was: rules, is: []byte("! nothing\n"), keeps: true},
		"deleted":                  {was: good, keeps: true},
		"cut at the end of a line": {was: good, is: []byte(hosts("a", 4)), keeps: true},
		"half of it was taken out": {was: good, is: []byte("a1.example\n" + hosts("a", 40)[400:]), keeps: false},
		"its last lines taken out": {was: good, is: []byte(hosts("a", 25)), keeps: false},
		"a few of few":             {was: []byte(hosts("a", 9)), is: []byte(hosts("a", 2)), keeps: false},
		"one line is wrong":        {was: good, is: append([]byte("!!! ???\n"), good...), keeps: false},
		"wrong lines were there":   {was: []byte(string(good) + "!!! ???\n"), is: []byte("a1.example\n!!! ???\n"), keeps: false},
		"another, shorter list":    {was: good, is: []byte("a1.example\nb1.example\n"), keeps: false},
		"it had nothing before":    {was: []byte("# nothing yet\n"), is: []byte{}, keeps: false},
	} {
		for _, when := range []string{"start", "reload"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				file := filepath.Join(dir, "own.txt")
				write(t, file, c.was)
				format := c.format
				if format == "" {
					format = list.Domains
				}
				cfg := Config{"own": {Config: list.Config{Path: setting.Source(file), Format: format, Category: "own"}}}
				var now *Collection
				open := func() {
					t.Helper()
					previous := now
					if when == "start" {
						previous = nil
					}
					var err error
					if now, err = Open(t.Context(), cfg, dir, previous, slog.New(slog.DiscardHandler)); err != nil {
						t.Fatal(err)
					}
				}
				blocks := func(host string) bool {
					t.Helper()
					hits, err := now.Search(host)
					if err != nil {
						t.Fatal(err)
					}
					return len(hits) > 0
				}
				open()
				had := blocks("a1.example")
				if c.is == nil {
					remove(t, file)
				} else {
					write(t, file, c.is)
				}
				for range 2 { // also when it is tried again
					open()
					if had && !blocks("a1.example") {
						t.Errorf("a1.example is open; problems: %q", now.Problems())
					}
					if got := len(now.Faults()) > 0; got != c.keeps {
						t.Errorf("it keeps the version before: %v, want %v; problems: %q", got, c.keeps, now.Problems())
					}
				}
				if !c.keeps {
					return
				}
				if text := strings.Join(problem.Texts(now.Problems()), "\n"); !strings.Contains(text, file) {
					t.Errorf("the problem does not name %s: %s", file, text)
				}
				// What is changed by hand meanwhile is in use.
				if err := now.Change(t.Context(), map[string][]list.Change{"own": {{Entry: "tea.example"}}}, func() error { open(); return nil }); err != nil {
					t.Fatal(err)
				}
				if !blocks("tea.example") {
					t.Error("an entry that was added by hand meanwhile is not in use")
				}
				write(t, file, c.was)
				open()
				if !blocks("a1.example") || !blocks("tea.example") || len(now.Faults()) > 0 {
					t.Errorf("after the file is good again: problems %q", now.Problems())
				}
			})
		}
	}
}

// Who does want nothing in the list deletes what was compiled, as the problem says.
func TestAnEmptyListIsTakenWhenItsCompiledFileIsDeleted(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "own.txt")
	write(t, file, []byte("a1.example\n"))
	cfg := Config{"own": {Config: list.Config{Path: setting.Source(file), Format: list.Domains}}}
	open := func(previous *Collection) *Collection {
		c, err := Open(t.Context(), cfg, dir, previous, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open(nil)
	write(t, file, []byte("# no longer\n"))
	c = open(c)
	if text := strings.Join(problem.Texts(c.Problems()), "\n"); !strings.Contains(text, c.file("own")) {
		t.Fatalf("the problem does not say what to delete: %s", text)
	}
	remove(t, c.file("own"))
	if c = open(c); len(c.Faults()) > 0 || c.Reports()[0].Entries > 0 {
		t.Errorf("problems %q, %d entries", c.Problems(), c.Reports()[0].Entries)
	}
}

// One emptied file of a folder opens one category.
func TestAnEmptiedFileOfAFolderIsDamaged(t *testing.T) {
	dir := t.TempDir()
	for _, category := range []string{"games", "chat"} {
		mkdir(t, filepath.Join(dir, category))
		write(t, filepath.Join(dir, category, "domains"), []byte(category+".example\n"))
	}
	data := t.TempDir()
	cfg := Config{"ut1": {Config: list.Config{Path: setting.Source(dir), Format: list.UT1}}}
	open := func() *Collection {
		c, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	open()
	write(t, filepath.Join(dir, "chat", "domains"), nil)
	c := open()
	if hits, err := c.Search("chat.example"); err != nil || len(hits) == 0 || len(c.Faults()) == 0 {
		t.Errorf("chat.example: %v, %v; problems %q", hits, err, c.Problems())
	}
	removeAll(t, filepath.Join(dir, "chat")) // nobody does that by accident
	if c = open(); len(c.Faults()) > 0 {
		t.Errorf("a category that was taken out: problems %q", c.Problems())
	}
}

// What is looked at on trial is what a start would use.
func TestATrialOfADamagedListUsesTheLastGoodVersion(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "own.txt")
	write(t, file, []byte("a1.example\n"))
	cfg := Config{"own": {Config: list.Config{Path: setting.Source(file), Format: list.Domains}}}
	if _, err := Open(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	write(t, file, nil)
	c, err := Try(t.Context(), cfg, data, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if hits, err := c.Search("a1.example"); err != nil || len(hits) == 0 || len(c.Faults()) == 0 {
		t.Errorf("a1.example: %v, %v; problems %q", hits, err, c.Problems())
	}
}
