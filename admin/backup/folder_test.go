package backup

import (
	"errors"
	"fmt"
	"io"
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
