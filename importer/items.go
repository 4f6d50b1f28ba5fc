package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// A tree is a list file of e2guardian or DansGuardian with all it includes.
type tree struct {
	files []string
	// mend reports that our reader would not find all files: some have moved, are missing or
	// are in a forbidden place.
	mend  bool
	timed bool // a file applies only at some times
}

// locate finds a file that a configuration names. Configurations name files by their paths on
// the machine that they were made for. If the imported folder is a copy, the files are below
// it.
func (c *guard) locate(path, from string) (string, bool) {
	if c.listDir != "" {
		path = strings.ReplaceAll(path, "__LISTDIR__", c.listDir)
	}
	if strings.ContainsRune(path, 0) {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(from, path)
	}
	path = filepath.Clean(path)
	if isFile(path) && strings.HasPrefix(path, c.dir+"/") {
		return path, true
	}
	for rest := path[1:]; ; {
		if p := filepath.Join(c.dir, rest); isFile(p) {
			return p, true
		}
		_, after, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		rest = after
	}
	return path, isFile(path)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// walk calls line with every trimmed line of a list and its includes, and reports
// includes that fail.
func (c *guard) walk(path string, line func(p place, s []byte)) (*tree, error) {
	t := &tree{}
	root := listRoot(path)
	seen := map[string]bool{}
	var visit func(path string, depth int) error
	visit = func(path string, depth int) error {
		seen[path] = true
		t.files = append(t.files, path)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return eachLine(path, f, func(n int, s []byte) error {
			at := place{file: path, line: n}
			if bytes.HasPrefix(s, []byte("#time:")) {
				t.timed = true
			}
			name, is := includes(s)
			if !is {
				line(at, s)
				return nil
			}
			to, ok := c.locate(name, filepath.Dir(path))
			real, err := filepath.EvalSymlinks(to)
			switch {
			case !ok || err != nil:
				t.mend = true
				c.rep.add(&Note{Kind: Line, place: at, What: string(s), Why: "the file is not there, so nothing is included"})
				return nil
			case seen[to]:
				return nil
			case depth >= maxDepth || len(t.files) >= maxFiles:
				t.mend = true
				c.rep.add(&Note{Kind: Line, place: at, What: string(s), Why: "too many includes; this one is left out"})
				return nil
			}
			if to != filepath.Clean(name) || !strings.HasPrefix(real, root+"/") {
				t.mend = true
			}
			return visit(to, depth+1)
		})
	}
	return t, visit(path, 0)
}

// listRoot returns the folder from which list.Compile reads includes.
func listRoot(path string) string {
	root := filepath.Dir(path)
	for dir := root; filepath.Dir(dir) != dir; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "lists" {
			root = dir
			break
		}
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		return real
	}
	return root
}

// includes returns the path in a line that includes a file.
func includes(s []byte) (path string, ok bool) {
	const word = ".include<"
	if len(s) < len(word) || !strings.EqualFold(string(s[:len(word)]), word) {
		return "", false
	}
	name, _, closed := bytes.Cut(s[len(word):], []byte(">"))
	return string(name), closed && len(name) > 0
}

