package backup

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// TestBackupsAreKeptUpToALimit: the newest first, the oldest go, and no name leads out of the folder.
func TestBackupsAreKeptUpToALimit(t *testing.T) {
	f := Folder(t.TempDir() + "/backups")
	if all, err := f.All(); err != nil || len(all) != 0 {
		t.Fatalf("an empty folder has %v, %v", all, err)
	}
	begin := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for i := range mostKept + 3 {
		if _, err := f.Add(begin.Add(time.Duration(i)*time.Minute), i%2 == 1, func(w io.Writer) error { _, err := fmt.Fprint(w, "backup ", i); return err }); err != nil {
			t.Fatal(err)
		}
	}
	all, err := f.All()
	if err != nil || len(all) != mostKept || all[0].Name != "20260301T101200Z.backup" || !all[1].Sent || all[0].Bytes != 9 {
		t.Fatalf("got %v, %v", all, err)
	}
	for _, name := range []string{"20260301T100000Z.backup", "../x", "", "/etc/passwd", "20260301T101200Z.backup/../x"} {
		if _, err := f.Open(name); !errors.Is(err, ErrNotKept) {
			t.Errorf("opening %q: %v", name, err)
		}
		if err := f.Remove(name); !errors.Is(err, ErrNotKept) {
			t.Errorf("removing %q: %v", name, err)
		}
	}
	if err := f.Remove(all[0].Name); err != nil {
		t.Error(err)
	}
}

// TestABackupReplacesNoOther: several of the same second are all kept, and a clock that is behind drops
// an old one, not the new one.
func TestABackupReplacesNoOther(t *testing.T) {
	f := Folder(t.TempDir())
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	add := func(at time.Time, text string) Entry {
		t.Helper()
		e, err := f.Add(at, false, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	text := func(e Entry) string {
		t.Helper()
		r, err := f.Open(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var at sync.WaitGroup
	var names sync.Map
	for i := range mostKept {
		at.Go(func() {
			e, err := f.Add(now, false, func(w io.Writer) error { _, err := fmt.Fprint(w, i); return err })
			if err != nil {
				t.Error(err)
			}
			names.Store(e.Name, fmt.Sprint(i))
		})
	}
	at.Wait()
	kept, err := f.All()
	if err != nil || len(kept) != mostKept {
		t.Fatalf("%d backups are kept, %v, want %d", len(kept), err, mostKept)
	}
	for _, e := range kept {
		if want, _ := names.Load(e.Name); text(e) != want {
			t.Errorf("%s holds %q, want %q", e.Name, text(e), want)
		}
	}
	old := add(now.AddDate(-50, 0, 0), "by a clock that is behind")
	if got := text(old); got != "by a clock that is behind" {
		t.Errorf("the new backup holds %q", got)
	}
	if kept, err = f.All(); err != nil || len(kept) != mostKept {
		t.Errorf("%d backups are kept, %v, want %d", len(kept), err, mostKept)
	}
}
