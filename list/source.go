package list

import (
	"archive/tar"
	"archive/zip"
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
	"github.com/klauspost/compress/zstd"
)

// Limits of a list's sources. Exceeding one is an error.
const (
	maxUnpacked = 16 << 30 // bytes of a compressed source, unpacked
	// The largest ratio of unpacked to compressed size, and a size that is always permitted.
	// Real lists become four times as large, sorted ones ten times, a bomb of zeros a thousand
	// times.
	maxRatio      = 100
	leastUnpacked = 64 << 20
	maxFiles      = 100_000 // of a tree
	maxDepth      = 6       // folders in folders
)

// read reads all sources of the list.
func (b *builder) read() error {
	info, err := os.Stat(b.path)
	if err != nil {
		return err
	}
	switch {
	case !info.IsDir() && b.cfg.items():
		return b.readItems()
	case !info.IsDir():
		return b.readFile()
	case b.cfg.Format == UT1 || b.cfg.Format == Auto:
		return b.readTree()
	}
	return fmt.Errorf("%s is a folder, and format %s wants a file", b.path, b.cfg.Format)
}

// readFile reads a list in a file or an archive.
func (b *builder) readFile() error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	var mark [4]byte
	if n, _ := f.ReadAt(mark[:], 0); n == len(mark) && string(mark[:]) == "PK\x03\x04" {
		return b.readZip(f)
	}
	r, err := unpack(f)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", b.path, err)
	}
	br := bufio.NewReaderSize(r, 64<<10)
	if head, _ := br.Peek(512); isTar(head) {
		return b.readTar(br)
	}
	if b.cfg.Format == UT1 {
		return fmt.Errorf("%s is neither a folder nor an archive, which format ut1 wants", b.path)
	}
	if err := b.file(br, b.path, b.cfg.Format, b.onlyCategory()); err != nil {
		return fmt.Errorf("reading %s: %w", b.path, err)
	}
	return nil
}

// onlyCategory returns the category of a list that has only one.
func (b *builder) onlyCategory() string {
	if b.cfg.Category != "" {
		return b.cfg.Category
	}
	return b.name
}

// unpack returns the text of a file, which may be compressed, as detected from its beginning.
func unpack(f *os.File) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	br := bufio.NewReaderSize(f, 64<<10)
	mark, _ := br.Peek(4)
	var r io.Reader
	switch {
	case bytes.HasPrefix(mark, []byte("\x1f\x8b")):
		r, err = gzip.NewReader(br)
	case string(mark) == "\x28\xb5\x2f\xfd":
		// Use one goroutine, and permit the window that a list may need.
		var zr *zstd.Decoder
		if zr, err = zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderLowmem(true)); err == nil {
			r = zr.IOReadCloser()
		}
	default:
		return br, nil
	}
	if err != nil {
		return nil, err
	}
	most := mostUnpacked(info.Size())
	return &limitedReader{r: r, left: most, most: most}, nil
}

// mostUnpacked bounds the unpacked size of a compressed file of a size.
func mostUnpacked(size int64) int64 {
	return min(maxUnpacked, maxRatio*size+leastUnpacked)
}

// isTar looks for the magic of a POSIX or GNU archive.
func isTar(head []byte) bool {
	return len(head) >= 262 && string(head[257:262]) == "ustar"
}

