package content

import (
	"bytes"
	"encoding/base64"
	"html"
	"unicode/utf8"

	"shuultuur/content/language"
)

// This file is about text that a page shows without its being text of the page:
// documents in attributes (srcdoc, data: URLs) and in elements that only some
// clients show (noscript), strings of style sheets, data for scripts, and what
// a browser shows of XML that nothing styles.

// mostNested is how deep documents are read within one another.
const mostNested = 4

// A nested is what a scanner needs for these.
type nested struct {
	level   int    // documents around this one
	scripts bool   // strings of scripts are text
	note    []byte // raw bytes, UTF-8, of what is read when it is whole
	noted   bool   // they are wanted
	lost    bool   // some were too many
	how     rawKind
	css     quotes
	attrs   bool // a style sheet shows attributes by name

	lang   language.Tag // that the first attribute lang names
	office bool         // of an office document: paragraphs part words
	tree   bool         // XML is shown as it is written
	quote  byte         // within a document type declaration: what ends a string, or - for a comment
	subset bool
}

// A rawKind says what the content of a raw text element is.
type rawKind uint8

const (
	rawNothing rawKind = iota
	rawMarkup
	rawStyle
	rawScript
)

var htmlUTF8 = Describe("text/html; charset=utf-8", "")

// startNote begins to keep raw bytes, if they are wanted.
func (x *scanner) startNote(wanted bool) {
	x.note, x.noted = x.note[:0], wanted
}

func (x *scanner) takeNote(p []byte) {
	if !x.noted {
		return
	}
	if room := maxNote - len(x.note); len(p) > room {
		x.lost = true
		p = p[:room]
	}
	if x.out.multi {
		x.note = append(x.note, p...)
		return
	}
	for _, c := range p {
		if c < utf8.RuneSelf {
			x.note = append(x.note, c)
		} else {
			x.note = utf8.AppendRune(x.note, x.out.high[c-0x80])
		}
	}
}

// unescape undoes the character references of an attribute's value.
func unescape(v []byte) []byte {
	if bytes.IndexByte(v, '&') < 0 {
		return v
	}
	return []byte(html.UnescapeString(string(v)))
}

// nest sets aside the text of a document within this one.
func (x *scanner) nest(h *Head, p []byte) {
	if x.level == mostNested || len(p) == 0 {
		return
	}
	var b Body
	b.Reset(h, Limits{Scripts: x.scripts})
	b.level = x.level + 1
	b.Append(bytes.Clone(p)) // the note is used again within
	b.Finish()
	text, _ := b.Text()
	x.aside.flush()
	x.aside.blank()
	x.aside.b = append(x.aside.b, text[1:]...)
	x.lost = x.lost || b.Unread() != AllRead
	b.Release()
	x.spill()
}

// mayBeData says whether v begins, or may come to begin, with "data:" as
// browsers read a URL: white space is dropped, and references count.
func mayBeData(v []byte) bool {
	const scheme = "data:"
	n := 0
	for _, c := range v {
		switch {
		case c == '&' || n == len(scheme):
			return true
		case c <= ' ' && (n == 0 || c == '\t' || c == '\n' || c == '\r'):
		case lower(c) != scheme[n]:
			return false
		default:
			n++
		}
	}
	return true
}

// dataURL reads the document that a data: URL holds (RFC 2397), if u is one.
func (x *scanner) dataURL(u []byte) {
	u = bytes.TrimLeft(u, "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f ")
	if bytes.IndexAny(u[:min(len(u), 1<<10)], "\t\n\r") >= 0 || bytes.IndexAny(u, "\t\n\r") >= 0 {
		u = bytes.Map(func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, u)
	}
	if len(u) < 5 || !equalLower(u[:5], "data:") {
		return
	}
	typ, data, ok := bytes.Cut(u[5:], []byte(","))
	if !ok {
		return
	}
	typ = bytes.Trim(typ, " ")
	const mark = "base64"
	coded := false
	if n := len(typ) - len(mark); n >= 0 && equalLower(typ[n:], mark) {
		if rest := bytes.TrimRight(typ[:n], " "); len(rest) > 0 && rest[len(rest)-1] == ';' {
			typ, coded = rest[:len(rest)-1], true
		}
	}
	h := Describe(string(typ), "")
	if h.typ == "" {
		h = Describe("text/plain"+string(typ), "")
	}
	h.SetDocument()
	if !h.Readable() || h.typ == "text/css" && x.level == mostNested {
		return
	}
	if h.typ == "text/css" {
		h.document = false
	}
	data = appendUnpercented(nil, data)
	if coded {
		data = unbase64(data)
	}
	x.nest(h, data)
}

