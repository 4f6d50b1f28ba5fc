package list

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/platform"
)

// An overlay is a small list file beside the large one, with individually added and removed
// entries. Removed entries are in a category whose name begins with a NUL. Lookups consult
// both files. A change replaces the overlay, so open files are not affected.
//
// The next Compile merges the overlay into the list. A third file keeps the changes, and every
// later Compile merges them again, so that they outlive the compiled file.
const (
	overlaySuffix = ".overlay"
	editsSuffix   = ".edits"
	lockSuffix    = ".lock"

	removalMark = "\x00"
	// maxOverlay is the part of a list's entries, one in so many, beyond which the overlay is
	// merged.
	maxOverlay = 100
	// mostChanges bounds the entries of an overlay; use a list for more.
	mostChanges = 1 << 20
)

// A Change adds an entry to a list or removes it.
type Change struct {
	// Entry is a host or URL, as in the format "domains".
	Entry string
	// Category is one of the list's, or a new one for an added entry. Default: the list's only
	// one, or for removal all.
	Category string
	Remove   bool
	// Exact makes an added host exclude its subdomains.
	Exact bool
	// Exception makes an added host an exception from the category.
	Exception bool
}

func isRemoval(category string) bool { return strings.HasPrefix(category, removalMark) }

// Amend changes the compiled list at path at once, without compiling it. Open files do not see
// the change: open the list again. The time is proportional to the overlay, not to the list.
// The last change to an entry of a category counts. If a change cannot be made, none is.
func Amend(ctx context.Context, path string, changes ...Change) error {
	unlock, err := platform.LockPath(path+lockSuffix, 0o644)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := newBuilder(ctx, filepath.Base(path), Config{Match: Boundary}, defaultSeed)
	if f.table.prefix {
		b.cfg.Match = Prefix
	}
	edits := editSet{}
	if f.overlay != nil {
		err = edits.read(f.overlay)
	}
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := edits.change(f, b.cfg.Match, c); err != nil {
			return fmt.Errorf("changing list %s: %w", path, err)
		}
	}
	if len(edits) > mostChanges {
		return fmt.Errorf("changing list %s: more than %d changed entries: put them into a list of their own", path, mostChanges)
	}
	return edits.write(b, path+overlaySuffix)
}

// An editSet is the state of every changed entry, by entry and category.
type editSet map[removal]edit

type edit struct {
	flags  uint8
	remove bool
}

// read adds the contents of an overlay.
func (s editSet) read(f *File) error {
	for b := f.table.records; len(b) > 0; {
		r, n := f.table.record(b)
		from, to, ok := f.table.sets.of(r.set >> flagBits)
		if n == 0 || !ok {
			return f.damaged
		}
		for _, id := range f.table.sets.categories(from, to) {
			name := f.names[id][0]
			key := removal{string(r.key), strings.TrimPrefix(name, removalMark)}
			s[key] = edit{uint8(r.set & (1<<flagBits - 1)), isRemoval(name)}
		}
		b = b[n:]
	}
	return nil
}

// apply enters later edits. One that removes an entry from every category also removes earlier additions.
func (s editSet) apply(later editSet) {
	for of, e := range later {
		if e.remove && of.category == "" {
			maps.DeleteFunc(s, func(key removal, _ edit) bool { return key.key == of.key })
		}
	}
	maps.Copy(s, later)
}

// change enters one change to f.
func (s editSet) change(f *File, match string, c Change) error {
	host, path, err := parseEntry(c.Entry, match)
	if err != nil {
		return err
	}
	if len(c.Category) > 200 || strings.ContainsAny(c.Category, removalMark+"\n") {
		return fmt.Errorf("%q cannot name a category", c.Category)
	}
	categories, err := f.categoriesOf(c)
	if err != nil {
		return err
	}
	e := edit{remove: c.Remove}
	if len(path) == 0 && !c.Remove {
		if c.Exact {
			e.flags |= flagExact
		}
		if c.Exception {
			e.flags |= flagException
		}
	}
	later := editSet{}
	for _, name := range categories {
		later[removal{host + path, name}] = e
	}
	s.apply(later)
	return nil
}

// categoriesOf returns the categories of a change: with one, also its other names.
func (f *File) categoriesOf(c Change) ([]string, error) {
	if c.Category == "" && c.Remove {
		return []string{""}, nil
	}
	if c.Category == "" {
		if len(f.names) == 1 {
			return f.names[0], nil
		}
		return nil, fmt.Errorf("%q needs a category, as the list has %d", c.Entry, len(f.names))
	}
	for _, names := range f.names {
		if slices.Contains(names, c.Category) {
			return names, nil
		}
	}
	return []string{c.Category}, nil
}

// parseEntry reads an entry like a line of a list.
func parseEntry(s, match string) (host, path string, err error) {
	var found []entry
	b := newBuilder(context.Background(), "", Config{Match: match}, defaultSeed)
	p := &parser{b: b, src: Source{Path: "entry"}, path: make([]byte, 0, maxKey+1)}
	p.item(bytes.TrimSpace([]byte(s)))
	for i := range b.entries.parts {
		found = b.entries.sorted(&b.entries.parts[i], found)
		for j := range found {
			key := string(b.entries.key(&found[j]))
			if i := strings.IndexByte(key, '/'); i >= 0 {
				return key[:i], key[i:], nil
			}
			return key, "", nil
		}
	}
	if len(b.report.Problems) > 0 {
		return "", "", errors.New(b.report.Problems[0].Reason)
	}
	return "", "", fmt.Errorf("%q is not an entry", s)
}

