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
	Problems []Problem
	seen     map[string]bool
	looked   []Beside
}

// A Beside is the state of a file that a list names beside it, which need not exist.
type Beside struct {
	Path          string
	Size, Changed int64 // -1 for none
}

// stateOf returns the state of a file now.
func stateOf(path string) Beside {
	if info, err := os.Stat(path); err == nil {
		return Beside{path, info.Size(), info.ModTime().UnixNano()}
	}
	return Beside{path, -1, -1}
}

// IsOld reports whether a file is no longer as it was.
func (b Beside) IsOld() bool { return b != stateOf(b.Path) }

// Includes finds the files of the list at path. It reads nothing outside the [Root] of the list,
// because a downloaded list must not reach other files; one that is alone, without a folder of its
// own, includes nothing.
func Includes(path string, alone bool) (*Inclusion, error) {
	x, err := Alone(path)
	if err != nil {
		return nil, err
	}
	if alone {
		x.root = ""
	}
	return x, x.find(path, nil, 0)
}

// Alone returns the inclusion of a list that includes nothing so far.
func Alone(path string) (*Inclusion, error) {
	root, err := Root(path)
	if err != nil {
		return nil, err
	}
	x := &Inclusion{root: root, seen: map[string]bool{}}
	if real, err := RealPath(path); err == nil {
		x.seen[real] = true
	}
	return x, nil
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
	if x.root == "" {
		at.Reason = Quote(at.Reason) + " is not included: the list was fetched, and names no files of this machine"
		x.Problems = append(x.Problems, at)
		return nil
	}
	path, why := x.Locate(at.Reason, at.File, depth)
	if why != "" {
		at.Reason, at.Kept = Quote(at.Reason)+" "+why, why == again
		x.Problems = append(x.Problems, at)
		return nil
	}
	return x.find(path, when, depth)
}

// again is why a file is not included twice.
const again = "is already included"

// Locate returns the file that a line of another file names, to be included in this depth, or why it is
// not.
func (x *Inclusion) Locate(name, from string, depth int) (path, why string) {
	path = strings.Replace(name, "__LISTDIR__", x.root, 1)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(from), path)
	}
	path = filepath.Clean(path)
	if len(x.looked) < maxIncludes {
		x.looked = append(x.looked, stateOf(path))
	}
	real, err := RealPath(path)
	switch {
	case err != nil:
		return "", "cannot be included: " + err.Error()
	case !IsBelow(x.root, real):
		return "", "is not included: it lies outside " + x.root
	case x.seen[real]:
		return "", again
	case depth > MaxIncludeDepth || len(x.seen) > maxIncludes:
		return "", "is not included: there are too many includes"
	}
	if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() {
		return "", "is not included: it is not a file"
	}
	x.seen[real] = true
	return path, ""
}

// Looked returns the files that lines named, as they were, whether they are included or not.
func (x *Inclusion) Looked() []Beside {
	if x == nil {
		return nil
	}
	return x.looked
}

// RealPath returns an absolute path without links, which identifies a file however it is named.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}
