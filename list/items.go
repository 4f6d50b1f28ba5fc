package list

import (
	"bytes"
	"fmt"
	"os"

	"shuultuur/list/files"
)

// readItems reads an e2guardian list and all it includes.
func (b *builder) readItems() error {
	x, err := files.Includes(b.path, b.cfg.Fetched)
	if err != nil {
		return err
	}
	for _, f := range x.Files {
		if err := b.includedFile(f, b.cfg.Format); err != nil {
			return err
		}
	}
	for _, p := range x.Problems {
		if p.Kept {
			b.report.Problems = append(b.report.Problems, p)
			continue
		}
		b.leftOut(p)
	}
	return nil
}

func (b *builder) includedFile(f files.Included, format FormatName) error {
	file, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := files.Unpack(file)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", f.Path, err)
	}
	category := b.cfg.Category
	if category == "" && f.Category != "" {
		if category = f.Category; !b.admit(category) {
			b.leftOut(Problem{File: f.Path, Reason: fmt.Sprintf("has the category %q, which this list may not name; left out", category)})
			return nil
		}
	}
	if category == "" {
		category = b.name
	}
	b.when = f.When
	defer func() { b.when = nil }()
	if err := b.file(r, f.Path, format, category); err != nil {
		return fmt.Errorf("reading %s: %w", f.Path, err)
	}
	return nil
}

// An include is a line that names another list.
type include struct {
	name  string
	at    Problem
	depth int
}

// follow reads the files that a list of an ad blocker names, as far as they are in its folder. That they
// come last makes no difference.
func (b *builder) follow() error {
	x, err := files.Alone(b.path)
	if err != nil {
		return err
	}
	for ; len(b.includes) > 0; b.includes = b.includes[1:] {
		next := b.includes[0]
		path, why := x.Locate(next.name, next.at.File, next.depth)
		if why != "" {
			next.at.Reason = files.Quote(next.name) + " " + why
			b.leftOut(next.at)
			continue
		}
		b.depth = next.depth
		if err := b.includedFile(files.Included{Path: path}, Adblock); err != nil {
			return err
		}
	}
	b.report.Looked = x.Looked()
	return nil
}

// notIncluded is the reason to refuse a line that names a file, in a format of which lists are one
// file.
const notIncluded = "names a file, which is not included: a list names no files of this machine"

// itemLine reads a site or URL of e2guardian, or a network. Lines about the list itself were
// handled before.
func (p *parser) itemLine(s []byte) {
	if bytes.HasPrefix(s, []byte(".Include<")) {
		if p.b.cfg.Format == Auto {
			p.refuse(s, "is not included: name the format of the list, e2guardian")
		}
		return
	}
	if s = files.CutComment(s); len(s) == 0 {
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

// hasDirective reports whether a line is one about the list itself.
func hasDirective(s []byte) bool {
	return bytes.HasPrefix(s, []byte("#listcategory:")) || bytes.HasPrefix(s, []byte(".Include<"))
}
