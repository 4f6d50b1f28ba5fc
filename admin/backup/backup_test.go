package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path/filepath"
	"testing"
)

// nowhere returns a place beside the settings for restored files.
func nowhere(file string) func([]byte) (Place, error) {
	return func([]byte) (Place, error) {
		dir := filepath.Dir(file)
		return Place{Dir: dir, Data: filepath.Join(dir, "data")}, nil
	}
}

// TestABackupLeadsNowhereElse uses forged names in a backup.
func TestABackupLeadsNowhereElse(t *testing.T) {
	for _, name := range []string{"../x", "files/../../x", "/etc/passwd", "data/lock", "data/../x", "other", "data/accounts/../../x"} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		w := tar.NewWriter(z)
		for _, n := range []string{backupText, name} {
			_ = w.WriteHeader(&tar.Header{Name: n, Size: 1, Mode: 0o644, Typeflag: tar.TypeReg})
			_, _ = w.Write([]byte("\n"))
		}
		_, _ = w.Close(), z.Close()
		dir := t.TempDir()
		file := filepath.Join(dir, "sub", "shuultuur.yaml")
		if names, err := Restore(&b, file, nowhere(file)); err == nil {
			t.Errorf("Restore accepts the forged name %s: %q", name, names)
		}
	}
}

func FuzzReadBackup(f *testing.F) {
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readBackup(bytes.NewReader(b))
		if err == nil && all[backupText].text == nil {
			t.Error("readBackup accepts a backup without settings")
		}
	})
}
