package engine

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/check/signature/rule"
)

func TestDatasetsAreSavedAfterAChange(t *testing.T) {
	dir := t.TempDir()
	s := NewState()
	d := &rule.Dataset{Name: "seen", Type: "string", Command: "set", Load: "seen.lst", Save: "seen.lst"}
	if err := s.define(d, filepath.Join(dir, "a.rules"), nil); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "seen.lst")
	s.ask(d, []byte("before"))
	if _, err := os.Stat(name); err == nil {
		t.Error("it was saved though nobody asked for it")
	}
	s.KeepSaved(time.Millisecond)
	s.ask(d, []byte("after"))
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
	next := NewState()
	if err := next.define(d, filepath.Join(dir, "a.rules"), nil); err != nil {
		t.Fatal(err)
	}
	if ok, _ := next.ask(&rule.Dataset{Name: "seen", Command: "isset"}, []byte("after")); !ok {
		t.Error("the next run does not know the value")
	}
	// A failed write is counted and repeated.
	if err := s.define(&rule.Dataset{Name: "lost", Type: "string", Command: "set", Save: "no/such/folder"}, filepath.Join(dir, "a.rules"), nil); err != nil {
		t.Fatal(err)
	}
	s.KeepSaved(0)
	s.ask(&rule.Dataset{Name: "lost", Command: "set"}, []byte("x"))
	if s.Save() == nil || s.Save() == nil || s.Unsaved.Load() != 2 {
		t.Errorf("%d failed saves were counted, want 2", s.Unsaved.Load())
	}
}