// write writes the edits as a list file.
func (s editSet) write(b *builder, path string) error {
	b.files = []origin{{path: path}}
	line := uint32(0)
	for key, e := range s {
		name := key.category
		if e.remove {
			name = removalMark + name
		}
		cat, err := b.categories.id(name)
		if err != nil {
			return err
		}
		host, rest := key.split()
		if err := b.entries.add([]byte(host), []byte(rest), cat, e.flags, line); err != nil {
			return err
		}
		line++
	}
	b.lines = uint64(line)
	return b.write(path, [32]byte{}, time.Now())
}

func (k removal) split() (host, path string) {
	if i := strings.IndexByte(k.key, '/'); i >= 0 {
		return k.key[:i], k.key[i:]
	}
	return k.key, ""
}

// amended applies the overlay to the matches of f in dst, which begin at from.
func (f *File) amended(q *Query, dst []Match, from int) ([]Match, error) {
	defer runtime.KeepAlive(f)
	n := len(dst)
	dst, err := f.overlay.table.lookup(f.overlay, q, dst)
	if err != nil || len(dst) == n {
		return dst, err
	}
	kept := from
	for i := from; i < len(dst); i++ {
		m := dst[i]
		if i >= n && isRemoval(m.Category) || i < n && m.kind == entryKind && f.isRemoved(m, dst[n:]) {
			continue
		}
		m.over, m.List = i >= n, f
		dst[kept] = m
		kept++
	}
	clear(dst[kept:])
	return dst[:kept], nil
}

// isRemoved reports whether the overlay's matches remove m.
func (f *File) isRemoved(m Match, over []Match) bool {
	for i := range over {
		c := over[i].Category
		if isRemoval(c) && over[i].size == m.size && (len(c) == 1 || c[1:] == m.Category) && bytes.Equal(f.table.key(m), f.overlay.table.key(over[i])) {
			return true
		}
	}
	return false
}

// overlayIsLarge reports whether the overlay of a list should be merged.
func overlayIsLarge(dst string, entries int) bool {
	f, err := openOne(dst + overlaySuffix)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Len()*maxOverlay > entries && f.Len() > maxOverlay
}

// amend merges the overlay of dst, and earlier changes, into b. The merged changes are on disk
// when it returns. settle removes the overlay once the list is written, unless there is a
// newer one, which includes the old one.
func (b *builder) amend(dst string) (settle func() error, err error) {
	unlock, err := platform.LockPath(dst+lockSuffix, 0o644)
	if err != nil {
		return nil, err
	}
	defer unlock()
	settle = func() error { return nil }
	edits := editSet{}
	f, err := openOne(dst + editsSuffix)
	if err == nil {
		err = edits.read(f)
		f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	switch f, err := openOne(dst + overlaySuffix); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		later := editSet{}
		old, err := os.Stat(f.path)
		if err = errors.Join(err, later.read(f)); err == nil {
			edits.apply(later)
			err = edits.write(newBuilder(b.ctx, b.name, b.cfg, defaultSeed), dst+editsSuffix)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		settle = func() error { return removeSame(f, old, dst) }
	}
	return settle, b.applyEdits(edits, dst+editsSuffix)
}

// removeSame removes the overlay of dst if it is still the file old. f is open, so that no
// other file can have its identity.
func removeSame(f *File, old fs.FileInfo, dst string) error {
	defer f.Close()
	unlock, err := platform.LockPath(dst+lockSuffix, 0o644)
	if err != nil {
		return err
	}
	defer unlock()
	if now, err := os.Stat(f.path); err == nil && os.SameFile(old, now) {
		return os.Remove(f.path)
	}
	return nil
}

func (b *builder) applyEdits(edits editSet, path string) error {
	if len(edits) == 0 {
		return nil
	}
	other := map[string]bool{} // names that are aliases
	for _, also := range b.categories.aliases {
		for _, a := range also {
			other[a] = true
		}
	}
	ids := map[string]uint16{} // categories by their present names
	for id, name := range b.categories.names {
		ids[name] = uint16(id)
	}
	b.removed = map[removal]bool{}
	b.files = append(b.files, origin{path: path, first: uint32(b.lines)})
	b.edits = uint32(b.lines)
	for key, e := range edits {
		if e.remove {
			b.removed[key] = true
			continue
		}
		if other[key.category] {
			continue
		}
		id, ok := ids[key.category]
		if !ok {
			var err error
			if id, err = b.categories.id(key.category); err != nil {
				return err
			}
			ids[key.category] = id
		}
		host, rest := key.split()
		if err := b.entries.add([]byte(host), []byte(rest), id, e.flags, uint32(b.lines)); err != nil {
			return err
		}
		b.lines++
	}
	return nil
}

// isRemoved reports whether an entry of a source was removed later.
func (b *builder) isRemoved(e *entry) bool {
	if e.line >= b.edits {
		return false
	}
	key := b.entries.key(e)
	return b.removed[removal{string(key), ""}] || b.removed[removal{string(key), b.categories.names[e.cat]}]
}
