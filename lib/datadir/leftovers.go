package datadir

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Files that are being written have names of their own beside the complete ones (package atomicfile, list
// sources). A program that is killed leaves them, with whatever of people was to be written.

var (
	// written matches the names of files that are being written.
	written = regexp.MustCompile(`\.[0-9]+\.tmp$|^(new|text)-[0-9]+\.tmp$`)
	// number matches what the name of a file that is being written has more than that of the file.
	number = regexp.MustCompile(`^\.[0-9]+\.tmp$`)
)

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

// LeftoversOf removes files that were being written in place of a file, which may be outside the folder.
func LeftoversOf(file string, since time.Time) (removed []string) {
	dir, name := filepath.Split(file)
	all, _ := os.ReadDir(filepath.Dir(file)) // what cannot be listed stays
	for _, d := range all {
		if end, ok := strings.CutPrefix(d.Name(), name); !ok || !d.Type().IsRegular() || !number.MatchString(end) {
			continue
		}
		path := dir + d.Name()
		if info, err := d.Info(); err == nil && info.ModTime().Before(since) && os.Remove(path) == nil {
			removed = append(removed, path)
		}
	}
	return removed
}
