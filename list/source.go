package list

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Bounds of one list's sources. Past them reading ends with an error.
const (
	maxUnpacked = 16 << 30 // bytes of a compressed source, unpacked
	maxFiles    = 100_000  // of a tree
	maxDepth    = 6        // folders in folders
)

// read reads all sources of the list.
func (b *builder) read() error {
	info, err := os.Stat(b.cfg.Path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if b.cfg.Format != UT1 && b.cfg.Format != Auto {
			return fmt.Errorf("%s is a folder, and format %s wants a file", b.cfg.Path, b.cfg.Format)
		}
		return b.readTree()
	}
	f, err := os.Open(b.cfg.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	br := bufio.NewReaderSize(f, 64<<10)
	var r io.Reader = br
	if head, _ := br.Peek(2); string(head) == "\x1f\x8b" {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", b.cfg.Path, err)
		}
		defer zr.Close()
		r = &limited{r: zr, left: maxUnpacked}
	}
	if b.cfg.Format == UT1 || b.cfg.Format == Auto {
		tr := bufio.NewReaderSize(r, 64<<10)
		head, _ := tr.Peek(512)
		if isTar(head) {
			return b.readTar(tr)
		}
		if b.cfg.Format == UT1 {
			return fmt.Errorf("%s is neither a folder nor a tar archive, which format ut1 wants", b.cfg.Path)
		}
		r = tr
	}
	category := b.cfg.Category
	if category == "" {
		category = b.name
	}
	if err := b.file(r, b.cfg.Path, b.cfg.Format, category); err != nil {
		return fmt.Errorf("reading %s: %w", b.cfg.Path, err)
	}
	return nil
}

// isTar looks for the magic of a POSIX or GNU archive.
func isTar(head []byte) bool {
	return len(head) >= 262 && string(head[257:262]) == "ustar"
}

// limited ends with an error when there is too much to read.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes when unpacked", int64(maxUnpacked))
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// kind returns the format of a file of a squidGuard tree by its name, "" for
// one that holds no entries. The mirrors of large lists split them into
// domains.0, domains.1, …
func kind(name string) string {
	base, ext, _ := strings.Cut(name, ".")
	if strings.Trim(ext, "0123456789") != "" {
		return ""
	}
	switch base {
	case "domains", "urls":
		return Domains
	case "expressions", "very_restrictive_expression":
		return expressions
	}
	return ""
}

// A tree is what was found in a folder.
type tree struct {
	files    []treeFile
	aliases  []alias // of folders
	problems []Problem
}

type treeFile struct {
	path    string // below the folder, with "/"
	size    int64
	changed int64 // ns
}

// walk finds the files of a squidGuard tree. Symbolic links are followed
// inside the folder and nowhere else: the lists came from outside.
func walk(dir string) (tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return tree{}, err
	}
	defer root.Close()
	var t tree
	if err := t.walk(root, ".", 0); err != nil {
		return t, err
	}
	sort.Slice(t.files, func(i, j int) bool { return t.files[i].path < t.files[j].path })
	return t, nil
}

func (t *tree) walk(root *os.Root, dir string, depth int) error {
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		info, err := root.Stat(p)
		if err != nil { // a link that leads nowhere, or out
			t.problems = append(t.problems, Problem{File: p, Reason: "left out: " + err.Error()})
			continue
		}
		switch {
		case info.IsDir() && e.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(p)
			if err != nil {
				return err
			}
			t.aliases = append(t.aliases, alias{p, path.Join(dir, target), true})
		case info.IsDir() && depth < maxDepth:
			if err := t.walk(root, p, depth+1); err != nil {
				return err
			}
		case !info.Mode().IsRegular():
		case kind(e.Name()) != "":
			t.files = append(t.files, treeFile{p, info.Size(), info.ModTime().UnixNano()})
		case depth <= 1 && 0 < info.Size() && info.Size() < maxStandIn:
			if data, err := root.ReadFile(p); err == nil && isStandIn(data) {
				t.aliases = append(t.aliases, alias{p, path.Join(dir, string(bytes.TrimSpace(data))), false})
			}
		}
		if len(t.files)+len(t.aliases)+len(t.problems) > maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
	}
	return nil
}

// maxStandIn is the size below which a file may stand in for a symbolic link:
// where links cannot be stored, the file holds the name of the folder.
const maxStandIn = 100

