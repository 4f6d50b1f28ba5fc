package content

import "bytes"

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
	file   part
	open   bool
}

// write reads the next part of the text.
func (u *uuReader) write(t *text, p []byte) {
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
			u.take(t, bytes.TrimRight(u.line, "\r"))
		}
		u.line, u.long = u.line[:0], false
	}
}

// take reads a complete line.
func (u *uuReader) take(t *text, line []byte) {
	switch {
	case !u.in:
		u.begin(t, line)
	case string(line) == "end" || u.base64 && string(line) == "====":
		u.close(t)
	case u.open && u.base64:
		u.file.write(unbase64(line))
	case u.open:
		u.file.write(uuLine(line))
	}
}

// begin reads the first line of a file: begin, its mode, its name.
func (u *uuReader) begin(t *text, line []byte) {
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
	u.open = u.file.open(memberHead(string(name)), t)
}

// close ends the file.
func (u *uuReader) close(t *text) {
	if u.open {
		if why := u.file.close(); why != AllRead && why != UnsupportedType {
			t.body.Stop(why)
		}
		t.scanner.out.blank()
	}
	u.in, u.open = false, false
}

// finish ends the text.
func (u *uuReader) finish(t *text) {
	if len(u.line) > 0 && !u.long {
		u.take(t, bytes.TrimRight(u.line, "\r"))
	}
	u.line, u.long = u.line[:0], false
	u.close(t)
}

// uuLine decodes a line: the number of bytes, then four characters for three.
func uuLine(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	n := int(p[0]-' ') & 63
	var out []byte
	for p = p[1:]; len(p) > 0 && len(out) < n; p = p[min(4, len(p)):] {
		var c [4]byte
		for i := range c {
			if i < len(p) {
				c[i] = (p[i] - ' ') & 63
			}
		}
		out = append(out, c[0]<<2|c[1]>>4, c[1]<<4|c[2]>>2, c[2]<<6|c[3])
	}
	return out[:min(n, len(out))]
}
