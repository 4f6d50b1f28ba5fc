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
const (
	asideMark = ".damaged-"
	asideTime = "20060102T150405.000Z"
)

// asideOf returns a name that no file has yet.
func asideOf(file string) string {
	for at := time.Now().UTC(); ; at = at.Add(time.Millisecond) {
		name := file + asideMark + at.Format(asideTime)
		if _, err := os.Lstat(name); err != nil {
			return name
		}
	}
}

// CopyAside keeps a copy of a damaged file as NAME.damaged-TIME, for an owner that goes on with what is
// left in the file. The copy of a file that is gone is empty.
func CopyAside(file string) error {
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keeping a copy of a damaged file: %w", err)
	}
	return KeepAside(file, data)
}

// KeepAside is CopyAside for an owner that replaces only a part of the file, was.
func KeepAside(file string, was []byte) error {
	if err := WriteBytes(asideOf(file), 0o600, was); err != nil {
		return fmt.Errorf("keeping a copy of a damaged file: %w", err)
	}
	return nil
}

// SetAside renames a damaged file to NAME.damaged-TIME, so that its owner goes on without it and
// people can look into it. Files with the same name and one of the endings go with it.
func SetAside(file string, endings ...string) error {
	to := asideOf(file)
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
	if _, err := time.Parse(asideTime, at); !found || err != nil {
		return ""
	}
	return filepath.Join(dir, was)
}
