package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCopiesFollowTheirFiles(t *testing.T) {
	dir := t.TempDir()
	one, sub := filepath.Join(dir, "one"), filepath.Join(dir, "folder", "two")
	write := func(file, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(one, "1")
	write(sub, "2")
	c := Copies{filepath.Join(dir, "copies")}
	if c.Any() || c.Path(one) != one {
		t.Error("Copies has copies before any were made")
	}
	keep := func(files ...string) {
		t.Helper()
		if err := c.Keep(files); err != nil {
			t.Fatal(err)
		}
	}
	has := func(file, want string) {
		t.Helper()
		data, err := os.ReadFile(c.Path(file))
		if err != nil || string(data) != want {
			t.Errorf("the copy of %s is %q, %v; want %q", file, data, err, want)
		}
	}
	keep(one, filepath.Dir(sub), filepath.Join(dir, "gone"))
	os.Remove(one)
	os.Remove(sub)
	has(one, "1")
	has(sub, "2")
	if info, err := os.Stat(c.Path(one)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has the mode %v, %v; want 0600", info.Mode(), err)
	}
	write(one, "new")
	keep(one)
	has(one, "new")
	if c.Path(sub) != sub {
		t.Error("Keep leaves the copy of a file that is no longer kept")
	}
}
