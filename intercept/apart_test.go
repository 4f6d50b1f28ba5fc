package intercept

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestARootMayHaveItsKeyInAFileOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "root.pem")
	first := newRoot(t, RootConfig{})
	if err := first.WriteApart(file, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.Contains(text, []byte("PRIVATE KEY")) {
		t.Fatalf("reading the certificate's file: %v, or it has the key:\n%s", err, text)
	}
	if info, err := os.Stat(KeyFile(file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v; want mode 0600", err, info)
	}
	if r, err := ReadRoot(file); err != nil || !r.Certificate.Equal(first.Certificate) {
		t.Fatalf("ReadRoot = %v, %v; want the written root", r, err)
	}
	if err := first.WriteApart(file, false); err == nil {
		t.Error("WriteApart replaces a root without being asked to")
	}
	second, err := first.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// While both files are replaced, the key file has both keys, and each certificate finds its
	// own.
	old, err := os.ReadFile(KeyFile(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.WriteApart(file, true); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(KeyFile(file))
	if err != nil || bytes.Equal(next, old) || strings.Count(string(next), "BEGIN PRIVATE KEY") != 1 {
		t.Fatalf("after the rotation: %v, the key file is\n%s", err, next)
	}
	for _, certificates := range [][]byte{text, nil} {
		if certificates != nil {
			if err := os.WriteFile(file, certificates, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(KeyFile(file), append(bytes.Clone(next), old...), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := second.WriteApart(file, true); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRoot(file); err != nil {
			t.Error(err)
		}
	}
	if err := os.Chmod(KeyFile(file), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRoot(file); err == nil || !strings.Contains(err.Error(), "chmod 600") || !strings.Contains(err.Error(), KeyFile(file)) {
		t.Errorf("reading a key that others may read: %v, want advice to chmod 600", err)
	}
	if err := os.Remove(KeyFile(file)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRoot(file); err == nil || !strings.Contains(err.Error(), KeyFile(file)) {
		t.Errorf("reading a root without its key: %v, want an error that names the key's file", err)
	}
}
