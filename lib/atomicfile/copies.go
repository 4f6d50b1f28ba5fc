package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Copies keeps copies of files, and of the files in folders, in a separate folder, for use
// when an original is unusable. Only the owner may read them, because they may include keys.
type Copies struct{ Dir string }

// maxCopied bounds one of the files, in bytes.
const maxCopied = 64 << 20

// Keep copies files, and removes copies of other files. Identical copies are not rewritten.
func (c Copies) Keep(files []string) error {
	var kept []string
	var errs []error
	keep := func(file string) {
		kept = append(kept, c.at(file))
		errs = append(errs, c.copy(file))
	}
	for _, f := range files {
		info, err := os.Stat(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		case !info.IsDir():
			keep(f)
		default:
			errs = append(errs, filepath.WalkDir(f, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					keep(path)
				}
				return err
			}))
		}
	}
	errs = append(errs, filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !d.IsDir() && !slices.Contains(kept, path) {
			return os.Remove(path)
		}
		return err
	}))
	return errors.Join(errs...)
}

// Path returns the copy of a file or folder, or its own path if there is no copy.
func (c Copies) Path(file string) string {
	if at := c.at(file); exists(at) {
		return at
	}
	return file
}

// Any reports whether there are copies.
func (c Copies) Any() bool { return exists(c.Dir) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c Copies) at(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	return filepath.Join(c.Dir, file)
}

func (c Copies) copy(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() > maxCopied {
		return fmt.Errorf("%s has %d bytes: files of more than %d are not copied", file, info.Size(), maxCopied)
	}
	to := c.at(file)
	if is, err := os.Stat(to); err == nil && is.Size() == info.Size() && is.ModTime().Equal(info.ModTime()) {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := WriteBytes(to, 0o600, data); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}
