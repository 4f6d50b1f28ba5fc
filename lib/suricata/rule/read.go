package rule

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// maxRead limits the bytes of a file that a rule names.
const maxRead = 256 << 20

// ReadBelow reads a file below a folder. It follows links only within the folder.
func ReadBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name = filepath.FromSlash(path.Clean(name))
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, escaped(dir, name, err)
	case !info.Mode().IsRegular(): // opening a named pipe would wait
		return nil, &NameError{Name: name, Why: "it is not a regular file"}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(data) > maxRead {
		err = fmt.Errorf("%s is larger than %d MiB", name, maxRead>>20)
	}
	return data, err
}

// escaped returns the error for a file that could not be reached, because of a link that leads
// out of the folder if that is the reason.
func escaped(dir, name string, err error) error {
	if _, plain := os.Stat(filepath.Join(dir, name)); plain == nil {
		return &NameError{Name: name, Why: "a link leads out of the folder"}
	}
	return err
}
