package markup

import (
	"bytes"
	"html"

	"shuultuur/content/coding"
	"shuultuur/content/data"
	"shuultuur/content/element"
	"shuultuur/content/media"
	"shuultuur/lib/ascii"
)

// mayCount reports whether a value, or the beginning of one, may have text.
func mayCount(k element.AttrKind, v []byte) bool {
	switch k {
	case element.AttrURL:
		return mayBegin(v, "data:") || mayBegin(v, "javascript:")
	case element.AttrSet:
		return mayHoldData(v)
	}
	return true
}

// mayHoldData reports whether a list of URLs may contain a data: URL. The scheme may be
// written with character references.
func mayHoldData(v []byte) bool {
	for i := 0; ; i++ {
		k := bytes.IndexByte(v[i:], ':')
		if k < 0 {
			break
		}
		if i += k; i >= 4 && ascii.EqualLower(v[i-4:i], "data") {
			return true
		}
	}
	for i := 0; ; i++ {
		k := bytes.IndexByte(v[i:], '&')
		if k < 0 {
			return false
		}
		if i += k; !bytes.HasPrefix(v[i:], []byte("&amp;")) {
			return true
		}
	}
}

// mayBegin reports whether v begins with scheme, or is a prefix of such a value, as browsers
// read a URL: they ignore white space and decode references.
func mayBegin(v []byte, scheme string) bool {
	n := 0
	for _, c := range v {
		switch {
		case c == '&' || n == len(scheme):
			return true
		case c <= ' ' && (n == 0 || c == '\t' || c == '\n' || c == '\r'):
		case ascii.Lower(c) != scheme[n]:
			return false
		default:
			n++
		}
	}
	return true
}

// afterScheme returns the rest of u after scheme, if u begins with it. Like browsers, it
// ignores white space.
func afterScheme(u []byte, scheme string) (rest []byte, ok bool) {
	u = bytes.TrimLeft(u, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ")
	if bytes.IndexByte(u, '\n') >= 0 || bytes.IndexByte(u, '\t') >= 0 || bytes.IndexByte(u, '\r') >= 0 {
		u = bytes.Map(func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, u)
	}
	if len(u) < len(scheme) || !ascii.EqualLower(u[:len(scheme)], scheme) {
		return nil, false
	}
	return u[len(scheme):], true
}

// dataDocument returns the readable document in a data: URL, with a nil head if there is none.
func dataDocument(u []byte) (h *media.Head, data []byte) {
	u, ok := afterScheme(u, "data:")
	if !ok {
		return nil, nil
	}
	typ, data, ok := bytes.Cut(u, []byte(","))
	if !ok {
		return nil, nil
	}
	typ = bytes.Trim(typ, " ")
	if ascii.HasPrefixLower(typ, "image/") && !ascii.HasPrefixLower(typ, "image/svg") || ascii.HasPrefixLower(typ, "font/") {
		return nil, nil // the most frequent types, without text
	}
	const mark = "base64"
	coded := false
	if n := len(typ) - len(mark); n >= 0 && ascii.EqualLower(typ[n:], mark) {
		if rest := bytes.TrimRight(typ[:n], " "); len(rest) > 0 && rest[len(rest)-1] == ';' {
			typ, coded = rest[:len(rest)-1], true
		}
	}
	h = media.Describe(string(typ), "")
	if h.Type() == "" {
		h = media.Describe("text/plain"+string(typ), "")
	}
	h.SetUse(media.Document)
	if !h.Readable() {
		return nil, nil
	}
	if h.Type() == "text/css" {
		h.SetUse(media.Embedded)
	}
	if bytes.IndexByte(data, '%') >= 0 {
		data = coding.AppendUnpercented(nil, data)
	}
	if coded {
		data = coding.Unbase64(data)
	}
	return h, data
}

// isPicture reports whether a data: URL, or its beginning, has a type without text.
func isPicture(u []byte) bool {
	u = u[:min(len(u), 256)]
	if _, ok := afterScheme(u, "data:"); !ok || bytes.IndexByte(u, ',') < 0 {
		return false
	}
	h, _ := dataDocument(u)
	return h == nil
}

// HasMarkup reports whether p has tags or character references of HTML.
func HasMarkup(p []byte) bool {
	for i, amp, less := 0, -1, -1; ; i++ { // a search for one byte is much faster than one for either
		k := min(nextIndex(p, &amp, i, '&'), nextIndex(p, &less, i, '<')) - i
		if i+k+2 >= len(p) {
			return false
		}
		i += k
		rest := p[i+1:]
		switch {
		case p[i] == '&' && rest[0] == '#', p[i] == '<' && rest[0] == '/' && ascii.IsLetter(rest[1]), bytes.HasPrefix(rest, []byte("!--")):
			return true
		case p[i] == '&':
			if end := bytes.IndexByte(rest[:min(len(rest), data.LongestPart)], ';'); end > 1 && len(data.LettersAhead(rest)) == end {
				return true
			}
		case p[i] == '<' && (mayBegin(rest, "br") || mayBegin(rest, "img ")):
			return true
		}
	}
}

// nextIndex returns where c is next in p from a position on, len(p) for nowhere. at is its last result.
func nextIndex(p []byte, at *int, from int, c byte) int {
	if *at < from {
		if *at = bytes.IndexByte(p[from:], c); *at < 0 {
			*at = len(p)
		} else {
			*at += from
		}
	}
	return *at
}

// unescape decodes the character references in an attribute's value.
func unescape(v []byte) []byte {
	if bytes.IndexByte(v, '&') < 0 {
		return v
	}
	return []byte(html.UnescapeString(string(v)))
}