// eachLine calls line with the trimmed lines of a file that are not empty. It returns an error at
// a line longer than 1 MiB.
func eachLine(path string, r io.Reader, line func(n int, s []byte) error) error {
	sc, n := bufio.NewScanner(r), 1
	for sc.Buffer(nil, maxLine); sc.Scan(); n++ {
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

// textLines calls line with the trimmed lines of a text file that are not empty.
func textLines(path string, line func(n int, s []byte) error) error {
	data, err := readText(path)
	if err != nil {
		return err
	}
	return eachLine(path, bytes.NewReader(data), line)
}

// copyTree copies a list and its includes below our folder, line by line, so that line numbers
// stay the same. Includes get new paths; missing ones become comments.
func (c *guard) copyTree(name, path string) (string, error) {
	done := map[string]string{}
	var copyFile func(path string, depth int) (string, error)
	copyFile = func(path string, depth int) (string, error) {
		base := fmt.Sprintf("%d-%s", len(done), filepath.Base(path))
		done[path] = base
		src, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer src.Close()
		to, err := c.create(filepath.Join(name, base), func(w io.Writer) error {
			b := bufio.NewWriter(w)
			last := 0
			err := eachLine(path, src, func(n int, s []byte) error {
				for ; last < n-1; last++ {
					b.WriteByte('\n')
				}
				last = n
				if inc, ok := includes(s); ok {
					from, found := c.locate(inc, filepath.Dir(path))
					to, have := done[from]
					if found && !have && depth < maxDepth && len(done) < maxFiles {
						full, err := copyFile(from, depth+1)
						if err != nil {
							return err
						}
						to = filepath.Base(full)
					}
					if found && !have && to != "" {
						fmt.Fprintf(b, ".Include<%s>\n", to)
					} else {
						fmt.Fprintf(b, "# not there, or there already: %s\n", s)
					}
					return nil
				}
				b.Write(s)
				return b.WriteByte('\n')
			})
			return errors.Join(err, b.Flush())
		})
		c.origin[to] = path
		return to, err
	}
	return copyFile(path, 0)
}

// cutNote cuts a comment off a line of a list.
func cutNote(s []byte) []byte {
	if s[0] == '#' {
		return nil
	}
	if i := bytes.Index(s, []byte(" #")); i >= 0 {
		s = s[:i]
	} else if i := bytes.Index(s, []byte("\t#")); i >= 0 {
		s = s[:i]
	}
	return bytes.TrimSpace(s)
}

// items reads a short list: extensions, types, search words. The text of each
// place is the entry.
func (c *guard) items(r ref) (all []place) {
	seen, more := map[string]bool{}, 0
	_, err := c.walk(r.path, func(p place, s []byte) {
		if s = cutNote(s); len(s) == 0 {
			return
		}
		text := string(s)
		if seen[text] {
			c.rep.Duplicates++
			c.rep.add(&Note{Kind: Line, place: p, What: fmt.Sprintf("%q is there already", text)})
			return
		}
		seen[text] = true
		if len(all) == maxFile>>10 {
			more++
			return
		}
		p.what = text
		all = append(all, p)
	})
	if more > 0 && err == nil {
		err = fmt.Errorf("%d entries behind the first %d are left out: divide the list", more, len(all))
	}
	unread(c.work, r.path, err)
	return all
}

// unread reports a file that is there and could not be read to its end.
func unread(w *work, path string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.rep.add(&Note{Kind: Lost, place: place{file: path}, What: filepath.Base(path), Why: err.Error()})
	}
}

// networks reads an address list of a configuration: an address, a network, an
// address with a mask, or a range.
func networks(s string) (all []string, ok bool) {
	s = strings.TrimSpace(s)
	if from, to, isRange := strings.Cut(s, "-"); isRange {
		to, mask, masked := strings.Cut(strings.TrimSpace(to), "/")
		a, err1 := netip.ParseAddr(strings.TrimSpace(from))
		b, err2 := netip.ParseAddr(to)
		if masked && err1 == nil && err2 == nil { // a range of networks
			first, ok := networks(a.String() + "/" + mask)
			last, _ := networks(to + "/" + mask)
			if !ok || len(last) == 0 {
				return nil, false
			}
			a, b = netip.MustParsePrefix(first[0]).Addr(), lastOf(netip.MustParsePrefix(last[0]))
		}
		if err1 != nil || err2 != nil || a.BitLen() != b.BitLen() || b.Less(a) {
			return nil, false
		}
		for len(all) < 256 {
			bits := a.BitLen()
			for bits > 0 {
				p := netip.PrefixFrom(a, bits-1)
				if p.Masked().Addr() != a || b.Less(lastOf(p)) {
					break
				}
				bits--
			}
			p := netip.PrefixFrom(a, bits)
			all = append(all, p.String())
			last := lastOf(p)
			if last == b || !last.Next().IsValid() {
				break
			}
			a = last.Next()
		}
		return all, true
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return []string{a.Unmap().WithZone("").String()}, true
	}
	if base, mask, hasMask := strings.Cut(s, "/"); hasMask {
		m, err := netip.ParseAddr(mask)
		if err == nil && m.Is4() {
			v := m.As4()
			n := uint32(v[0])<<24 | uint32(v[1])<<16 | uint32(v[2])<<8 | uint32(v[3])
			bits := 0
			for ; n&(1<<31) != 0; n <<= 1 {
				bits++
			}
			if n != 0 {
				return nil, false
			}
			s = fmt.Sprintf("%s/%d", base, bits)
		}
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, false
	}
	return []string{p.Masked().String()}, true
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
