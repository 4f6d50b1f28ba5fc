//go:build unix

package datadir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFilesOfRootAreGivenToTheOwnerOfTheFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can leave files for others")
	}
	above := t.TempDir()
	dir := filepath.Join(above, "data")
	outside := filepath.Join(above, "outside")
	for _, d := range []string{"sources/ads/empty", "lists"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{outside, filepath.Join(dir, "lists/ads.list.lock"), filepath.Join(dir, "sources/ads/empty/domains"), filepath.Join(dir, "other")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(dir, "link")),
		os.Link(outside, filepath.Join(dir, "second name")),
		os.Chown(filepath.Join(dir, "other"), 5, 6),
		os.Chown(above, 4711, 4712),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	GiveToOwner(dir)
	for file, want := range map[string]uint32{".": 4711, "lists": 4711, "lists/ads.list.lock": 4711, "sources": 4711, "sources/ads/empty": 4711,
		"sources/ads/empty/domains": 4711, "other": 5, "link": 0, "second name": 0, "../outside": 0} {
		info, err := os.Lstat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != want {
			t.Errorf("%s belongs to %d, want %d", file, got, want)
		}
	}
}
