package markup

import (
	"bytes"

	"shuultuur/content/element"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
	"shuultuur/lib/language"
)

// attribute returns the kind of an attribute's value. key is firstEight of its name.
func (x *page) attribute(key uint64, name []byte) element.AttrKind {
	k := element.AttributeOf(x.tag.Kind, key, name)
	if len(x.css.attrs) > 0 {
		k = x.isShownBySheet(k, name)
	}
	switch k {
	case element.AttrNone:
		if !x.xml && x.hidden == "" && len(x.slots.open) == 0 {
			return element.AttrNone
		}
	case element.AttrHidden:
		x.effect |= hides
		return element.AttrNone
	case element.AttrClass, element.AttrID:
		if !x.wantsNames() {
			break
		}
		return k
	default:
		return k
	}
	if x.hidden == "datalist" && x.tag.Name == "option" && ascii.EqualLower(name, "value") {
		return element.AttrMore
	}
	if len(x.slots.open) > 0 && !x.end {
		switch {
		case ascii.EqualLower(name, "slot"):
			return element.AttrAsks
		case x.tag.Name == "slot" && ascii.EqualLower(name, "name"):
			return element.AttrSlotName
		}
	}
	if x.xml {
		return x.treeAttribute(name)
	}
	return element.AttrNone
}

// isShownBySheet records whether a style sheet shows the current attribute, and returns its
// kind in that case.
func (x *page) isShownBySheet(k element.AttrKind, name []byte) element.AttrKind {
	x.showing = 0
	for i, shown := range x.css.attrs {
		if !ascii.EqualLower(name, shown) {
			continue
		}
		if x.showing = i + 1; k == element.AttrNone {
			return element.AttrMore
		}
	}
	return k
}

// wantsNames reports whether class names and ids of an element may match a style sheet.
func (x *page) wantsNames() bool {
	if x.sheets.n == 0 || prose.InWord(&x.out) {
		return prose.InWord(&x.out)
	}
	kinds := x.sheets.kinds & (turns | rightTo | addsText | lays)
	switch x.tag.Kind {
	case element.Block:
		kinds |= x.sheets.kinds & flows
	case element.Inline, element.Turned, element.Unknown:
		kinds |= x.sheets.kinds & hides
	}
	return kinds != 0
}

// styleValue reads a complete value that needs no decoding, and reports whether it did.
func (x *page) styleValue(kind element.AttrKind, v []byte) bool {
	if kind != element.AttrClass && kind != element.AttrID && kind != element.AttrSheet || !x.out.Multi || x.seen&(1<<kind) != 0 || bytes.IndexByte(v, '&') >= 0 {
		return false
	}
	x.seen |= 1 << kind
	switch kind {
	case element.AttrClass:
		x.applyNames('.', v)
	case element.AttrID:
		x.applyNames('#', v)
	default:
		x.declarations(v)
	}
	return true
}

func (x *page) valueBegin(kind element.AttrKind) {
	if kind != element.AttrMore && kind != element.AttrURL && x.seen&(1<<kind) != 0 {
		kind = element.AttrNone // of equal names the first applies
	}
	x.seen |= 1 << kind &^ 1
	x.kind = kind
	switch {
	case kind.IsText():
		x.aside.Blank()
		x.valueAt = len(x.aside.B)
		if kind == element.AttrMaybe {
			x.maybe = len(x.aside.B)
			x.startNote(x.tag.Kind == element.Meta)
		}
	case kind >= element.AttrURL:
		x.startNote(true)
	case kind != element.AttrNone:
		x.nWhich = 0
	}
}

func (x *page) value(v []byte) {
	switch {
	case x.kind == element.AttrNone:
	case x.kind.IsText():
		x.aside.Write(v, prose.ValueText)
		if x.kind == element.AttrMaybe {
			x.takeNote(v)
		}
		x.spill()
	case x.kind >= element.AttrURL:
		x.takeNote(v)
		if x.kind == element.AttrURL && !mayCount(x.kind, x.note) {
			x.kind = element.AttrNone
		}
	default:
		for _, c := range v {
			if x.nWhich < len(x.which) {
				x.which[x.nWhich] = ascii.Lower(c)
				x.nWhich++
			}
		}
	}
}

