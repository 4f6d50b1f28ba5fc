//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A fatFile is a file of a file system that gives all files one mode.
type fatFile struct {
	*os.File
	refuses error // of Chmod, nil if it takes no notice
}

func (f fatFile) Chmod(fs.FileMode) error { return f.refuses }

// TestAFileSystemWithoutModes is good enough where its mount keeps others out.
func TestAFileSystemWithoutModes(t *testing.T) {
	for _, c := range []struct {
		name         string
		folder, file fs.FileMode // as the mount gives them
		want         fs.FileMode
		refuses      error
		bad          bool
	}{
		{"all for one user", 0o700, 0o700, 0o600, syscall.EPERM, false},
		{"all for one user, refused otherwise", 0o700, 0o700, 0o644, syscall.ENOTSUP, false},
		{"only the folder is for one user", 0o700, 0o755, 0o600, syscall.EPERM, false},
		{"others may read what they may read", 0o755, 0o755, 0o644, syscall.EPERM, false},
		{"others may read a key", 0o755, 0o755, 0o600, syscall.EPERM, true},
		{"others may read a key, without notice", 0o755, 0o755, 0o600, nil, true},
		{"others may write", 0o777, 0o777, 0o644, syscall.EPERM, true},
		{"a group may read a key", 0o750, 0o750, 0o600, syscall.EPERM, true},
		{"another error", 0o700, 0o700, 0o600, syscall.EIO, true},
	} {
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Chmod(c.file); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.folder); err != nil {
			t.Fatal(err)
		}
		if err := setMode(fatFile{f, c.refuses}, c.want); (err != nil) != c.bad {
			t.Errorf("%s: got %v, want an error: %v", c.name, err, c.bad)
		}
	}
}
