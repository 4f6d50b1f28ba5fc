package e2guardian

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
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
func (c *folder) locate(path, from string) (string, bool) {
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
	if input.IsFile(path) && strings.HasPrefix(path, c.dir+"/") {
		return path, true
	}
	for rest := path[1:]; ; {
		if p := filepath.Join(c.dir, rest); input.IsFile(p) {
			return p, true
		}
		_, after, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		rest = after
	}
	return path, input.IsFile(path)
}

// walk calls line with every trimmed line of a list and its includes, and reports
// includes that fail.
func (c *folder) walk(list string, line func(p report.Place, s []byte)) (*tree, error) {
	t := &tree{}
	root := listRoot(list)
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
		return input.EachLine(path, f, func(n int, s []byte) error {
			at := report.Place{File: path, Line: n}
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
				t.mend, c.short[list] = true, true
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: string(s), Why: "the file is not there, so nothing is included"})
				return nil
			case seen[to]:
				return nil
			case depth >= input.MaxDepth || len(t.files) >= input.MaxFiles:
				t.mend, c.short[list] = true, true
				c.w.Report.Add(&report.Note{Kind: report.Line, Place: at, What: string(s), Why: "too many includes; this one is left out"})
				return nil
			}
			if to != filepath.Clean(name) || !strings.HasPrefix(real, root+"/") {
				t.mend = true
			}
			return visit(to, depth+1)
		})
	}
	return t, visit(list, 0)
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

// copyTree copies a list and its includes below our folder, line by line, so that line numbers
// stay the same. Includes get new paths; missing ones become comments.
func (c *folder) copyTree(name, path string) (string, error) {
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
		to, err := c.w.Create(filepath.Join(name, base), func(w io.Writer) error {
			b := bufio.NewWriter(w)
			last := 0
			err := input.EachLine(path, src, func(n int, s []byte) error {
				for ; last < n-1; last++ {
					b.WriteByte('\n')
				}
				last = n
				if inc, ok := includes(s); ok {
					from, found := c.locate(inc, filepath.Dir(path))
					to, have := done[from]
					if found && !have && depth < input.MaxDepth && len(done) < input.MaxFiles {
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
		c.w.Origin[to] = path
		return to, err
	}
	return copyFile(path, 0)
}

// items reads a short list: extensions, types, search words. The text of each
// place is the entry.
func (c *folder) items(r ref) (all []report.Place) {
	seen, more := map[string]bool{}, 0
	_, err := c.walk(r.path, func(p report.Place, s []byte) {
		if s = input.CutNote(s); len(s) == 0 {
			return
		}
		text := string(s)
		if seen[text] {
			c.w.Report.Duplicates++
			c.w.Report.Add(&report.Note{Kind: report.Line, Place: p, What: fmt.Sprintf("%q is there already", text)})
			return
		}
		seen[text] = true
		if len(all) == input.MaxFile>>10 {
			more++
			return
		}
		p.Text = text
		all = append(all, p)
	})
	if c.short[r.path] = c.short[r.path] || more > 0 || err != nil; more > 0 && err == nil {
		err = fmt.Errorf("%d entries behind the first %d are left out: divide the list", more, len(all))
	}
	build.Unread(c.w, r.path, err)
	return all
}
