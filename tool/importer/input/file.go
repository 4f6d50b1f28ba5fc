// Package input reads the files of other programs, within bounds: text by lines, files of options
// that include each other, YAML and JSON with the lines of their values, networks and times.
//
// Data moves as follows: a file is read whole, checked to be text, and cut into lines, options or
// values, each with its place in the file.
package input

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds on the reading of a configuration.
const (
	MaxFile  = 64 << 20 // bytes of a file that is read whole
	MaxFiles = 2000     // files of a list, and settings files in all
	MaxDepth = 10       // of includes
	MaxLine  = 1 << 20  // bytes of a line
)

// Whole reads a file, and returns an error if it is too large.
func Whole(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a named pipe would wait
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("%s is larger than %d MiB", path, MaxFile>>20)
	}
	return b, err
}

// Text reads a text file, and returns an error if it is binary.
func Text(path string) ([]byte, error) {
	b, err := Whole(path)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return nil, fmt.Errorf("%s:%d: the file is not text: it has a byte of 0; if it is in UTF-16, save it in UTF-8", path, 1+bytes.Count(b[:i], []byte("\n")))
	}
	return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), err
}

// In returns a file, or the usual one in a folder.
func In(path, usual string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, usual)
	}
	return path
}

func IsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// EachLine calls line with the trimmed lines of a file that are not empty. It returns an error at
// a line longer than 1 MiB.
func EachLine(path string, r io.Reader, line func(n int, s []byte) error) error {
	sc, n := bufio.NewScanner(r), 1
	for sc.Buffer(nil, MaxLine); sc.Scan(); n++ {
		s := bytes.TrimSpace(bytes.TrimPrefix(sc.Bytes(), []byte("\xef\xbb\xbf")))
		if len(s) > 0 {
			if err := line(n, s); err != nil {
				return err
			}
		}
	}
	if sc.Err() == bufio.ErrTooLong {
		return fmt.Errorf("%s:%d: the line is longer than 1 MiB: divide it", path, n)
	}
	return sc.Err()
}

// Lines calls line with the trimmed lines of a text file that are not empty.
func Lines(path string, line func(n int, s []byte) error) error {
	data, err := Text(path)
	if err != nil {
		return err
	}
	return EachLine(path, bytes.NewReader(data), line)
}

// Glob returns the files that a pattern names.
func Glob(dir, pattern string) (files []string) {
	for _, p := range below(dir, pattern) {
		found, _ := filepath.Glob(p)
		for _, f := range found {
			if IsFile(f) {
				files = append(files, f)
			}
		}
		if len(files) > 0 {
			return files
		}
	}
	return nil
}

// Find finds a file that settings in dir name. Imported settings may be a copy from another
// machine, so an absolute path is first looked for below dir, with as much of the path as
// exists there. The result is an absolute path; "" stays "".
func Find(dir, file string) string {
	if file == "" {
		return ""
	}
	places := below(dir, file)
	at := slices.IndexFunc(places, func(p string) bool {
		_, err := os.Stat(p)
		return err == nil
	})
	switch {
	case at >= 0:
		file = places[at]
	case !filepath.IsAbs(file):
		file = filepath.Join(dir, file)
	}
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}

// below returns the places where a path of settings in dir is looked for.
func below(dir, path string) (all []string) {
	if !filepath.IsAbs(path) {
		all = append(all, filepath.Join(dir, path))
	}
	for rest := strings.TrimPrefix(filepath.Clean(path), "/"); rest != ""; _, rest, _ = strings.Cut(rest, "/") {
		if strings.Contains(rest, "/") || !strings.ContainsAny(rest, "*?[") { // otherwise every file in dir would fit
			all = append(all, filepath.Join(dir, rest))
		}
	}
	if filepath.IsAbs(path) {
		all = append(all, path)
	}
	return all
}
