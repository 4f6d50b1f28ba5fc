package markup

import (
	"bytes"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"shuultuur/content/media"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// metaLen is the number of bytes in which a meta element or a style sheet declares a charset.
const metaLen = 1024

// CharsetOf determines the encoding of a text in the order of the standard: byte order mark,
// Content-Type, then the beginning of the text itself. It returns nil if none of them names
// one. more means that a longer text might.
func CharsetOf(head []byte, named []byte, how media.Format) (e encoding.Encoding, more bool) {
	if e, _ = charset.Mark(head); e != nil {
		return e, false
	}
	if len(named) > 0 {
		if e := charset.Lookup(named); e != nil {
			return e, false
		}
	}
	if e := wideJSON(head, how); e != nil {
		return e, false
	}
	if how != media.HTML && how != media.XML {
		return nil, false
	}
	if e := xmlUTF16(head); e != nil {
		return e, false
	}
	label := xmlCharset(head)
	if label == nil && how == media.HTML {
		label, more = metaCharset(head)
	}
	if label == nil {
		return nil, more
	}
	e = charset.Lookup(label)
	switch {
	case charset.IsUTF16(e):
		e = unicode.UTF8
	case e == charset.XUserDefined:
		e = charset.Windows1252
	}
	return e, false
}

// xmlUTF16 returns the encoding of a document that begins with an XML declaration in UTF-16
// (XML 1.0 appendix F).
func xmlUTF16(p []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(p, []byte("<\x00?\x00")):
		return charset.UTF16LE
	case bytes.HasPrefix(p, []byte("\x00<\x00?")):
		return charset.UTF16BE
	}
	return nil
}

// wideJSON returns the encoding of JSON in UTF-16, whose first two characters are ASCII (RFC
// 4627 section 3).
func wideJSON(p []byte, how media.Format) encoding.Encoding {
	switch {
	case how != media.JSON || len(p) < 4:
	case p[0] != 0 && p[1] == 0 && p[2] != 0 && p[3] == 0:
		return charset.UTF16LE
	case p[0] == 0 && p[1] != 0 && p[2] == 0 && p[3] != 0:
		return charset.UTF16BE
	}
	return nil
}

// label returns the charset name, which may be quoted, at the beginning of v.
func label(v []byte) []byte {
	v = bytes.TrimLeft(v, " \t\n\f\r")
	if len(v) > 0 && (v[0] == '"' || v[0] == '\'') {
		end := bytes.IndexByte(v[1:], v[0])
		if end < 0 {
			return nil
		}
		return v[1 : 1+end]
	}
	end := bytes.IndexAny(v, "; \t\n\f\r")
	if end < 0 {
		end = len(v)
	}
	return v[:end]
}

// SheetCharset returns the encoding that a style sheet declares (CSS Syntax section 3.2), nil
// for none.
func SheetCharset(p []byte) encoding.Encoding {
	name, ok := bytes.CutPrefix(p[:min(len(p), metaLen)], []byte(`@charset "`))
	end := bytes.Index(name, []byte(`";`))
	if !ok || end < 0 {
		return nil
	}
	e := charset.Lookup(name[:end])
	if charset.IsUTF16(e) {
		e = unicode.UTF8
	}
	return e
}

// xmlCharset returns the encoding that an XML declaration declares (HTML standard, "XML
// encoding declaration").
func xmlCharset(p []byte) []byte {
	if !bytes.HasPrefix(p, []byte("<?xml")) {
		return nil
	}
	end := bytes.IndexByte(p, '>')
	if at := bytes.Index(p[:max(end, 0)], []byte("encoding")); at >= 0 {
		v := bytes.TrimLeft(p[at+len("encoding"):end], " \t\n\f\r")
		if len(v) > 0 && v[0] == '=' {
			return label(v[1:])
		}
	}
	return nil
}

