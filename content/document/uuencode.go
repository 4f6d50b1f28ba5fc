package document

import (
	"bytes"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
)

// This file handles files in the text of a mail: uuencode (POSIX.1-2017) and its variant with
// Base64.

// longestUU is the longest line of an encoded file.
const longestUU = 256

// A uuReader decodes files in a text that arrives in pieces. The text around them is read as
// text.
type uuReader struct {
	line   []byte // the part that has arrived
	long   bool   // it is longer than any line of a file
	in     bool   // in a file
	base64 bool
	file   Part // nil if it is not read
}

// write reads the next part of the text.
func (u *uuReader) write(s *Source, p []byte) {
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n')
		whole := n >= 0
		if !whole {
			n = len(p)
		}
		if room := longestUU - len(u.line); n > room {
			u.long = true
			u.line = append(u.line, p[:room]...)
		} else {
			u.line = append(u.line, p[:n]...)
		}
		if !whole {
			return
		}
		p = p[n+1:]
		if !u.long {
			u.take(s, bytes.TrimRight(u.line, "\r"))
		}
		u.line, u.long = u.line[:0], false
	}
}

// take reads a complete line.
func (u *uuReader) take(s *Source, line []byte) {
	switch {
	case !u.in:
		u.begin(s, line)
	case string(line) == "end" || u.base64 && string(line) == "====":
		u.close(s)
	case u.file != nil && u.base64:
		u.file.Write(coding.Unbase64(line))
	case u.file != nil:
		u.file.Write(coding.UULine(line))
	}
}

// begin reads the first line of a file: begin, its mode, its name.
func (u *uuReader) begin(s *Source, line []byte) {
	rest, ok := bytes.CutPrefix(line, []byte("begin "))
	if !ok {
		if rest, ok = bytes.CutPrefix(line, []byte("begin-base64 ")); !ok {
			return
		}
	}
	mode, name, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(mode) < 3 || len(mode) > 4 || len(bytes.Trim(mode, "01234567")) > 0 {
		return
	}
	u.in, u.base64 = true, line[5] == '-'
	u.file = s.open(memberHead(string(name)))
}

// close ends the file.
func (u *uuReader) close(s *Source) {
	if u.file != nil {
		if why := u.file.Close(); why != limit.AllRead && why != limit.UnsupportedType {
			s.Outer.Stop(why)
		}
		s.Out.Blank()
	}
	u.in, u.file = false, nil
}

// finish ends the text.
func (u *uuReader) finish(s *Source) {
	if len(u.line) > 0 && !u.long {
		u.take(s, bytes.TrimRight(u.line, "\r"))
	}
	u.line, u.long = u.line[:0], false
	u.close(s)
}
