package message

import "bytes"

// Relax makes r accept responses that RFC 9112 calls invalid but whose meaning is clear:
// Content-Length repeated with one value (RFC 9110 section 8.6), or beside Transfer-Encoding, which
// overrides it and ends the connection (RFC 9112 section 6.3), the transfer coding "identity",
// chunks in HTTP/1.0, folded field lines (RFC 9112 section 5.2), control bytes in values, which
// become spaces (RFC 9110 section 5.5), and the version "ICY" of radio streams. The message then
// holds the valid form. Requests are never relaxed, because another server might read them
// differently.
//
// Lines of a response's head that end with only LF are always accepted (RFC 9112 section 2.2):
// every client reads them alike.
func (r *Reader) Relax(on bool) { r.relaxed = on }

// icyVersion is the version in the status line of SHOUTcast.
const icyVersion = "ICY"

// isICY reports whether a response begins with icyVersion.
func (r *Reader) isICY() (bool, error) {
	b, err := r.Peek(1)
	if err != nil || b[0] != icyVersion[0] {
		return false, err
	}
	return true, r.startsWith(icyVersion + " ")
}

// relaxedHead is head for a response; raw may have some of its lines. It appends lines to raw as
// they arrive, each ended with CRLF and folded ones joined, which it reports in folded; if that is
// nil, they are refused.
func (r *Reader) relaxedHead(raw []byte, folded *bool) ([]byte, error) {
	line, lines := bytes.LastIndexByte(raw, '\n')+1, bytes.Count(raw, []byte("\n")) // where the current line begins in raw, and those before
	for {
		win := r.buf[r.a:r.b]
		n := bytes.IndexByte(win, '\n') + 1
		ended := n > 0
		if !ended {
			n = len(win)
		}
		if len(raw)+n+1 > r.maxHead {
			return raw, tooLarge(raw, win)
		}
		raw = append(raw, win[:n]...)
		r.a += n
		if !ended {
			if err := r.fill(); err != nil {
				r.err = withinMessage(err)
				return raw, r.err
			}
			continue
		}
		text := bytes.TrimSuffix(raw[line:len(raw)-1], []byte("\r"))
		switch {
		case len(text) == 0:
			if lines < 1 {
				return raw, bad("malformed status line")
			}
			return append(raw[:line], "\r\n"...), nil
		case text[0] != ' ' && text[0] != '\t':
			raw = append(raw[:line+len(text)], "\r\n"...)
		case lines < 2 || folded == nil:
			return raw, bad("folded field line")
		default: // it continues the previous line
			*folded = true
			raw = append(append(raw[:line-2], ' '), trim(text)...)
			raw = append(raw, "\r\n"...)
		}
		line, lines = len(raw), lines+1
	}
}

// relax makes f valid where its meaning is clear, and returns the fields. It reports whether the
// connection has to end.
func (f *framing) relax(fs Fields) (out Fields, ends bool) {
	if f.codings == 1 && EqualName(f.coding, "identity") {
		fs.Del("Transfer-Encoding")
		f.codings = 0
	}
	if f.codings > 0 && f.lengths > 0 {
		fs.Del("Content-Length")
		f.lengths, ends = 0, true
	}
	return f.joinLengths(fs), ends
}

// spaces makes spaces of the control bytes in the values of a head. In a name they are refused: it
// would become another one.
func spaces(head []byte) {
	for i := bytes.IndexByte(head, '\n') + 1; i < len(head); {
		end := i + bytes.IndexByte(head[i:], '\n')
		value := head[i : end-1] // head ends each line with CRLF
		i = end + 1
		_, value, _ = bytes.Cut(value, []byte(":"))
		for n := control(value); n < len(value); n += control(value[n:]) {
			if value[n] != '\t' {
				value[n] = ' '
			}
			n++
		}
	}
}

// joinLengths merges several Content-Length fields, and several values in one, if they are
// equal.
func (f *framing) joinLengths(fs Fields) Fields {
	if f.lengths == 0 {
		return fs
	}
	var value []byte
	for i := range fs {
		if !EqualName(fs[i].Name, "Content-Length") {
			continue
		}
		for part := range bytes.SplitSeq(fs[i].Value, []byte(",")) {
			if part = trim(part); value == nil {
				value = part
			}
			if !bytes.Equal(part, value) {
				return fs // it is unknown which one is right
			}
		}
	}
	f.length, f.lengths = value, 1
	out, seen := fs[:0], false
	for _, field := range fs {
		if EqualName(field.Name, "Content-Length") {
			if seen {
				continue
			}
			seen, field.Value = true, value
		}
		out = append(out, field)
	}
	return out
}
