package list

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of a list that includes others.
const (
	maxIncludes     = 1000
	maxIncludeDepth = 10
)

// An itemFile is one file of a list of e2guardian or DansGuardian.
type itemFile struct {
	path     string
	category string   // the last #listcategory of the file, which applies to all of it; "" if none
	when     []window // its own and those of the files that include it
}

// A window is the time in which a list applies: from begin to end, both in minutes of the day
// and inclusive, on the days in the set, with Monday as bit 0. A window whose end is before
// its beginning continues past midnight.
type window struct {
	begin, end uint16
	days       uint8
}

// open reports whether at is in w, in at's location.
func (w window) open(at time.Time) bool {
	day := (int(at.Weekday()) + 6) % 7
	now := uint16(at.Hour()*60 + at.Minute())
	if w.begin <= w.end {
		return w.begin <= now && now <= w.end && w.days>>day&1 == 1
	}
	if now >= w.begin {
		return w.days>>day&1 == 1
	}
	return now <= w.end && w.days>>((day+6)%7)&1 == 1 // since yesterday
}

func (w window) append(t []byte) []byte {
	t = binary.AppendUvarint(t, uint64(w.begin))
	t = binary.AppendUvarint(t, uint64(w.end))
	return binary.AppendUvarint(t, uint64(w.days))
}

// windows reads the output of append.
func (r *tableReader) windows() []window {
	var all []window
	for range min(r.number(maxIncludeDepth+1), uint64(len(r.b))) {
		all = append(all, window{uint16(r.number(1440)), uint16(r.number(1440)), uint8(r.number(127))})
	}
	return all
}

// parseWindow reads "sh sm eh em days", days being digits with 0 for Monday.
func parseWindow(s string) (w window, ok bool) {
	var sh, sm, eh, em uint16
	var days string
	if n, err := fmt.Sscanf(s, "%d %d %d %d %s", &sh, &sm, &eh, &em, &days); n != 5 || err != nil {
		return w, false
	}
	if sh > 24 || eh > 24 || sm > 59 || em > 59 || len(days) > 7 {
		return w, false
	}
	for _, d := range days {
		if d < '0' || d > '6' {
			return w, false
		}
		w.days |= 1 << (d - '0')
	}
	w.begin, w.end = sh*60+sm, eh*60+em
	return w, w.begin <= 1440 && w.end <= 1440
}

// itemFiles finds the files of a list: itself and those it includes. It reads nothing outside
// the folder of the list, or the nearest folder above it called "lists", because a downloaded
// list must not reach other files.
type itemFiles struct {
	root     string
	files    []itemFile
	seen     map[string]bool
	problems []Problem
}

func findItemFiles(path string) (*itemFiles, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	x := &itemFiles{root: filepath.Dir(abs), seen: map[string]bool{}}
	for dir := x.root; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "lists" {
			x.root = dir
			break
		}
	}
	// A link out of the folder is out of bounds.
	if x.root, err = filepath.EvalSymlinks(x.root); err != nil {
		return nil, err
	}
	return x, x.find(path, nil, 0)
}

