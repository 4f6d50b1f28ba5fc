package message

import "bytes"

// Relax makes r accept responses that RFC 9112 calls invalid but whose meaning is clear:
// Content-Length repeated with one value (RFC 9110 section 8.6), lines that end with only LF
// (RFC 9112 section 2.2), folded field lines (RFC 9112 section 5.2). The message then holds
// the valid form. Requests are never relaxed, because another server might read them
// differently.
func (r *Reader) Relax(on bool) { r.relaxed = on }

// relaxedHead is head for a response. It appends lines to raw as they arrive, each ended with
// CRLF and folded ones joined, which it reports in folded.
func (r *Reader) relaxedHead(raw []byte, folded *bool) ([]byte, error) {
	line, lines := 0, 0 // where the current line begins in raw, and those before
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
		case lines < 2:
			return raw, bad("folded field line")
		default: // it continues the previous line
			*folded = true
			raw = append(append(raw[:line-2], ' '), trim(text)...)
			raw = append(raw, "\r\n"...)
		}
		line, lines = len(raw), lines+1
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
