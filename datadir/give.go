package datadir

import (
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/platform"
)

// Give gives what root has left in a folder to the folder's owner, or, where root made the
// folder itself, to the owner of the one above. Administrators run commands as root, and the
// gateway, which runs as another user, has to read and replace what they leave. Files that have
// another name elsewhere, and what cannot be opened, are left alone.
func Give(dir string) {
	if os.Geteuid() != 0 {
		return
	}
	var user, group int
	for _, like := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(like); err == nil && user == 0 {
			user, group, _ = platform.Owner(info)
		}
	}
	if user == 0 {
		return
	}
	root, err := os.OpenRoot(dir) // the owner may put links into it meanwhile
	if err != nil {
		return
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err != nil || !platform.OfRoot(info) {
			return nil
		}
		f, err := root.Open(name)
		if err != nil {
			return nil
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && platform.OfRoot(info) {
			_ = f.Chown(user, group) // the gateway reports what it cannot read
		}
		return nil
	})
}
