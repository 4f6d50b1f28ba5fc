package files

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
)

// A Tree is the contents of a folder.
type Tree struct {
	Files    []TreeFile
	Aliases  []Alias // of folders
	Problems []Problem
}

// A TreeFile is a file with entries.
type TreeFile struct {
	Path    string // below the folder, with "/"
	Size    int64
	Changed int64 // ns
}

// Walk finds the files of a squidGuard tree that are wanted by their name. It follows symbolic links only within the folder,
// because lists come from outside.
func Walk(dir string, wanted func(name string) bool) (Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Tree{}, err
	}
	defer root.Close()
	var t Tree
	if err := t.walk(root, ".", 0, wanted); err != nil {
		return t, err
	}
	sort.Slice(t.Files, func(i, j int) bool { return t.Files[i].Path < t.Files[j].Path })
	return t, nil
}

// An Alias is another name of a category: in a squidGuard tree a symbolic link, or a file in
// place of one.
type Alias struct {
	Name, Target string
	Link         bool
}

func (t *Tree) walk(root *os.Root, dir string, depth int, wanted func(name string) bool) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		info, err := root.Stat(p)
		if err != nil { // a link that leads nowhere, or out
			t.Problems = append(t.Problems, Problem{File: p, Reason: "left out: " + err.Error()})
			continue
		}
		switch {
		case info.IsDir() && e.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(p)
			if err != nil {
				return err
			}
			t.Aliases = append(t.Aliases, Alias{p, path.Join(dir, target), true})
		case info.IsDir() && depth < maxDepth:
			if err := t.walk(root, p, depth+1, wanted); err != nil {
				return err
			}
		case !info.Mode().IsRegular():
		case wanted(e.Name()):
			t.Files = append(t.Files, TreeFile{p, info.Size(), info.ModTime().UnixNano()})
		case depth <= 1 && 0 < info.Size() && info.Size() < MaxStandIn:
			if data, err := root.ReadFile(p); err == nil && IsStandIn(data) {
				t.Aliases = append(t.Aliases, Alias{p, path.Join(dir, string(bytes.TrimSpace(data))), false})
			}
		}
		if len(t.Files)+len(t.Aliases)+len(t.Problems) > MaxFiles {
			return fmt.Errorf("more than %d files", MaxFiles)
		}
	}
	return nil
}

// MaxStandIn is the size below which a file may replace a symbolic link: where links cannot be
// stored, the file holds the name of the folder.
const MaxStandIn = 100

// IsStandIn reports whether a small file is in place of a link.
func IsStandIn(data []byte) bool {
	s := bytes.TrimSpace(data)
	return len(s) > 0 && bytes.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}
