//go:build !small

package virus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"shuultuur/content"
	"shuultuur/content/coding"
	"shuultuur/content/document"
)

const maxFiles = 100 // of one form

// files scans each file in a form separately, because signatures that match a file by its hash
// or its first bytes do not match the form around it, and neither do lists of hashes. A file
// with a transfer coding is scanned both encoded and decoded, because some servers decode it
// and others do not. It implements [document.PartTaker].
type files struct {
	c      *Check
	ctx    context.Context
	who    netip.Addr
	parts  *document.Multipart
	file   *stream // nil between files
	plain  *stream // the decoded file, nil without a transfer coding
	coding coding.Transfer
	n      int

	name string // first virus found
	err  error  // first error
}

// newFiles returns a scanner of the files in a body, nil if it cannot contain files.
func (c *Check) newFiles(ctx context.Context, who netip.Addr, b *content.Body) *files {
	f := &files{c: c, ctx: ctx, who: who}
	if f.parts = document.NewMultipart(b.Head(), f); f.parts == nil {
		return nil
	}
	return f
}

// Begin implements [document.PartTaker].
func (f *files) Begin(fields []byte) {
	fields = bytes.ToLower(fields)
	if !bytes.Contains(fields, []byte("filename")) && !bytes.HasPrefix(fields, []byte("content-type")) && !bytes.Contains(fields, []byte("\ncontent-type")) {
		return
	}
	if f.n++; f.n > maxFiles {
		f.fail(&unreadError{fmt.Errorf("more than %d files in a form", maxFiles)})
		return
	}
	f.coding.Reset(transferOf(fields))
	f.file = f.c.open(f.ctx, f.who, false, true)
	if f.coding.Coded() {
		f.plain = f.c.open(f.ctx, f.who, false, true)
	}
}

// Between implements [document.PartTaker].
func (f *files) Between() {}

// transferOf returns the value of Content-Transfer-Encoding in fields in lower case.
func transferOf(fields []byte) []byte {
	fields = bytes.ReplaceAll(fields, []byte("\r"), nil)
	for _, blank := range []string{"\n ", "\n\t"} { // a field may continue on the next line
		fields = bytes.ReplaceAll(fields, []byte(blank), []byte(" "))
	}
	for line := range bytes.Lines(fields) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "content-transfer-encoding" {
			return value
		}
	}
	return nil
}

// Take implements [document.PartTaker].
func (f *files) Take(p []byte) {
	if f.file != nil {
		f.file.Take(p)
	}
	if f.plain != nil {
		f.plain.Take(f.coding.Next(p))
	}
}

// End implements [document.PartTaker]: it ends the current file and stores its verdict.
func (f *files) End() {
	if f.plain != nil {
		f.plain.Take(f.coding.End())
	}
	for _, s := range []*stream{f.file, f.plain} {
		if s == nil {
			continue
		}
		if s.n > 0 {
			name, err := s.verdict(f.ctx)
			if f.name == "" {
				f.name = name
			}
			f.fail(err)
		}
		s.close()
	}
	f.file, f.plain = nil, nil
}

// end ends the body. A file without a boundary after it is scanned, too.
func (f *files) end() (name string, err error) {
	f.parts.Finish()
	if f.parts.Incomplete() {
		f.fail(&unreadError{errors.New("the form has more parts, or a part more fields, than are read")})
	}
	return f.name, f.err
}

func (f *files) fail(err error) {
	if f.err == nil || errors.As(f.err, new(*unreadError)) && err != nil {
		f.err = err
	}
}

func (f *files) close() {
	for _, s := range []*stream{f.file, f.plain} {
		if s != nil {
			s.close()
		}
	}
	f.file, f.plain = nil, nil
}
