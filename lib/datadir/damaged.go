package datadir

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/atomicfile"
)

// unsearched are folders with many files, none of which is ever set aside.
var unsearched = []string{"cache", "sources", "downloads", "last-good", "settings"}

// Problems names the files of the folder that were damaged and set aside, until somebody has looked
// into them and deleted them.
func (f *Folder) Problems() (all []string) {
	_ = filepath.WalkDir(f.Dir, func(path string, d fs.DirEntry, err error) error {
		switch below := strings.TrimPrefix(path, f.Dir); {
		case err != nil:
			return nil //nolint:nilerr // what can be read is named
		case d.IsDir() && (slices.Contains(unsearched, filepath.Base(path)) || strings.Count(below, string(filepath.Separator)) > 2):
			return fs.SkipDir
		}
		if was := atomicfile.AsideOf(path); was != "" && !strings.HasSuffix(path, ".tmp") {
			all = append(all, fmt.Sprintf("%s was damaged, and the gateway goes on without it, with its last copy or with what is left of it; look into %s, then delete that", was, path))
		}
		return nil
	})
	return all
}
