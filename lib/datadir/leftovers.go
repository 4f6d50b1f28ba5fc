package datadir

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Files that are being written have names of their own beside the complete ones (package atomicfile, list
// sources). A program that is killed leaves them, with whatever of people was to be written.

// written matches the names of files that are being written.
var written = regexp.MustCompile(`\.[0-9]+\.tmp$|^(new|text)-[0-9]+\.tmp$`)

// Leftovers removes files in the folder that nobody writes any more: those that were not written to since
// a time. It returns their paths; dry removes nothing.
func (f *Folder) Leftovers(since time.Time, dry bool) (removed []string) {
	// What cannot be read or removed is tried again at the next start.
	_ = filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !written.MatchString(d.Name()) {
			return nil //nolint:nilerr // what can be read is looked at
		}
		if info, err := d.Info(); err == nil && info.ModTime().Before(since) && (dry || os.Remove(path) == nil) {
			removed = append(removed, path)
		}
		return nil
	})
	return removed
}

// LeftoversOf removes files that were being written in place of a file outside the folder, such as the
// settings.
func LeftoversOf(file string, since time.Time) (removed []string) {
	all, _ := os.ReadDir(filepath.Dir(file)) // what cannot be listed stays
	for _, d := range all {
		name, ok := d.Name(), false
		if len(name) > len(filepath.Base(file)) && name[:len(filepath.Base(file))] == filepath.Base(file) {
			ok = written.MatchString(name[len(filepath.Base(file)):])
		}
		path := filepath.Join(filepath.Dir(file), name)
		if info, err := d.Info(); ok && err == nil && info.Mode().IsRegular() && info.ModTime().Before(since) && os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}
