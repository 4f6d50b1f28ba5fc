package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// asideMark follows the name of a file that was set aside; the time follows it.
const asideMark = ".damaged-"

// SetAside renames a damaged file to NAME.damaged-TIME, so that its owner goes on without it and
// people can look into it. Files with the same name and one of the endings go with it.
func SetAside(file string, endings ...string) error {
	to := file + asideMark + time.Now().UTC().Format("20060102T150405.000Z")
	for _, ending := range endings {
		if err := os.Rename(file+ending, to+ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("setting a damaged file aside: %w", err)
		}
	}
	if err := Rename(file, to); err != nil {
		return fmt.Errorf("setting a damaged file aside: %w", err)
	}
	return nil
}

// AsideOf returns the name that a file had before it was set aside, "" if it was not.
func AsideOf(file string) string {
	dir, name := filepath.Split(file)
	was, at, found := strings.Cut(name, asideMark)
	if _, err := time.Parse("20060102T150405.000Z", at); !found || err != nil {
		return ""
	}
	return filepath.Join(dir, was)
}