// metaCharset searches the first 1024 bytes of a page, or its whole head if that is longer,
// for a meta element that declares a charset. more means that p ends within the head. Chromium
// does the same; the HTML standard (section 13.2.3.2) also searches in scripts, and stops at
// 1024 bytes.
func metaCharset(p []byte) (found []byte, more bool) {
	all, over := len(p), false
	for {
		i := bytes.IndexByte(p, '<')
		if i < 0 || i+1 >= len(p) {
			return nil, !over
		}
		if over && all-len(p)+i >= metaLen {
			return nil, false
		}
		p = p[i+1:]
		switch end := p[0] == '/'; {
		case bytes.HasPrefix(p, []byte("!--")):
			k := bytes.Index(p[1:], []byte("-->"))
			if k < 0 {
				return nil, !over
			}
			p = p[1+k+3:]
		case ascii.IsLetter(p[0]) || end && len(p) > 1 && ascii.IsLetter(p[1]):
			if end {
				p = p[1:]
			}
			n := 1
			for n < len(p) && nameByte[p[n]] != 0 {
				n++
			}
			name := p[:n]
			found, p = metaLabel(p[n:])
			if p == nil {
				return nil, !over
			}
			if found != nil && !end && ascii.EqualLower(name, "meta") && charset.Lookup(found) != nil {
				return found, false
			}
			part := headPart(name)
			over = over || part == notHead || end && part != headRaw && ascii.EqualLower(name, "head")
			if part == headRaw && !end {
				if p = afterEnd(p, name); p == nil {
					return nil, !over
				}
			}
		case p[0] == '!' || end || p[0] == '?':
			k := bytes.IndexByte(p, '>')
			if k < 0 {
				return nil, !over
			}
			p = p[k:]
		}
	}
}

// Kinds of elements in the search for a charset.
type headKind uint8

const (
	notHead headKind = iota
	headOnly
	headRaw // its content is not markup
)

func headPart(name []byte) headKind {
	for _, s := range [...]string{"script", "style", "title"} {
		if ascii.EqualLower(name, s) {
			return headRaw
		}
	}
	for _, s := range [...]string{"html", "head", "meta", "link", "base", "object", "noscript"} {
		if ascii.EqualLower(name, s) {
			return headOnly
		}
	}
	return notHead
}

// afterEnd returns the part of p after the beginning of the end tag called name.
func afterEnd(p, name []byte) []byte {
	for {
		i := bytes.IndexByte(p, '<')
		if i < 0 || i+2+len(name) >= len(p) {
			return nil
		}
		p = p[i+1:]
		if p[0] == '/' && bytes.EqualFold(p[1:1+len(name)], name) && nameByte[p[1+len(name)]] == 0 {
			return p[1+len(name):]
		}
	}
}

// metaLabel reads the attributes of an element, and returns the charset that a meta element
// declares. rest is nil if p ends within them.
func metaLabel(p []byte) (found, rest []byte) {
	pragma, needPragma := false, false
	for {
		var name, value []byte
		if name, value, p = headAttribute(p); name == nil {
			break
		}
		switch {
		case ascii.EqualLower(name, "http-equiv"):
			pragma = pragma || ascii.EqualLower(value, "content-type")
		case ascii.EqualLower(name, "charset"):
			found, needPragma = unescape(value), false
		case ascii.EqualLower(name, "content") && found == nil:
			if found = charsetWithin(unescape(value)); found != nil {
				needPragma = true
			}
		}
	}
	if len(p) == 0 {
		return nil, nil
	}
	if needPragma && !pragma {
		found = nil
	}
	return found, p
}

// charsetWithin returns the x in charset=x in the content of a meta element.
func charsetWithin(v []byte) []byte {
	for i := 0; i+7 < len(v); i++ {
		if !ascii.EqualLower(v[i:i+7], "charset") {
			continue
		}
		rest := bytes.TrimLeft(v[i+7:], " \t\n\f\r")
		if len(rest) > 0 && rest[0] == '=' {
			return label(rest[1:])
		}
	}
	return nil
}

// headAttribute reads one attribute; name is nil at the end of the tag.
func headAttribute(p []byte) (name, value, rest []byte) {
	for len(p) > 0 && (ascii.IsSpace(p[0]) || p[0] == '/') {
		p = p[1:]
	}
	if len(p) == 0 || p[0] == '>' {
		return nil, nil, p
	}
	i := 1
	for i < len(p) && attrByte[p[i]] != 0 {
		i++
	}
	name, p = p[:i], bytes.TrimLeft(p[i:], " \t\n\f\r")
	if len(p) == 0 || p[0] != '=' {
		return name, nil, p
	}
	p = bytes.TrimLeft(p[1:], " \t\n\f\r")
	if len(p) > 0 && (p[0] == '"' || p[0] == '\'') {
		end := bytes.IndexByte(p[1:], p[0])
		if end < 0 {
			return nil, nil, nil
		}
		return name, p[1 : 1+end], p[end+2:]
	}
	i = 0
	for i < len(p) && p[i] != '>' && !ascii.IsSpace(p[i]) {
		i++
	}
	return name, p[:i], p[i:]
}