func (x *itemFiles) find(path string, when []window, depth int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := unpack(file)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", path, err)
	}
	me := len(x.files)
	x.files = append(x.files, itemFile{path: path})
	if real, err := realPath(path); err == nil {
		x.seen[real] = true
	}
	var includes []Problem // where, and the reason in Reason
	br := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		s, err := br.ReadSlice('\n')
		long := err == bufio.ErrBufferFull
		for err == bufio.ErrBufferFull {
			_, err = br.ReadSlice('\n')
		}
		if !long {
			at := Problem{File: path, Line: n}
			if inc := x.directive(&x.files[me], bytes.TrimSpace(s), at); inc != "" {
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
	when = slices.Concat(when, x.files[me].when)
	x.files[me].when = when
	for _, inc := range includes {
		if err := x.include(inc, when, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// directive reads a line about the list itself; it returns the path of a list that it
// includes.
func (x *itemFiles) directive(f *itemFile, s []byte, at Problem) (include string) {
	if rest, ok := bytes.CutPrefix(s, []byte(".Include<")); ok {
		path, _, ok := bytes.Cut(rest, []byte(">"))
		if !ok || len(path) == 0 {
			at.Reason = quote(s) + " names no file: write .Include<file>"
			x.problems = append(x.problems, at)
		}
		return string(path)
	}
	if rest, ok := bytes.CutPrefix(s, []byte("#listcategory:")); ok {
		f.category = strings.Trim(string(rest), "\" \t")
	}
	if rest, ok := bytes.CutPrefix(s, []byte("#time:")); ok {
		w, ok := parseWindow(string(rest))
		if !ok {
			at.Reason = quote(s) + " is not a time: write #time: hour minute hour minute days, days 0 (Monday) to 6"
			x.problems = append(x.problems, at)
			return ""
		}
		f.when = []window{w} // as with categories, the last one counts
	}
	return ""
}

// include finds the files of an included list. A missing one, or one out of bounds, is a
// problem and not an error: the rest of the list is usable.
func (x *itemFiles) include(at Problem, when []window, depth int) error {
	name := at.Reason
	path := strings.Replace(name, "__LISTDIR__", x.root, 1)
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(at.File), path)
	}
	path = filepath.Clean(path)
	real, err := realPath(path)
	switch {
	case err != nil:
		at.Reason = quote(name) + " cannot be included: " + err.Error()
	case !strings.HasPrefix(real, x.root+"/"):
		at.Reason = quote(name) + " is not included: it lies outside " + x.root
	case x.seen[real]:
		at.Reason = quote(name) + " is already included"
		at.Kept = true
	case depth > maxIncludeDepth || len(x.files) >= maxIncludes:
		at.Reason = quote(name) + " is not included: there are too many includes"
	default:
		if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() {
			at.Reason = quote(name) + " is not included: it is not a file"
			break
		}
		return x.find(path, when, depth)
	}
	x.problems = append(x.problems, at)
	return nil
}

// realPath returns an absolute path without links, which identifies a file however it is
// named.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// readItems reads an e2guardian list and all it includes.
func (b *builder) readItems() error {
	x, err := findItemFiles(b.path)
	if err != nil {
		return err
	}
	for _, f := range x.files {
		if err := b.itemFile(f); err != nil {
			return err
		}
	}
	for _, p := range x.problems {
		if p.Kept {
			b.report.Problems = append(b.report.Problems, p)
			continue
		}
		b.leftOut(p)
	}
	return nil
}

func (b *builder) itemFile(f itemFile) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := unpack(file)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", f.path, err)
	}
	category := b.cfg.Category
	if category == "" {
		category = f.category
	}
	if category == "" {
		category = b.name
	}
	b.when = f.when
	defer func() { b.when = nil }()
	if err := b.file(r, f.path, b.cfg.Format, category); err != nil {
		return fmt.Errorf("reading %s: %w", f.path, err)
	}
	return nil
}

// itemLine reads a site or URL of e2guardian, or a network. Lines about the list itself were
// handled before.
func (p *parser) itemLine(s []byte) {
	if bytes.HasPrefix(s, []byte(".Include<")) {
		return
	}
	if s = cutComment(s); len(s) == 0 {
		return
	}
	switch string(s) {
	case "**", "*ip", "**s", "*ips":
		p.refuse(s, "matches everything: write a rule of the policy instead")
		return
	}
	if c := s[0]; (c >= '0' && c <= '9' || bytes.IndexByte(s, ':') >= 0) && bytes.ContainsAny(s, "/-:") && p.network(s) {
		return
	}
	if s[0] == '.' && bytes.IndexByte(s[1:], '.') >= 0 {
		p.remark(s, fmt.Sprintf("matches nothing in e2guardian; read as %q", s[1:]))
	}
	p.item(s)
}
