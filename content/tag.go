package content

import (
	"encoding/binary"
	"slices"
)

// A tagKind is the effect of a start or end tag on the text around it.
type tagKind uint8

const (
	tagUnknown tagKind = iota // not HTML: shown inline, as by browsers
	tagInline                 // does not separate words: s<b></b>ex reads sex
	tagHidden                 // it is nothing itself: link, area
	tagAside                  // its content is shown elsewhere or not at all: template, dialog
	tagWord                   // separates words, but not sentences: img, input
	tagBlock                  // begins a new line
	tagTurned                 // bdo: its text may be shown backwards
	tagMeta                   // its content attribute may be text
	tagInput                  // its value attribute may be text
	tagRCDATA                 // title, textarea: text without markup
	tagRawText                // noscript, iframe: a separate document, up to its end tag
	tagStyle
	tagScript
	tagXMP       // shown as it is, up to its end tag
	tagPlaintext // the whole rest is text
	tagForeign   // svg, math: other rules apply inside
	tagHTMLIn    // within svg and math: HTML rules again
)

// A tag is the name of an element, as the tokeniser needs it. key and more are its first and
// second eight letters.
type tag struct {
	key, more uint64
	name      string // lower case
	kind      tagKind
	out       bool // a start tag that ends svg or math
	hash      uint32
	place     place
	unshown   bool // its content is for clients that do not support it
}

const tagBits = 9

// tagTable is an open hash of the elements of HTML that have an effect.
type tagTable [1 << tagBits]tag

func tagSlot(key, more uint64) uint64 {
	return ((key ^ more<<3) * 0x9E3779B97F4A7C15) >> (64 - tagBits)
}

// find returns the element with these letters, or the zero tag.
func (t *tagTable) find(key, more uint64) *tag {
	for i := tagSlot(key, more); ; i = (i + 1) % uint64(len(t)) {
		if e := &t[i]; e.key == key && e.more == more || e.key == 0 {
			return e
		}
	}
}

var tags = newTagTable()

// unknownTag is for names longer than any in HTML.
var unknownTag tag

