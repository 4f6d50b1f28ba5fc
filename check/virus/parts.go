//go:build !small

package virus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"shuultuur/content"
)

// Limits of forms.
const (
	maxFiles  = 100     // of one body
	maxFields = 8 << 10 // bytes of the fields of a part, of which the rest counts as its content
)

// files scans each file in a form by itself: signatures that know a file by its
// hash or its first bytes do not match the form around it, nor do lists of hashes.
// A file with a transfer coding is scanned as it came and decoded, as some servers
// undo the coding and others do not.
// It reads a multipart body (RFC 2046, 5.1) that comes in pieces.
type files struct {
	c      *Check
	ctx    context.Context
	limit  []byte // "\n--boundary"; the CR before it is no part of the file either
	buf    []byte // what may begin a boundary, or the fields so far
	inside place
	file   *stream // nil between files
	plain  *stream // the file decoded, nil where it has no transfer coding
	coding content.Transfer
	begun  bool // the line end of the empty line before the part is yet to be dropped
	n      int

	name string // what was found first
	err  error  // what failed first
}

// A place is one in a multipart.
type place uint8

const (
	before place = iota // the first boundary, or in a part that is no file
	line                // of the boundary: its rest
	fields
	within // a file
)

// newFiles returns what scans the files in a body, nil where it holds none.
func (c *Check) newFiles(ctx context.Context, b *content.Body) *files {
	h := b.Head()
	if h.Boundary() == "" || !strings.HasPrefix(h.Type(), "multipart/") {
		return nil
	}
	return &files{c: c, ctx: ctx, limit: []byte("\n--" + h.Boundary()), buf: []byte("\r\n")} // the first boundary may begin the body
}

// write takes the next bytes of the body.
func (f *files) write(p []byte) {
	f.buf = append(f.buf, p...)
	for f.step() {
	}
}

// step reads one thing, and says whether there may be more to read.
func (f *files) step() bool {
	switch f.inside {
	case line, fields:
		return f.head()
	}
	at, keep := f.boundary()
	if at < 0 {
		f.take(f.buf[:keep])
		f.skipRest(keep)
		return false
	}
	f.take(bytes.TrimSuffix(f.buf[:at], []byte("\r")))
	f.endFile()
	f.begun = false
	f.skipRest(at + len(f.limit))
	f.inside = line
	return true
}

// boundary returns where the next boundary is, -1 for nowhere so far: what comes
// before keep is not part of one then. A boundary ends its line, but for blanks
// and the dashes of the last one: else it would be the beginning of another text.
func (f *files) boundary() (at, keep int) {
	for from := 0; ; from = at + 1 {
		at = bytes.Index(f.buf[from:], f.limit)
		if at < 0 {
			return -1, max(from, len(f.buf)-len(f.limit)-1)
		}
		at += from
		end := at + len(f.limit)
		if end == len(f.buf) {
			return -1, max(0, at-1)
		}
		if strings.IndexByte(" \t\r\n-", f.buf[end]) >= 0 {
			return at, 0
		}
	}
}

// head reads the rest of a boundary's line, or the fields of a part.
func (f *files) head() bool {
	if f.inside == line {
		end := bytes.IndexByte(f.buf, '\n')
		if end < 0 && len(f.buf) <= maxFields {
			return false
		}
		f.skipRest(end) // with the end of the line: there may be no fields
		f.inside = fields
		return true
	}
	end, gap := fieldsEnd(f.buf)
	if end < 0 {
		if len(f.buf) <= maxFields {
			return false
		}
		end = maxFields
	}
	head := bytes.ToLower(f.buf[:end])
	f.coding.Reset(transferOf(head))
	f.inside = before
	if bytes.Contains(head, []byte("filename")) || bytes.Contains(head, []byte("\ncontent-type")) {
		f.beginFile()
	}
	if f.begun = gap > 0; f.begun {
		gap--
	}
	f.skipRest(end + gap)
	return true
}

// transferOf returns the value of Content-Transfer-Encoding in fields in lower case.
func transferOf(fields []byte) []byte {
	fields = bytes.ReplaceAll(fields, []byte("\r"), nil)
	for _, blank := range []string{"\n ", "\n\t"} { // a field may go on in the next line
		fields = bytes.ReplaceAll(fields, []byte(blank), []byte(" "))
	}
	for line := range bytes.Lines(fields) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "content-transfer-encoding" {
			return value
		}
	}
	return nil
}

// fieldsEnd returns where fields end, and how long the empty line behind them is,
// whose end may begin a boundary.
func fieldsEnd(b []byte) (end, gap int) {
	for i := range b {
		if b[i] != '\n' {
			continue
		}
		switch {
		case bytes.HasPrefix(b[i+1:], []byte("\n")):
			return i + 1, 1
		case bytes.HasPrefix(b[i+1:], []byte("\r\n")):
			return i + 1, 2
		}
	}
	return -1, 0
}

// skipRest drops the first n bytes of what has come.
func (f *files) skipRest(n int) {
	f.buf = f.buf[:copy(f.buf, f.buf[max(0, n):])]
}

func (f *files) beginFile() {
	if f.n++; f.n > maxFiles {
		f.fail(&unreadError{fmt.Errorf("more than %d files in a form", maxFiles)})
		return
	}
	f.inside, f.file = within, f.c.open(f.ctx, false)
	if f.coding.Coded() {
		f.plain = f.c.open(f.ctx, false)
	}
}

func (f *files) take(p []byte) {
	if f.begun && len(p) > 0 {
		f.begun, p = false, p[1:]
	}
	if f.file == nil || len(p) == 0 {
		return
	}
	f.file.Take(p)
	if f.plain != nil {
		f.plain.Take(f.coding.Next(p))
	}
}

// endFile has the file scanned that has ended.
func (f *files) endFile() {
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

// end is the end of the body: what has no boundary behind it is a file, too.
func (f *files) end() (name string, err error) {
	f.take(bytes.TrimSuffix(bytes.TrimSuffix(f.buf, f.limit), []byte("\r")))
	f.buf = nil
	f.endFile()
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