// A limitedReader fails when there is too much to read.
type limitedReader struct {
	r    io.Reader
	left int64
	most int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes when unpacked: too many for its size", l.most)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// kind returns the format of a file of a squidGuard tree by its name, "" if it has no entries.
// Mirrors of large lists split them into domains.0, domains.1, …
func kind(name string) string {
	base, ext, _ := strings.Cut(name, ".")
	if strings.Trim(ext, "0123456789") != "" {
		return ""
	}
	switch base {
	case "domains", "urls":
		return Domains
	case "expressions", "very_restrictive_expression":
		return Expressions
	}
	return ""
}

// A tree is the contents of a folder.
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

// walk finds the files of a squidGuard tree. It follows symbolic links only within the folder,
// because lists come from outside.
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

// maxStandIn is the size below which a file may replace a symbolic link: where links cannot be
// stored, the file holds the name of the folder.
const maxStandIn = 100

func isStandIn(data []byte) bool {
	s := bytes.TrimSpace(data)
	return len(s) > 0 && bytes.IndexFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// readTree reads the files of a folder.
func (b *builder) readTree() error {
	t, err := walk(b.path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.path)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range t.files {
		if err := b.treeFile(root, f.path); err != nil {
			return fmt.Errorf("reading %s: %w", path.Join(b.path, f.path), err)
		}
	}
	for _, p := range t.problems {
		p.File = path.Join(b.path, p.File)
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
	return b.file(f, path.Join(b.path, name), kind(path.Base(name)), b.folder(name))
}

// folder returns the category of a file in a tree: until endTree, the whole path of its
// folder.
func (b *builder) folder(name string) string {
	if b.cfg.Category != "" {
		return b.cfg.Category
	}
	return path.Dir(name)
}

// member returns the format and category of a file in an archive; the format is "" if it is
// not part of the list.
func (b *builder) member(name string) (format, category string) {
	if b.cfg.Format != UT1 && b.cfg.Format != Auto {
		return b.cfg.Format, b.onlyCategory()
	}
	return kind(path.Base(name)), b.folder(name)
}

// inside cleans the name of a file in an archive. Nothing is written to disk, so a path that
// leaves the archive is harmless; it is skipped all the same.
func (b *builder) inside(name string, dir bool) (clean string, ok bool) {
	clean = path.Clean(strings.ReplaceAll(name, "\\", "/"))
	if clean == "." && dir {
		return clean, true
	}
	if clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.HasPrefix(clean, "/") && !dir {
		b.leftOut(Problem{File: b.path, Reason: quote(name) + " is not a path inside the archive and is ignored"})
		return "", false
	}
	return clean, true
}

// readTar reads lists from a stream of a tar archive.
func (b *builder) readTar(r io.Reader) error {
	var aliases []alias
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", b.path, err)
		}
		if n > maxFiles {
			return fmt.Errorf("%s: more than %d files", b.path, maxFiles)
		}
		name, ok := b.inside(h.Name, h.Typeflag == tar.TypeDir)
		if !ok {
			continue
		}
		switch {
		case h.Typeflag == tar.TypeSymlink:
			aliases = append(aliases, alias{name, path.Join(path.Dir(name), h.Linkname), true})
		case h.Typeflag == tar.TypeReg:
			if aliases, err = b.readMember(tr, name, h.Size, aliases); err != nil {
				return fmt.Errorf("reading %s: %w", path.Join(b.path, name), err)
			}
		}
	}
	return b.endTree(aliases)
}

// readMember reads a file of an archive.
func (b *builder) readMember(r io.Reader, name string, size int64, aliases []alias) ([]alias, error) {
	if format, category := b.member(name); format != "" {
		return aliases, b.file(r, path.Join(b.path, name), format, category)
	}
	if 0 < size && size < maxStandIn {
		data, err := io.ReadAll(io.LimitReader(r, maxStandIn))
		if err != nil {
			return aliases, err
		}
		if isStandIn(data) {
			aliases = append(aliases, alias{name, path.Join(path.Dir(name), string(bytes.TrimSpace(data))), false})
		}
	}
	return aliases, nil
}

// readZip reads lists from a zip archive. If it holds a single file, that is the list.
func (b *builder) readZip(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	zr, err := zip.NewReader(f, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("reading %s: %w", b.path, err)
	}
	if len(zr.File) > maxFiles {
		return fmt.Errorf("%s: more than %d files", b.path, maxFiles)
	}
	var aliases []alias
	left := mostUnpacked(info.Size())
	for _, m := range zr.File {
		name, ok := b.inside(m.Name, m.FileInfo().IsDir())
		if !ok || !m.Mode().IsRegular() {
			continue
		}
		// Unpack no more than the size that the archive declares.
		size := m.UncompressedSize64
		if size > uint64(left) || size > uint64(mostUnpacked(int64(min(m.CompressedSize64, 1<<40)))) {
			b.leftOut(Problem{File: path.Join(b.path, name), Reason: fmt.Sprintf("would have %d bytes when unpacked: too many for its size; ignored", size)})
			continue
		}
		left -= int64(size)
		if aliases, err = b.readZipped(m, name, len(zr.File) == 1, aliases); err != nil {
			return fmt.Errorf("reading %s: %w", path.Join(b.path, name), err)
		}
	}
	return b.endTree(aliases)
}

func (b *builder) readZipped(m *zip.File, name string, single bool, aliases []alias) ([]alias, error) {
	r, err := m.Open()
	if err != nil {
		return aliases, err
	}
	defer r.Close()
	if single && b.cfg.Format == Auto && kind(path.Base(name)) == "" {
		return aliases, b.file(r, path.Join(b.path, name), Auto, b.onlyCategory())
	}
	return b.readMember(r, name, int64(m.UncompressedSize64), aliases)
}

// leftOut counts a file that is not read.
func (b *builder) leftOut(p Problem) {
	b.report.Bad++
	if len(b.report.Problems) < keptInAll {
		b.report.Problems = append(b.report.Problems, p)
	}
}

// endTree turns the paths of folders into names of categories, without the folder that all
// others are in.
func (b *builder) endTree(aliases []alias) error {
	if len(b.report.Sources) == 0 {
		if p := b.report.Problems; len(p) > 0 { // there was nothing else
			return errors.New(p[0].String())
		}
		return errors.New("no file called domains or urls in " + b.path)
	}
	if b.cfg.Category != "" || len(b.categories.names) == 0 {
		return nil
	}
	short := shorten(b.categories.names)
	if len(b.categories.names) == 1 && b.categories.names[0] == "." { // the folder is one category
		short = func(string) string { return b.name }
	}
	leadsTo := map[string]string{}
	for _, a := range aliases {
		leadsTo[a.name] = a.target
	}
	b.categories.aliases = map[string][]string{}
	for _, a := range aliases {
		target := a.target
		// An alias of an alias resolves to the final category. A few steps are more than real
		// lists need, and end cycles.
		for range 4 {
			if next, ok := leadsTo[target]; ok {
				target = next
			}
		}
		switch _, ok := b.categories.ids[target]; {
		case ok:
			b.categories.aliases[short(target)] = append(b.categories.aliases[short(target)], short(a.name))
		case a.link: // a file that is not an alias is just a small file
			b.leftOut(Problem{File: path.Join(b.path, a.name), Reason: quote(a.target) + ", the target of this link, is not a category; ignored"})
		}
	}
	for i, name := range b.categories.names {
		b.categories.names[i] = short(name)
	}
	return nil
}

// shorten returns a function that removes the folder common to all names.
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
