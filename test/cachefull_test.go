//go:build linux

package test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The disk is smaller than the settings assume, and another program fills it:
// the cache uses the available space, counts failed writes, and can start.
func TestAFullDiskIsSurvived(t *testing.T) {
	store := t.TempDir()
	if err := unix.Mount("tmpfs", store, "tmpfs", 0, "size=5m"); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	h := newStorehouse(t, store)
	t.Cleanup(func() {
		h.kill()
		if err := unix.Unmount(store, 0); err != nil {
			t.Error(err)
		}
	})
	h.start()
	for round := range 20 {
		if round == 5 { // leave only the cache's own space
			_ = os.WriteFile(filepath.Join(store, "of somebody else"), make([]byte, 5<<20), 0o600)
		}
		h.load(4, 150, uint64(round)).Wait()
		if round == 10 {
			h.kill()
			h.start()
		}
	}
	if h.asked.Load() < 5000 || h.hits.Load() == 0 {
		t.Errorf("%d answers, %d of them from the cache; want at least 5000, and some from the cache", h.asked.Load(), h.hits.Load())
	}
	if n := h.metric("shuultuur_cache_disk_failed_total"); n == 0 {
		t.Error("writing to a full disk: shuultuur_cache_disk_failed_total is 0")
	} else {
		t.Logf("%d answers, %d of them from the cache, %v writes failed", h.asked.Load(), h.hits.Load(), n)
	}
	h.kill()
	// There is no room even for the first segment.
	files, err := filepath.Glob(filepath.Join(store, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.WriteFile(filepath.Join(store, "of somebody else"), make([]byte, 6<<20), 0o600)
	h.start()
	h.all()
}
