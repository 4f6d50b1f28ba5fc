package files

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

// Bounds of a list that includes others.
const (
	maxIncludes     = 1000
	MaxIncludeDepth = 10 // lists that a list is included by
)

// An Included is one file of a list of e2guardian or DansGuardian.
type Included struct {
	Path     string
	Category string   // the last #listcategory of the file, which applies to all of it; "" if none
	When     []Window // its own and those of the files that include it
}

// An Inclusion is the files of a list: itself and those it includes.
type Inclusion struct {
	root     string
	Files    []Included
	seen     map[string]bool
	Problems []Problem
}

// Includes finds the files of the list at path. It reads nothing outside the [Root] of the list,
// because a downloaded list must not reach other files; one that is alone, without a folder of its
// own, includes nothing.
func Includes(path string, alone bool) (*Inclusion, error) {
	x := &Inclusion{seen: map[string]bool{}}
	if !alone {
		var err error
		if x.root, err = Root(path); err != nil {
			return nil, err
		}
	}
	return x, x.find(path, nil, 0)
}

// Root returns the folder that the list at path may include files of, without links: its own, or
// the nearest folder above it called "lists".
func Root(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	root := filepath.Dir(abs)
	for dir := root; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "lists" {
			root = dir
			break
		}
	}
	// A link out of the folder is out of bounds.
	return filepath.EvalSymlinks(root)
}

// IsBelow reports whether a [RealPath] is one below a [Root].
func IsBelow(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func (x *Inclusion) find(path string, when []Window, depth int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := Unpack(file)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	me := len(x.Files)
	x.Files = append(x.Files, Included{Path: path})
	if real, err := RealPath(path); err == nil {
		x.seen[real] = true
	}
	var includes []Problem // where, and the reason in Reason
	br := bufio.NewReaderSize(r, MaxLine)
	for n := 1; ; n++ {
		s, err := br.ReadSlice('\n')
		long := err == bufio.ErrBufferFull
		for err == bufio.ErrBufferFull {
			_, err = br.ReadSlice('\n')
		}
		if !long {
			at := Problem{File: path, Line: n}
			if inc := x.directive(&x.Files[me], bytes.TrimSpace(s), at); inc != "" {
				at.Reason = inc
				includes = append(includes, at)
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	when = slices.Concat(when, x.Files[me].When)
	x.Files[me].When = when
	for _, inc := range includes {
		if err := x.include(inc, when, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// directive reads a line about the list itself; it returns the path of a list that it
// includes.
func (x *Inclusion) directive(f *Included, s []byte, at Problem) (include string) {
	if rest, ok := bytes.CutPrefix(s, []byte(".Include<")); ok {
		path, _, ok := bytes.Cut(rest, []byte(">"))
		if !ok || len(path) == 0 {
			at.Reason = Quote(s) + " names no file: write .Include<file>"
			x.Problems = append(x.Problems, at)
		}
		return string(path)
	}
	if rest, ok := bytes.CutPrefix(s, []byte("#listcategory:")); ok {
		f.Category = strings.Trim(string(rest), "\" \t")
	}
	if rest, ok := bytes.CutPrefix(s, []byte("#time:")); ok {
		w, ok := parseWindow(string(rest))
		if !ok {
			at.Reason = Quote(s) + " is not a time: write #time: hour minute hour minute days, days 0 (Monday) to 6"
			x.Problems = append(x.Problems, at)
			return ""
		}
		f.When = []Window{w} // as with categories, the last one counts
	}
	return ""
}

// include finds the files of an included list. A missing one, or one out of bounds, is a
// problem and not an error: the rest of the list is usable.
func (x *Inclusion) include(at Problem, when []Window, depth int) error {
	name := at.Reason
	if x.root == "" {
		at.Reason = Quote(name) + " is not included: the list was fetched, and names no files of this machine"
		x.Problems = append(x.Problems, at)
		return nil
	}
	path := strings.Replace(name, "__LISTDIR__", x.root, 1)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(at.File), path)
	}
	path = filepath.Clean(path)
	real, err := RealPath(path)
	switch {
	case err != nil:
		at.Reason = Quote(name) + " cannot be included: " + err.Error()
	case !IsBelow(x.root, real):
		at.Reason = Quote(name) + " is not included: it lies outside " + x.root
	case x.seen[real]:
		at.Reason = Quote(name) + " is already included"
		at.Kept = true
	case depth > MaxIncludeDepth || len(x.Files) >= maxIncludes:
		at.Reason = Quote(name) + " is not included: there are too many includes"
	default:
		if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() {
			at.Reason = Quote(name) + " is not included: it is not a file"
			break
		}
		return x.find(path, when, depth)
	}
	x.Problems = append(x.Problems, at)
	return nil
}

// RealPath returns an absolute path without links, which identifies a file however it is named.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}
