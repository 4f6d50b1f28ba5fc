package content

import (
	"bytes"
	"encoding/base64"
	"html"
	"unicode/utf8"

	"shuultuur/content/language"
)

// This file handles text that a page shows although it is not text of the page itself:
// documents in attributes (srcdoc, data: URLs) and in elements that only some clients show
// (noscript), strings of style sheets, data for scripts, and XML without a style sheet as
// browsers show it.

// mostNested is the depth up to which nested documents are read.
const mostNested = 4

// A nestedState is the state of a page for nested documents and texts.
type nestedState struct {
	level   int    // documents around this one
	scripts bool   // strings of scripts count as text
	note    []byte // raw bytes, UTF-8, that are read once they are complete
	noted   bool   // bytes are being added to note
	lost    bool   // some exceeded a limit
	how     rawKind
	css     quotes
	attrs   bool // a style sheet shows attributes by name

	lang   language.Tag // in the first attribute lang
	office bool         // part of an office document, in which paragraphs separate words
	tree   bool         // XML is shown as source

	space     bool   // the current attribute declares a default namespace
	transform bool   // the tree contains elements of XSLT
	literal   []byte // text that such an element adds
	strange   bool   // a default namespace unknown to browsers was declared
	sheet     []byte // of a style sheet or script in XML, in which references are decoded

	word   [longestWord]byte // word of the text that is interrupted by an element which shows nothing there
	nWord  int
	hidden string // name of that element
	turns  int    // open elements that turn their text, or are inside one

	sheets styles
	adding int             // steps of work for added texts
	opened []styledElement // open elements with a style, at most mostOpen
	chain  chain
}

// A rawKind is the kind of content of a raw text element.
type rawKind uint8

const (
	rawNothing rawKind = iota
	rawMarkup
	rawStyle
	rawScript
)

var (
	htmlUTF8  = Describe("text/html; charset=utf-8", "")
	sheetUTF8 = Describe("text/css; charset=utf-8", "")
)

// startNote starts keeping raw bytes, if they are wanted.
func (x *page) startNote(wanted bool) {
	x.note, x.noted = x.note[:0], wanted
}