func newTagTable() *tagTable {
	t := &tagTable{}
	add := func(kind tagKind, out bool, names ...string) {
		for _, n := range names {
			key, more := letters(n)
			*t.find(key, more) = tag{key: key, more: more, name: n, kind: kind, out: out, hash: nameHash(0, []byte(n)), place: places[n]}
		}
	}
	add(tagAside, false, "template", "datalist", "dialog", "rp")
	add(tagInline, false, "a", "abbr", "acronym", "bdi", "cite", "data", "del", "dfn", "tspan", "textpath", "font", "ins", "kbd", "label", "mark", "output", "q", "rt", "samp", "slot", "mphantom", "time", "wbr", "blink", "basefont")
	add(tagInline, true, "b", "big", "code", "em", "i", "nobr", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var")
	add(tagHidden, false, "base", "link", "param", "source", "track", "col", "area", "map", "picture")
	add(tagWord, false, "audio", "button", "canvas", "object", "video", "select", "progress", "meter")
	add(tagWord, true, "embed", "img")
	add(tagBlock, false, "address", "article", "aside", "caption", "colgroup", "details", "dir", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "header", "hgroup", "html", "legend", "main", "nav", "optgroup", "option", "search", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr", "marquee")
	add(tagBlock, true, "blockquote", "body", "br", "center", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "li", "listing", "menu", "ol", "p", "pre", "table", "ul")
	add(tagTurned, false, "bdo")
	add(tagMeta, true, "meta")
	add(tagInput, false, "input")
	add(tagRCDATA, false, "title", "textarea")
	add(tagRawText, false, "iframe", "noembed", "noframes", "noscript")
	add(tagStyle, false, "style")
	add(tagScript, false, "script")
	add(tagXMP, false, "xmp")
	add(tagPlaintext, false, "plaintext")
	add(tagForeign, false, "svg", "math")
	add(tagHTMLIn, false, "foreignobject", "desc", "mi", "mo", "mn", "ms", "mtext")
	for _, n := range [...]string{"audio", "video", "canvas", "mphantom"} {
		t.named(n).unshown = true
	}
	return t
}

// named is find for a name of the table.
func (t *tagTable) named(name string) *tag {
	key, more := letters(name)
	return t.find(key, more)
}

// letters are the first and second eight letters of a name, as numbers.
func letters(name string) (key, more uint64) {
	for i := range len(name) {
		if i < 8 {
			key = key<<8 | uint64(name[i])
		} else {
			more = more<<8 | uint64(name[i])
		}
	}
	return key, more
}

// An attrKind is the use of an attribute's value.
type attrKind uint8

const (
	attrNone attrKind = iota
	attrAlt           // the following are text
	attrTitle
	attrPlaceholder
	attrMore  // aria-label and others, of which each counts
	attrMaybe // content of meta, value of input: depends on the following
	attrName  // of meta: determines whether content is text
	attrType  // of input and script
	attrURL   // may be a document itself
	attrSrcdoc
	attrSheet // declarations of a style sheet
	attrSet   // several URLs
	attrSpace // a namespace of XML
	attrLang  // the language of the text
	attrClass // names in style sheets
	attrID
	attrXPath  // an expression of XSLT
	attrHidden // the element is not shown
	attrShown  // by which drawings hide an element
	attrPadding
	attrSpacing // of the cells of a table
	attrAsks    // the slot that an element asks for
	attrSlotName
)

func (k attrKind) isText() bool { return k >= attrAlt && k <= attrMaybe }

// An attrRule is the use of an attribute, and the tags in which it applies.
type attrRule struct {
	kind attrKind
	in   []tagKind // nil for all
	but  []tagKind
}

// attrRules are the attributes that are read, by name.
var attrRules = map[string]attrRule{
	"src": {kind: attrURL}, "href": {kind: attrURL}, "data": {kind: attrURL}, "poster": {kind: attrURL},
	"action": {kind: attrURL}, "formaction": {kind: attrURL}, "xlink:href": {kind: attrURL},
	"srcset": {kind: attrSet}, "srcdoc": {kind: attrSrcdoc}, "style": {kind: attrSheet},
	"alt": {kind: attrAlt}, "title": {kind: attrTitle}, "xlink:title": {kind: attrMore}, "placeholder": {kind: attrPlaceholder},
	"label": {kind: attrMore}, "prompt": {kind: attrMore}, "summary": {kind: attrMore},
	"aria-label": {kind: attrMore}, "aria-valuetext": {kind: attrMore}, "aria-description": {kind: attrMore},
	"aria-placeholder": {kind: attrMore}, "aria-braillelabel": {kind: attrMore}, "aria-roledescription": {kind: attrMore},
	"name": {kind: attrName, in: []tagKind{tagMeta}}, "property": {kind: attrName, in: []tagKind{tagMeta}},
	"itemprop": {kind: attrName, in: []tagKind{tagMeta}}, "http-equiv": {kind: attrName, in: []tagKind{tagMeta}},
	"content":        {kind: attrMaybe, in: []tagKind{tagMeta}},
	"value":          {kind: attrMaybe, in: []tagKind{tagInput}},
	"type":           {kind: attrType, in: []tagKind{tagInput, tagScript}},
	"dir":            {kind: attrType, in: []tagKind{tagTurned}},
	"display":        {kind: attrShown, but: []tagKind{tagMeta, tagInput}},
	"shadowrootmode": {kind: attrType, in: []tagKind{tagAside}},
	"class":          {kind: attrClass, but: []tagKind{tagMeta}},
	"id":             {kind: attrID, but: []tagKind{tagMeta}},
	"cellpadding":    {kind: attrPadding, in: []tagKind{tagBlock}},
	"cellspacing":    {kind: attrSpacing, in: []tagKind{tagBlock}},
	"charset":        {kind: attrType, in: []tagKind{tagHidden}},
	"hidden":         {kind: attrHidden},
	"popover":        {kind: attrHidden},
	"lang":           {kind: attrLang, but: []tagKind{tagMeta, tagInput}}, // in those, content and value are kept in note
}

// An attrEntry is a row of attrTable.
type attrEntry struct {
	key  uint64 // firstEight of the name
	name string
	kind attrKind
	tags uint32 // the kinds of tags in which it applies, one bit each
}

const attrBits = 7

// attrTable is an open hash of the rules.
var attrTable = func() (t [1 << attrBits]attrEntry) {
	for name, rule := range attrRules {
		e := attrEntry{key: firstEight([]byte(name)), name: name, kind: rule.kind}
		for kind := range tagHTMLIn + 1 {
			if (rule.in == nil || slices.Contains(rule.in, kind)) && !slices.Contains(rule.but, kind) {
				e.tags |= 1 << kind
			}
		}
		i := attrSlot(e.key)
		for t[i].kind != attrNone {
			i = (i + 1) % len(t)
		}
		t[i] = e
	}
	return t
}()

func attrSlot(key uint64) int { return int(key * 0x9E3779B97F4A7C15 >> (64 - attrBits)) }

// firstEight returns the first eight bytes of a name in lower case, the first byte lowest.
func firstEight(name []byte) uint64 {
	if len(name) >= 8 {
		return lowerEight(binary.LittleEndian.Uint64(name))
	}
	var eight uint64
	for i, c := range name {
		eight |= uint64(c) << (8 * i)
	}
	return lowerEight(eight)
}

// attribute returns the use of the attribute called name in a start tag of this kind.
func attribute(kind tagKind, name []byte) attrKind {
	return attributeOf(kind, firstEight(name), name)
}

// attributeOf is attribute for a name whose firstEight is key.
func attributeOf(kind tagKind, key uint64, name []byte) attrKind {
	for i := attrSlot(key); ; i = (i + 1) % len(attrTable) {
		switch e := &attrTable[i]; {
		case e.kind == attrNone:
			return attrNone
		case e.key != key || len(e.name) != len(name) || len(name) > 8 && !equalLower(name[8:], e.name[8:]):
		case e.tags>>kind&1 == 0:
			return attrNone
		default:
			return e.kind
		}
	}
}

// wanted reports whether the attrMaybe of a tag counts, given the value of the attribute that
// decides.
func wanted(kind tagKind, which []byte) bool {
	switch string(which) {
	case "description", "keywords", "title", "rating", "abstract", "subject", "headline", "og:title", "og:description", "og:image:alt",
		"og:site_name", "twitter:title", "twitter:description", "twitter:image:alt", "dc.title", "dc.description", "dc.subject", "dcterms.title", "news_keywords":
		return kind == tagMeta
	case "hidden", "password", "checkbox", "radio", "file", "color", "range", "image":
		return false
	}
	return kind == tagInput
}

// equalLower reports whether b equals the lower case s, ignoring the case of b.
func equalLower(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if lower(c) != s[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
