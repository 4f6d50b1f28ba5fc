package state

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/lib/suricata/rule"
)

// definedBy returns a dataset as a rule in a file on the disk, without a file beside it, defines it.
func definedBy(d *rule.Dataset, root, file string) Definition {
	return Definition{Dataset: d, Source: "a.rules", Saving: Saving{Root: root, File: file}, Read: func() ([]byte, error) { return nil, os.ErrNotExist }}
}

func TestDatasetsAreSavedAfterAChange(t *testing.T) {
	dir := t.TempDir()
	s := New()
	d := &rule.Dataset{Name: "seen", Type: "string", Command: "set", Load: "seen.lst", Save: "seen.lst"}
	if err := s.Define(definedBy(d, dir, "own/seen.lst")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "own", "seen.lst")
	s.Ask(d, []byte("before"))
	if _, err := os.Stat(name); err == nil {
		t.Error("it was saved though nobody asked for it")
	}
	s.KeepSaved(time.Millisecond)
	s.Ask(d, []byte("after"))
	want := base64.StdEncoding.EncodeToString([]byte("after")) + "\n" + base64.StdEncoding.EncodeToString([]byte("before")) + "\n"
	for range 6000 {
		if got, err := os.ReadFile(name); err == nil && string(got) == want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Fatalf("the saved dataset is %q (%v), want %q", got, err, want)
	}
	next := New()
	if err := next.Define(definedBy(d, dir, "own/seen.lst")); err != nil {
		t.Fatal(err)
	}
	if ok, _ := next.Ask(&rule.Dataset{Name: "seen", Command: "isset"}, []byte("after")); !ok {
		t.Error("the next run does not know the value")
	}
	// A failed write is counted, reported and repeated.
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Define(definedBy(&rule.Dataset{Name: "lost", Type: "string", Command: "set", Save: "x"}, dir, "taken/x")); err != nil {
		t.Fatal(err)
	}
	s.KeepSaved(0)
	s.Ask(&rule.Dataset{Name: "lost", Command: "set"}, []byte("x"))
	if s.Save() == nil || s.Save() == nil || s.Unsaved.Load() != 2 {
		t.Errorf("%d failed saves were counted, want 2", s.Unsaved.Load())
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], `saving dataset "lost"`) {
		t.Errorf("after a failed save the problems are %q", p)
	}
}

// TestWhatOneSourceSavesIsBounded: rules that come from outside can fill neither the memory nor
// the disk.
func TestWhatOneSourceSavesIsBounded(t *testing.T) {
	s := New()
	add := &rule.Dataset{Name: "big", Type: "string", Command: "set"}
	if err := s.Define(Definition{Dataset: add, Source: "own"}); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 1<<20)
	added := 0
	for n := range 2 * maxValues >> 20 {
		value[0], value[1] = byte(n), byte(n>>8)
		if ok, _ := s.Ask(add, value); ok {
			added++
		}
	}
	if added != maxValues>>20 {
		t.Errorf("%d MiB of values were added, want %d", added, maxValues>>20)
	}
	if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0], "the datasets of own are full") {
		t.Errorf("the problems of a full dataset are %q", p)
	}
	value[0], value[1] = 0, 0
	if ok, _ := s.Ask(&rule.Dataset{Name: "big", Command: "unset"}, value); !ok {
		t.Error("a value could not be removed")
	}
	if ok, _ := s.Ask(add, []byte("another")); !ok {
		t.Error("there is no room though a value was removed")
	}
	for n := range maxSaved + 1 {
		d := &rule.Dataset{Name: "s" + string(rune(n+256)), Type: "string", Save: "x"}
		err := s.Define(definedBy(d, "nowhere", d.Name))
		if (err != nil) != (n == maxSaved) {
			t.Fatalf("saved dataset %d: %v", n, err)
		}
	}
}
