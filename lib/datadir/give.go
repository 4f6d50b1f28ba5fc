package datadir

import (
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/lib/platform"
)

// GiveToOwner gives the files that root has left in a folder to the folder's owner. If root made the
// folder itself, it gives them to the owner of the folder above. Administrators run commands as
// root, and the gateway, which runs as another user, has to read and replace the files. Give
// leaves alone files with another hard link, and files that it cannot open.
func GiveToOwner(dir string) {
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
	root, err := os.OpenRoot(dir) // meanwhile the owner may put links into it
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
