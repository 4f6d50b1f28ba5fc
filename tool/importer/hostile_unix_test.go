//go:build unix

package importer

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNamedPipesAreNotRead: opening one waits until somebody writes into it.
func TestNamedPipesAreNotRead(t *testing.T) {
	for program, files := range map[string][]string{"e2guardian": {"e2guardian.conf"}, "squidguard": {"squidGuard.conf"}, "pihole": {"pihole.toml", "custom.list"}, "squid": {"squid.conf"}} {
		dir := t.TempDir()
		for _, name := range files {
			if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				t.Skip(err)
			}
		}
		if _, err := Run(t.Context(), program, dir, t.TempDir()); err == nil || !strings.Contains(err.Error(), files[0]+" is not a file") {
			t.Errorf("%s with %s as a named pipe: %v", program, files[0], err)
		}
	}
}