func (x *page) takeNote(p []byte) {
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

// unescape decodes the character references in an attribute's value.
func unescape(v []byte) []byte {
	if bytes.IndexByte(v, '&') < 0 {
		return v
	}
	return []byte(html.UnescapeString(string(v)))
}

// nest adds the text of a nested document to aside.
func (x *page) nest(h *Head, p []byte) {
	if lost := nest(&x.aside, h, p, x.level, x.scripts); lost {
		x.lost = true
	}
	x.spill()
}

// nest adds to f the text of a document nested at level, and reports whether some of it was
// not read.
func nest(f *flow, h *Head, p []byte, level int, scripts bool) (lost bool) {
	if level == mostNested || len(p) == 0 {
		return len(p) > 0
	}
	var b Body
	b.Reset(h, Limits{Scripts: scripts})
	b.level = level + 1
	b.Append(bytes.Clone(p)) // nested documents reuse the memory of p
	b.Finish()
	text, _ := b.Text()
	f.flush()
	f.blank()
	f.b = append(f.b, text[1:]...)
	lost = b.Unread() != AllRead
	b.Release()
	return lost
}

// mayCount reports whether a value, or the beginning of one, may have text.
func (k attrKind) mayCount(v []byte) bool {
	switch k {
	case attrURL:
		return mayBegin(v, "data:") || mayBegin(v, "javascript:")
	case attrSet:
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
		if i += k; i >= 4 && equalLower(v[i-4:i], "data") {
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

// url reads the document in a URL. Strings of a script in the URL of a frame may be shown by
// the frame.
func (x *page) url(u []byte) {
	script, ok := afterScheme(u, "javascript:")
	switch {
	case !ok:
		x.dataURL(u)
	case x.tag != nil && (x.tag.name == "iframe" || x.tag.name == "frame"):
		x.aside.blank()
		q := quotes{script: true}
		q.write(&x.aside, appendUnpercented(nil, script))
		x.lost = x.lost || q.lost
		x.aside.flush()
		x.aside.blank()
		x.spill()
	}
}

// declarations reads a style attribute: its effect, and its strings, which browsers show as
// list markers and quotes, and wherever a style sheet refers to its variables.
func (x *page) declarations(p []byte) {
	if bytes.IndexByte(p, '\\') >= 0 {
		p = unescapeCSS(p)
	}
	d := x.sheets.declared(p)
	x.effect |= d.effect &^ addsText
	if len(d.own.before)+len(d.own.after) > 0 {
		x.effect |= addsText
		x.own = d
	}
	x.mayHide()
	if bytes.IndexByte(p, '"') < 0 && bytes.IndexByte(p, '\'') < 0 {
		return
	}
	x.aside.blank()
	q := quotes{level: x.level}
	q.write(&x.aside, p)
	x.aside.flush()
	x.aside.blank()
	x.lost = x.lost || q.lost
	x.spill()
}

// skipAside begins or ends an element that shows nothing at its place. People read a word that
// it interrupts as one word, so the beginning of the word is repeated after the element.
func (x *page) skipAside() {
	switch f := &x.out; {
	case !x.end && x.hidden == "":
		f.flush()
		switch x.nWord = 0; {
		case f.has && f.further[0].at == len(f.b):
			x.nWord = copy(x.word[:], f.further[0].word[:f.further[0].n])
		case !f.joins:
			x.nWord = copy(x.word[:], lastWord(f.b))
		}
		x.hidden = x.tag.name
		f.blank()
	case x.end && x.hidden == x.tag.name:
		f.flush()
		f.blank()
		f.b = append(f.b, x.word[:x.nWord]...)
		x.hidden, x.nWord = "", 0
	case x.end:
		f.parting = f.parts()
	default:
		f.blank()
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
		case lower(c) != scheme[n]:
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
	if len(u) < len(scheme) || !equalLower(u[:len(scheme)], scheme) {
		return nil, false
	}
	return u[len(scheme):], true
}

// dataURL reads the document in u, if u is a data: URL (RFC 2397).
func (x *page) dataURL(u []byte) {
	h, data := dataDocument(u)
	switch {
	case h == nil, h.typ == "text/css" && x.level == mostNested:
		return
	case h.typ == "text/css":
		if p, err := ToUTF8(data, string(x.which[:x.nWhich])); err == nil && h.nCharset == 0 && x.tag != nil && x.tag.name == "link" {
			h, data = sheetUTF8, p
		}
		x.sheets.write(data)
		x.sheets.end()
	}
	x.nest(h, data)
}

// dataDocument returns the readable document in a data: URL, with a nil head if there is none.
func dataDocument(u []byte) (h *Head, data []byte) {
	u, ok := afterScheme(u, "data:")
	if !ok {
		return nil, nil
	}
	typ, data, ok := bytes.Cut(u, []byte(","))
	if !ok {
		return nil, nil
	}
	typ = bytes.Trim(typ, " ")
	if hasFold(typ, "image/") && !hasFold(typ, "image/svg") || hasFold(typ, "font/") {
		return nil, nil // the most frequent types, without text
	}
	const mark = "base64"
	coded := false
	if n := len(typ) - len(mark); n >= 0 && equalLower(typ[n:], mark) {
		if rest := bytes.TrimRight(typ[:n], " "); len(rest) > 0 && rest[len(rest)-1] == ';' {
			typ, coded = rest[:len(rest)-1], true
		}
	}
	h = Describe(string(typ), "")
	if h.typ == "" {
		h = Describe("text/plain"+string(typ), "")
	}
	h.SetUse(Document)
	if !h.Readable() {
		return nil, nil
	}
	if h.typ == "text/css" {
		h.SetUse(Embedded)
	}
	if bytes.IndexByte(data, '%') >= 0 {
		data = appendUnpercented(nil, data)
	}
	if coded {
		data = unbase64(data)
	}
	return h, data
}

// appendUnpercented appends p with escapes such as %41 decoded.
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

// unbase64 decodes p as far as it is valid, ignoring white space.
func unbase64(p []byte) []byte {
	p = bytes.TrimRight(p, "=")
	out := make([]byte, base64.RawStdEncoding.DecodedLen(len(p)))
	if n, err := base64.RawStdEncoding.Decode(out, p); err == nil {
		return out[:n]
	}
	clean := make([]byte, 0, len(p))
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
	n, _ := base64.RawStdEncoding.Decode(out, clean)
	return out[:n]
}

// refresh reads the target of a meta element.
func (x *page) refresh(v []byte) {
	if i := bytes.IndexAny(v, ";,"); i >= 0 {
		v = bytes.TrimLeft(v[i+1:], " \t\n\f\r")
		if len(v) > 3 && equalLower(v[:3], "url") {
			v = bytes.TrimLeft(v[3:], " \t\n\f\r=")
		}
		x.dataURL(bytes.Trim(v, "'\""))
	}
}

// attribute returns the kind of an attribute's value. key is firstEight of its name.
func (x *page) attribute(key uint64, name []byte) attrKind {
	k := attributeOf(x.tag.kind, key, name)
	if len(x.css.attrs) > 0 {
		k = isShownBySheet(x, k, name)
	}
	switch k {
	case attrNone:
		if !x.xml && x.hidden == "" && len(x.slots.open) == 0 {
			return attrNone
		}
	case attrHidden:
		x.effect |= hides
		return attrNone
	case attrClass, attrID:
		if !x.wantsNames() {
			break
		}
		return k
	default:
		return k
	}
	if x.hidden == "datalist" && x.tag.name == "option" && equalLower(name, "value") {
		return attrMore
	}
	if len(x.slots.open) > 0 && !x.end {
		switch {
		case equalLower(name, "slot"):
			return attrAsks
		case x.tag.name == "slot" && equalLower(name, "name"):
			return attrSlotName
		}
	}
	if x.xml {
		return x.treeAttribute(name)
	}
	return attrNone
}

// rawBegin begins the content of an element without markup.
func (x *page) rawBegin(t *tag) {
	x.how = rawNothing
	switch which := x.which[:x.nWhich]; {
	case t.kind == tagRawText:
		x.how = rawMarkup
		x.startNote(true)
	case t.kind == tagStyle:
		x.how = rawStyle
		x.css = quotes{attrs: x.css.attrs, level: x.level}
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

// rawPart reads the next part of the content.
func (x *page) rawPart(p []byte) {
	switch x.how {
	case rawMarkup:
		x.takeNote(p)
	case rawStyle, rawScript:
		if x.foreign() {
			room := max(0, maxNote-len(x.sheet))
			x.lost = x.lost || len(p) > room
			x.sheet = append(x.sheet, p[:min(len(p), room)]...)
			return
		}
		x.css.write(&x.aside, p)
		x.spill()
		if x.how == rawStyle {
			x.sheets.write(p)
		}
	}
}

// rawLessPart adds a < and the letters after it that resembled an end tag.
func (x *scanner) rawLessPart() {
	if x.how != rawNothing {
		x.rawPart([]byte("<"))
		if x.matched > 0 {
			x.rawPart([]byte("/" + x.raw[:x.matched-1]))
		}
	}
}

// rawEnd ends the content.
func (x *page) rawEnd() {
	switch x.how {
	case rawMarkup:
		x.nest(htmlUTF8, x.note)
	case rawStyle, rawScript:
		if len(x.sheet) > 0 {
			sheet := unescape(x.out.entities.expand(x.sheet, 0))
			x.css.write(&x.aside, sheet)
			x.spill()
			if x.how == rawStyle {
				x.sheets.write(sheet)
			}
			x.sheet = x.sheet[:0]
		}
		if x.how == rawStyle {
			x.sheets.end()
			x.lost = x.lost || x.sheets.lost
		}
		x.aside.flush()
		x.aside.blank()
		x.lost = x.lost || x.css.lost
	}
	x.how = rawNothing
}
