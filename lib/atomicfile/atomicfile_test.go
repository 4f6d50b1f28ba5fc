package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder fails the test unless dir has exactly the files want: "name mode content".
func folder(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name()+" "+info.Mode().String()+" "+string(data))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the folder holds\n%q, want\n%q", got, want)
	}
}

func TestFileIsReplacedWithItsMode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	if err := WriteBytes(file, 0o600, []byte("old")); err != nil {
		t.Fatal(err)
	}
	folder(t, dir, "keys -rw------- old")
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := WriteBytes(file, 0o666, []byte("new")); err != nil { // more permissions than the umask lets through
		t.Fatal(err)
	}
	folder(t, dir, "keys -rw-rw-rw- new")
	if old, err := io.ReadAll(reader); err != nil || string(old) != "old" {
		t.Errorf("a reader that opened the file before reads %q, %v; want the old content", old, err)
	}
}

func TestFileStaysWhenWritingFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "list")
	if err := WriteBytes(file, 0o644, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	err := Write(file, 0o644, func(f *os.File) error {
		if _, err := f.WriteString("half of the n"); err != nil {
			return err
		}
		return full
	})
	if !errors.Is(err, full) {
		t.Errorf("got error %v, want %v", err, full)
	}
	folder(t, dir, "list -rw-r--r-- old")

	// A folder that is not empty cannot be replaced by a file.
	if err := WriteBytes(dir, 0o644, []byte("new")); err == nil {
		t.Error("WriteBytes replaces a folder that is not empty")
	}
	if left, _ := filepath.Glob(dir + ".*.tmp"); len(left) > 0 {
		t.Errorf("temporary files remain: %q", left)
	}
	if err := WriteBytes(filepath.Join(dir, "not", "there"), 0o644, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing into a missing folder: %v, want fs.ErrNotExist", err)
	}
}

func TestNewFileReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "root.pem")
	if err := CreateBytes(file, 0o600, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := CreateBytes(file, 0o600, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v, want %v", err, fs.ErrExist)
	}
	folder(t, dir, "root.pem -rw------- first")
}

func TestLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"v1", "v2"} {
		if err := WriteBytes(filepath.Join(dir, name), 0o644, []byte(name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := Rename(filepath.Join(dir, "new"), filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "current")); err != nil || string(got) != name {
			t.Errorf("the link leads to %q, %v; want %q", got, err, name)
		}
	}
}
