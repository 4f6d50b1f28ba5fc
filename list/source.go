package list

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"shuultuur/list/files"
)

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
	r, err := files.Unpack(f)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", b.path, err)
	}
	br := bufio.NewReaderSize(r, 64<<10)
	if head, _ := br.Peek(512); files.IsTar(head) {
		return b.readTar(br)
	}
	if format, _ := formatOf(b.cfg.Format); format.tree {
		return fmt.Errorf("%s is neither a folder nor an archive, which format %s wants", b.path, b.cfg.Format)
	}
	if err := b.whole(br, b.path); err != nil {
		return fmt.Errorf("reading %s: %w", b.path, err)
	}
	return nil
}

// whole reads a list that is one file.
func (b *builder) whole(r io.Reader, path string) error {
	err := b.file(r, path, b.cfg.Format, b.onlyCategory())
	if err == nil && len(b.includes) > 0 {
		err = b.follow()
	}
	if n := len(b.report.Sources); n > 0 {
		b.report.As = FormatName(b.report.Sources[n-1].Format)
	}
	return err
}

// onlyCategory returns the category of a list that has only one.
func (b *builder) onlyCategory() string {
	if b.cfg.Category != "" {
		return b.cfg.Category
	}
	return b.name
}

// kind returns the format of a file of a squidGuard tree by its name, "" if it has no entries.
// Mirrors of large lists split them into domains.0, domains.1, …
func kind(name string) FormatName {
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

// isTreeFile reports whether a file of a squidGuard tree has entries, by its name.
func isTreeFile(name string) bool { return kind(name) != "" }

// readTree reads the files of a folder.
func (b *builder) readTree() error {
	t, err := files.Walk(b.path, isTreeFile)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(b.path)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range t.Files {
		if err := b.treeFile(root, f.Path); err != nil {
			return fmt.Errorf("reading %s: %w", path.Join(b.path, f.Path), err)
		}
	}
	for _, p := range t.Problems {
		p.File = path.Join(b.path, p.File)
		b.leftOut(p)
	}
	return b.endTree(t.Aliases)
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
func (b *builder) member(name string) (format FormatName, category string) {
	if files.IsAbout(path.Base(name)) {
		return "", ""
	}
	if known, _ := formatOf(b.cfg.Format); !known.tree && b.cfg.Format != Auto {
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
		b.leftOut(Problem{File: b.path, Reason: files.Quote(name) + " is not a path inside the archive and is ignored"})
		return "", false
	}
	return clean, true
}

// readTar reads lists from a stream of a tar archive.
func (b *builder) readTar(r io.Reader) error {
	var aliases []files.Alias
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", b.path, err)
		}
		if n > files.MaxFiles {
			return fmt.Errorf("%s: more than %d files", b.path, files.MaxFiles)
		}
		name, ok := b.inside(h.Name, h.Typeflag == tar.TypeDir)
		if !ok {
			continue
		}
		switch {
		case h.Typeflag == tar.TypeSymlink:
			aliases = append(aliases, files.Alias{Name: name, Target: path.Join(path.Dir(name), h.Linkname), Link: true})
		case h.Typeflag == tar.TypeReg:
			if aliases, err = b.readMember(tr, name, h.Size, aliases); err != nil {
				return fmt.Errorf("reading %s: %w", path.Join(b.path, name), err)
			}
		}
	}
	return b.endTree(aliases)
}

// readMember reads a file of an archive.
func (b *builder) readMember(r io.Reader, name string, size int64, aliases []files.Alias) ([]files.Alias, error) {
	if format, category := b.member(name); format != "" {
		return aliases, b.file(r, path.Join(b.path, name), format, category)
	}
	if 0 < size && size < files.MaxStandIn {
		data, err := io.ReadAll(io.LimitReader(r, files.MaxStandIn))
		if err != nil {
			return aliases, err
		}
		if files.IsStandIn(data) {
			aliases = append(aliases, files.Alias{Name: name, Target: path.Join(path.Dir(name), string(bytes.TrimSpace(data))), Link: false})
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
	if len(zr.File) > files.MaxFiles {
		return fmt.Errorf("%s: more than %d files", b.path, files.MaxFiles)
	}
	var aliases []files.Alias
	left := files.MostUnpacked(info.Size())
	for _, m := range zr.File {
		name, ok := b.inside(m.Name, m.FileInfo().IsDir())
		if !ok || !m.Mode().IsRegular() {
			continue
		}
		// Unpack no more than the size that the archive declares.
		size := m.UncompressedSize64
		if size > uint64(left) || size > uint64(files.MostUnpacked(int64(min(m.CompressedSize64, 1<<40)))) {
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

func (b *builder) readZipped(m *zip.File, name string, single bool, aliases []files.Alias) ([]files.Alias, error) {
	r, err := m.Open()
	if err != nil {
		return aliases, err
	}
	defer r.Close()
	if single && b.cfg.Format == Auto && kind(path.Base(name)) == "" {
		return aliases, b.whole(r, path.Join(b.path, name))
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
func (b *builder) endTree(aliases []files.Alias) error {
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
		leadsTo[a.Name] = a.Target
	}
	b.categories.aliases = map[string][]string{}
	for _, a := range aliases {
		target := a.Target
		// An alias of an alias resolves to the final category. A few steps are more than real
		// lists need, and end cycles.
		for range 4 {
			if next, ok := leadsTo[target]; ok {
				target = next
			}
		}
		switch _, ok := b.categories.ids[target]; {
		case ok && !b.admit(short(a.Name)):
			b.leftOut(Problem{File: path.Join(b.path, a.Name), Reason: fmt.Sprintf("is another name of the category %q, and this list may not name %q; left out", short(target), short(a.Name))})
		case ok:
			b.categories.aliases[short(target)] = append(b.categories.aliases[short(target)], short(a.Name))
		case a.Link: // a file that is not an alias is just a small file
			b.leftOut(Problem{File: path.Join(b.path, a.Name), Reason: files.Quote(a.Target) + ", the target of this link, is not a category; ignored"})
		}
	}
	for i, name := range b.categories.names {
		b.categories.names[i] = short(name)
		if !b.admit(short(name)) {
			if b.barred == nil {
				b.barred = map[uint16]bool{}
			}
			b.barred[uint16(i)] = true
			b.leftOut(Problem{File: path.Join(b.path, name), Reason: fmt.Sprintf("is the category %q, which this list may not name; left out", short(name))})
		}
	}
	b.exprs = slices.DeleteFunc(b.exprs, func(e expression) bool { return b.barred[e.cat] })
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
