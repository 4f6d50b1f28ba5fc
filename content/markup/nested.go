package markup

import (
	"bytes"

	"shuultuur/content/coding"
	"shuultuur/content/element"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// This file handles text that a page shows although it is not text of the page itself:
// documents in attributes (srcdoc, data: URLs) and in elements that only some clients show
// (noscript), strings of style sheets, and data for scripts.

// url reads the document in a URL. Strings of a script in the URL of a frame may be shown by
// the frame.
func (x *page) url(u []byte) {
	script, ok := afterScheme(u, "javascript:")
	switch {
	case !ok:
		x.dataURL(u)
	case x.tag != nil && (x.tag.Name == "iframe" || x.tag.Name == "frame"):
		x.aside.Blank()
		q := quotes{script: true}
		q.write(&x.aside, coding.AppendUnpercented(nil, script))
		x.lost = x.lost || q.lost
		x.aside.Flush()
		x.aside.Blank()
		x.spill()
	}
}

// dataURL reads the document in u, if u is a data: URL (RFC 2397).
func (x *page) dataURL(u []byte) {
	h, data := dataDocument(u)
	switch {
	case h == nil, h.Type() == "text/css" && x.source.Deepest:
		return
	case h.Type() == "text/css":
		if p, err := charset.ToUTF8(data, string(x.which[:x.nWhich])); err == nil && len(h.Charset()) == 0 && x.tag != nil && x.tag.Name == "link" {
			h, data = sheetUTF8, p
		}
		x.sheets.write(data)
		x.sheets.end()
	}
	x.nest(h, data)
}

// refresh reads the target of a meta element.
func (x *page) refresh(v []byte) {
	if i := bytes.IndexAny(v, ";,"); i >= 0 {
		v = bytes.TrimLeft(v[i+1:], " \t\n\f\r")
		if len(v) > 3 && ascii.EqualLower(v[:3], "url") {
			v = bytes.TrimLeft(v[3:], " \t\n\f\r=")
		}
		x.dataURL(bytes.Trim(v, "'\""))
	}
}

// rawBegin begins the content of an element without markup.
func (x *page) rawBegin(t *element.Tag) {
	x.how = rawNothing
	switch which := x.which[:x.nWhich]; {
	case t.Kind == element.RawText:
		x.how = rawMarkup
		x.startNote(true)
	case t.Kind == element.Style:
		x.how = rawStyle
		x.css = quotes{attrs: x.css.attrs, source: x.source}
	case bytes.Contains(which, []byte("json")), string(which) == "importmap", string(which) == "speculationrules":
		x.how = rawScript
		x.css = quotes{script: true, json: true, attrs: x.css.attrs}
	case x.source.Scripts:
		x.how = rawScript
		x.css = quotes{script: true, attrs: x.css.attrs}
	}
	if x.how > rawMarkup {
		x.aside.Blank()
	}
}

// rawPart reads the next part of the content.
func (x *page) rawPart(p []byte) {
	switch x.how {
	case rawMarkup:
		x.takeNote(p)
	case rawStyle, rawScript:
		if x.foreign() && (len(x.sheet) > 0 || bytes.IndexByte(p, '&') >= 0) { // references in it are decoded
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

// rawEnd ends the content.
func (x *page) rawEnd() {
	switch x.how {
	case rawMarkup:
		x.nest(htmlUTF8, x.note)
	case rawStyle, rawScript:
		if len(x.sheet) > 0 {
			sheet := unescape(x.entities.expand(x.sheet, 0))
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
		x.aside.Flush()
		x.aside.Blank()
		x.lost = x.lost || x.css.lost
	}
	x.how = rawNothing
}