func (x *page) valueEnd() {
	switch {
	case x.kind.IsText():
		x.aside.Flush()
		x.aside.Blank()
		if x.kind == element.AttrMaybe {
			x.maybeEnd = len(x.aside.B)
		}
		x.keepShown()
	case x.kind == element.AttrURL && x.tag.Name == "link": // an attribute that follows may name its charset
		x.linked = bytes.Clone(unescape(x.note))
	case x.kind == element.AttrURL:
		x.url(unescape(x.note))
	case x.kind == element.AttrPadding, x.kind == element.AttrSpacing:
		if v := bytes.TrimSpace(x.note); len(v) > 0 && v[0] == '0' && (len(v) == 1 || v[1] < '0' || v[1] > '9') {
			x.gaps |= 1 << (x.kind - element.AttrPadding)
		}
	case x.kind == element.AttrAsks:
		x.slots.asks = string(unescape(x.note))
	case x.kind == element.AttrSlotName:
		x.slots.called = string(unescape(x.note))
	case x.kind == element.AttrSheet:
		x.declarations(unescape(x.note))
	case x.kind == element.AttrShown:
		if ascii.EqualLower(bytes.TrimSpace(x.note), "none") {
			x.effect |= hides
		}
	case x.kind == element.AttrXPath:
		x.expression(x.note)
	case x.kind == element.AttrClass:
		x.applyNames('.', unescape(x.note))
	case x.kind == element.AttrID:
		x.applyNames('#', unescape(x.note))
	case x.kind == element.AttrSet:
		for u := range bytes.FieldsSeq(unescape(x.note)) {
			x.dataURL(u)
		}
	case x.kind == element.AttrSrcdoc:
		x.nest(htmlUTF8, unescape(x.note))
	case x.kind == element.AttrSpace:
		x.namespace(x.note)
	case x.kind == element.AttrLang && x.lang == language.Unknown:
		x.lang = media.LanguageOf(x.note)
	}
	x.kind = element.AttrNone
}

// keepShown keeps the attribute value just added to aside, if a style sheet may show it.
func (x *page) keepShown() {
	if x.showing == 0 {
		return
	}
	if x.valueAt < len(x.aside.B) {
		if text := bytes.TrimSpace(x.aside.B[x.valueAt:]); len(text) > 0 && len(text) <= prose.LongestWord {
			x.values = append(x.values, shownValue{x.showing, string(text)})
		}
	}
	x.showing = 0
}

// applyNames handles the class names of an element, or its id.
func (x *page) applyNames(mark byte, v []byte) {
	x.mayHide()
	for len(v) > 0 {
		n := 0
		for n < len(v) && !spaceByte[v[n]] {
			n++
		}
		if n == 0 {
			v = v[1:]
			continue
		}
		if row, bit := lookPlace(v[:n]); x.sheets.looks[row]&bit != 0 {
			s := x.sheets.find(element.Hash(mark, v[:n]))
			x.effect |= s.effect
			x.addNamed(s.added)
		}
		v = v[min(len(v), n+1):]
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
	x.aside.Blank()
	q := quotes{source: x.source}
	q.write(&x.aside, p)
	x.aside.Flush()
	x.aside.Blank()
	x.lost = x.lost || q.lost
	x.spill()
}

// mayHide records that an inline element may be hidden. An element beside a word, rather than
// in it, seldom is.
func (x *page) mayHide() {
	if t := x.tag; prose.InWord(&x.out) && (t.Kind == element.Inline || t.Kind == element.Unknown) && t.Name != "sub" && t.Name != "sup" && t.Name != "a" {
		x.effect |= mayHide
	}
}
