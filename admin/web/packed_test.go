package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

func TestThePackedPagesAreThoseOfTheFolder(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range []string{"../*/*.html", "static/*.*", "static/vendored/[^R]*"} {
		files, err := filepath.Glob(kind)
		if err != nil || len(files) == 0 {
			t.Fatalf("looking for %s: got no files, %v", kind, err)
		}
		for _, file := range files {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Base(file)
			names[name] = true
			if got, err := readPacked(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("pages.zip has another %s (%v): run go run ./admin/pack", file, err)
			}
		}
	}
	if len(names) != len(packedFiles()) {
		t.Errorf("pages.zip has %d files, the folder %d: run go run ./admin/pack", len(packedFiles()), len(names))
	}
}

// The libraries are as their authors published them; static/vendored/README.md has the versions.
func TestLibrariesAreUnchanged(t *testing.T) {
	readme, err := os.ReadFile("static/vendored/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("static/vendored/[^R]*")
	if err != nil || len(files) < 6 {
		t.Fatalf("vendored files: got %q, %v, want at least 6", files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if row := "| " + filepath.Base(file) + " | " + hex.EncodeToString(sum[:]) + " |"; !bytes.Contains(readme, []byte(row)) {
			t.Errorf("static/vendored/README.md has no row %s", row)
		}
	}
}