func isStandIn(data []byte) bool {
	s := bytes.TrimSpace(data)
	return len(s) > 0 && bytes.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// readTree reads the files of a folder.
func (b *builder) readTree() error {
	t, err := walk(b.cfg.Path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.cfg.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range t.files {
		if err := b.treeFile(root, f.path); err != nil {
			return fmt.Errorf("reading %s: %w", path.Join(b.cfg.Path, f.path), err)
		}
	}
	for _, p := range t.problems {
		p.File = path.Join(b.cfg.Path, p.File)
		b.leftOut(p)
	}
	return b.endTree(t.aliases)
}

func (b *builder) treeFile(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return b.file(f, path.Join(b.cfg.Path, name), kind(path.Base(name)), b.folder(name))
}

// folder returns the category of a file in a tree: until the end of the tree,
// the whole path of its folder.
func (b *builder) folder(name string) string {
	if b.cfg.Category != "" {
		return b.cfg.Category
	}
	return path.Dir(name)
}

// readTar reads a squidGuard tree out of a tar archive as it comes by.
func (b *builder) readTar(r io.Reader) error {
	var aliases []alias
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", b.cfg.Path, err)
		}
		if n > maxFiles {
			return fmt.Errorf("%s: more than %d files", b.cfg.Path, maxFiles)
		}
		name := path.Clean(h.Name)
		// Nothing is written to disk, so a path that climbs is only odd.
		if name == "." || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") && h.Typeflag != tar.TypeDir {
			b.leftOut(Problem{File: b.cfg.Path, Reason: quote(h.Name) + " is not a path inside the archive, and is left out"})
			continue
		}
		switch format := kind(path.Base(name)); {
		case h.Typeflag == tar.TypeSymlink:
			aliases = append(aliases, alias{name, path.Join(path.Dir(name), h.Linkname), true})
		case h.Typeflag != tar.TypeReg:
		case format != "":
			if err := b.file(tr, path.Join(b.cfg.Path, name), format, b.folder(name)); err != nil {
				return fmt.Errorf("reading %s: %w", path.Join(b.cfg.Path, name), err)
			}
		case 0 < h.Size && h.Size < maxStandIn:
			data, err := io.ReadAll(tr)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path.Join(b.cfg.Path, name), err)
			}
			if isStandIn(data) {
				aliases = append(aliases, alias{name, path.Join(path.Dir(name), string(bytes.TrimSpace(data))), false})
			}
		}
	}
	return b.endTree(aliases)
}

// leftOut counts a file that is not read.
func (b *builder) leftOut(p Problem) {
	b.report.Bad++
	if len(b.report.Problems) < keptInAll {
		b.report.Problems = append(b.report.Problems, p)
	}
}

// endTree turns the paths of folders into names of categories: a folder that
// all others lie in is no part of the name.
func (b *builder) endTree(aliases []alias) error {
	if len(b.report.Sources) == 0 {
		return errors.New("no file called domains or urls in " + b.cfg.Path)
	}
	if b.cfg.Category != "" || len(b.names) == 0 {
		return nil
	}
	short := shorten(b.names)
	if len(b.names) == 1 && b.names[0] == "." { // the folder of one category
		short = func(string) string { return b.name }
	}
	leadsTo := map[string]string{}
	for _, a := range aliases {
		leadsTo[a.name] = a.target
	}
	b.aliases = map[string][]string{}
	for _, a := range aliases {
		target := a.target
		// An alias of an alias leads to what that one stands for; a few steps
		// are deeper than any list goes, and end where they go in circles.
		for range 4 {
			if next, ok := leadsTo[target]; ok {
				target = next
			}
		}
		switch _, ok := b.categories[target]; {
		case ok:
			b.aliases[short(target)] = append(b.aliases[short(target)], short(a.name))
		case a.link: // a file that stands in for nothing is only a small file
			b.leftOut(Problem{File: path.Join(b.cfg.Path, a.name), Reason: quote(a.target) + ", to which this links, is no category; left out"})
		}
	}
	for i, name := range b.names {
		b.names[i] = short(name)
	}
	return nil
}

// shorten returns a function that cuts the folder all names lie in.
func shorten(names []string) func(string) string {
	top, _, ok := strings.Cut(names[0], "/")
	for _, n := range names {
		ok = ok && strings.HasPrefix(n, top+"/")
	}
	if !ok {
		return func(s string) string { return s }
	}
	return func(s string) string { return strings.TrimPrefix(s, top+"/") }
}