// appendUnpercented appends p with %41 undone.
func appendUnpercented(dst, p []byte) []byte {
	for i := 0; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if a, b := unhex(p[i+1]), unhex(p[i+2]); a >= 0 && b >= 0 {
				dst = append(dst, byte(a<<4|b))
				i += 2
				continue
			}
		}
		dst = append(dst, p[i])
	}
	return dst
}

// unbase64 decodes p as far as it goes, white space left out.
func unbase64(p []byte) []byte {
	clean := p[:0]
	for _, c := range p {
		switch {
		case c == '-':
			c = '+'
		case c == '_':
			c = '/'
		case !isAlnum(c) && c != '+' && c != '/':
			continue
		}
		clean = append(clean, c)
	}
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(clean)))
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}

// refresh reads where a meta element leads to.
func (x *scanner) refresh(v []byte) {
	if i := bytes.IndexAny(v, ";,"); i >= 0 {
		v = bytes.TrimLeft(v[i+1:], " \t\n\f\r")
		if len(v) > 3 && equalLower(v[:3], "url") {
			v = bytes.TrimLeft(v[3:], " \t\n\f\r=")
		}
		x.dataURL(bytes.Trim(v, "'\""))
	}
}

// attribute says what the value of an attribute is wanted for.
func (x *scanner) attribute(name []byte) attrKind {
	k := attribute(x.tag.kind, name)
	if k != attrNone {
		return k
	}
	for _, shown := range x.css.attrs {
		if equalLower(name, shown) {
			return attrMore
		}
	}
	if x.tree {
		return x.treeAttribute(name)
	}
	return attrNone
}

// rawBegin begins the content of an element that is no markup.
func (x *scanner) rawBegin(t *tag) {
	x.how = rawNothing
	switch which := x.which[:x.nWhich]; {
	case t.kind == tagRawText:
		x.how = rawMarkup
		x.startNote(true)
	case t.kind == tagStyle:
		x.how = rawStyle
		x.css = quotes{attrs: x.css.attrs}
	case bytes.Contains(which, []byte("json")), string(which) == "importmap", string(which) == "speculationrules":
		x.how = rawScript
		x.css = quotes{script: true, json: true, attrs: x.css.attrs}
	case x.scripts:
		x.how = rawScript
		x.css = quotes{script: true, attrs: x.css.attrs}
	}
	if x.how > rawMarkup {
		x.aside.blank()
	}
}

// rawPart takes the next of it.
func (x *scanner) rawPart(p []byte) {
	switch x.how {
	case rawMarkup:
		x.takeNote(p)
	case rawStyle, rawScript:
		x.css.write(&x.aside, p)
		x.spill()
	}
}

// rawLessPart takes a < and the letters after it that looked like an end tag.
func (x *scanner) rawLessPart() {
	if x.how != rawNothing {
		x.rawPart([]byte("<"))
		if x.matched > 0 {
			x.rawPart([]byte("/" + x.raw[:x.matched-1]))
		}
	}
}

// rawEnd ends it.
func (x *scanner) rawEnd() {
	switch x.how {
	case rawMarkup:
		x.nest(htmlUTF8, x.note)
	case rawStyle, rawScript:
		x.aside.flush()
		x.aside.blank()
	}
	x.how = rawNothing
}
