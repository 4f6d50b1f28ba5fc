package setting_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/setting"
)

func TestRootsOfAFile(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file setting.File
		want string // in the error
	}{
		{"none means the system's", "", ""},
		{"a file that is not there", setting.File(filepath.Join(dir, "none.pem")), "no such file"},
		{"a file without certificates", setting.File(empty), "contains no certificate in PEM form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, err := c.file.Roots()
			switch {
			case c.want == "" && (pool != nil || err != nil):
				t.Errorf("got %v and %v, want neither", pool, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
