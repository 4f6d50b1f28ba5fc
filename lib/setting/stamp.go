package setting

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxStamped bounds the files of one folder that are checked for changes.
const maxStamped = 10_000

// Stamp describes a file without reading it: the stamp changes when the file changes, appears
// or disappears. That of a folder covers all files in it, at most 10,000. A file that has
// changed since a time (the zero time: never) has a stamp that it never has later.
func Stamp(file string, since time.Time) string {
	var b strings.Builder
	one := func(path string, info fs.FileInfo, err error) {
		switch {
		case err != nil:
			fmt.Fprintln(&b, path, "gone")
		case !since.IsZero() && !info.ModTime().Before(since):
			fmt.Fprintln(&b, path, "changing")
		default:
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	info, err := os.Stat(file)
	if err != nil || !info.IsDir() {
		one(file, info, err)
		return b.String()
	}
	n := 0
	// A file that cannot be read counts as missing.
	_ = filepath.WalkDir(file, func(path string, d fs.DirEntry, err error) error {
		if n++; n > maxStamped {
			return fs.SkipAll
		}
		if err != nil || d.IsDir() {
			return nil
		}
		info, err := os.Stat(path)
		one(path, info, err)
		return nil
	})
	return b.String()
}

// Content returns a digest of the content of files, and of all files in folders. It does not
// depend on their paths, order or times.
func Content(files []string) (string, error) {
	var sums []string
	for _, f := range files {
		sum, err := content(f)
		if err != nil {
			return "", err
		}
		sums = append(sums, sum)
	}
	slices.Sort(sums)
	return Digest(sums), nil
}

// content returns a digest of a file or of all files in a folder. A missing file and an empty
// one differ.
func content(path string) (string, error) {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	h := sha256.New()
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(h, "gone")
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		rel, err := filepath.Rel(path, p)
		if err != nil {
			return err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d %x\n", rel, n, sum.Sum(nil))
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
