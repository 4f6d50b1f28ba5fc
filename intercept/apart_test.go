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
		t.Fatalf("%v, the certificate's file is\n%s", err, text)
	}
	if info, err := os.Stat(KeyFile(file)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, the key's file is %v", err, info)
	}
	if r, err := ReadRoot(file); err != nil || !r.Certificate.Equal(first.Certificate) {
		t.Fatalf("%v, %v", r, err)
	}
	if err := first.WriteApart(file, false); err == nil {
		t.Error("a root was replaced without being asked")
	}
	second, err := first.Rotate(RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	// Between the two files there are both keys, and each certificate has its own.
	old, err := os.ReadFile(KeyFile(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.WriteApart(file, true); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(KeyFile(file))
	if err != nil || bytes.Equal(next, old) || strings.Count(string(next), "BEGIN PRIVATE KEY") != 1 {
		t.Fatalf("%v, after the rotation:\n%s", err, next)
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
		t.Errorf("a key that others may read: %v", err)
	}
	if err := os.Remove(KeyFile(file)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRoot(file); err == nil || !strings.Contains(err.Error(), KeyFile(file)) {
		t.Errorf("a root without its key: %v", err)
	}
}
