// Package element has the elements and attributes of HTML: what a tag does to the text around it,
// and what an attribute's value means. The tokeniser finds both by the first letters of a name.
package element

import (
	"encoding/binary"
	"slices"

	"shuultuur/lib/ascii"
)

// A Kind is the effect of a start or end tag on the text around it.
type Kind uint8

const (
	Unknown Kind = iota // not HTML: shown inline, as by browsers
	Inline              // does not separate words: s<b></b>ex reads sex
	Hidden              // it is nothing itself: link, area
	Aside               // its content is shown elsewhere or not at all: template, dialog
	Word                // separates words, but not sentences: img, input
	Block               // begins a new line
	Turned              // bdo: its text may be shown backwards
	Meta                // its content attribute may be text
	Input               // its value attribute may be text
	RCDATA              // title, textarea: text without markup
	RawText             // noscript, iframe: a separate document, up to its end tag
	Style
	Script
	XMP       // shown as it is, up to its end tag
	Plaintext // the whole rest is text
	Foreign   // svg, math: other rules apply inside
	HTMLIn    // within svg and math: HTML rules again
)

// A Tag is the name of an element, as the tokeniser needs it. key and more are its first and
// second eight letters.
type Tag struct {
	key, more uint64
	Name      string // lower case
	Kind      Kind
	Out       bool // a start tag that ends svg or math
	Hash      uint32
	Place     Place
	Unshown   bool // its content is for clients that do not support it
}

const tagBits = 9

// tagTable is an open hash of the elements of HTML that have an effect.
type tagTable [1 << tagBits]Tag

func tagSlot(key, more uint64) uint64 {
	return ((key ^ more<<3) * 0x9E3779B97F4A7C15) >> (64 - tagBits)
}

// find returns the element with these letters, or the zero tag.
func (t *tagTable) find(key, more uint64) *Tag {
	for i := tagSlot(key, more); ; i = (i + 1) % uint64(len(t)) {
		if e := &t[i]; e.key == key && e.more == more || e.key == 0 {
			return e
		}
	}
}

var Tags = newTagTable()

// unknownTag is for names longer than any in HTML.
var unknownTag Tag

func newTagTable() *tagTable {
	t := &tagTable{}
	add := func(kind Kind, out bool, names ...string) {
		for _, n := range names {
			key, more := Letters(n)
			*t.find(key, more) = Tag{key: key, more: more, Name: n, Kind: kind, Out: out, Hash: Hash(0, []byte(n)), Place: places[n]}
		}
	}
	add(Aside, false, "template", "datalist", "dialog", "rp")
	add(Inline, false, "a", "abbr", "acronym", "bdi", "cite", "data", "del", "dfn", "tspan", "textpath", "font", "ins", "kbd", "label", "mark", "output", "q", "rt", "samp", "slot", "mphantom", "time", "wbr", "blink", "basefont")
	add(Inline, true, "b", "big", "code", "em", "i", "nobr", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var")
	add(Hidden, false, "base", "link", "param", "source", "track", "col", "area", "map", "picture")
	add(Word, false, "audio", "button", "canvas", "object", "video", "select", "progress", "meter")
	add(Word, true, "embed", "img")
	add(Block, false, "address", "article", "aside", "caption", "colgroup", "details", "dir", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "header", "hgroup", "html", "legend", "main", "nav", "optgroup", "option", "search", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr", "marquee")
	add(Block, true, "blockquote", "body", "br", "center", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "li", "listing", "menu", "ol", "p", "pre", "table", "ul")
	add(Turned, false, "bdo")
	add(Meta, true, "meta")
	add(Input, false, "input")
	add(RCDATA, false, "title", "textarea")
	add(RawText, false, "iframe", "noembed", "noframes", "noscript")
	add(Style, false, "style")
	add(Script, false, "script")
	add(XMP, false, "xmp")
	add(Plaintext, false, "plaintext")
	add(Foreign, false, "svg", "math")
	add(HTMLIn, false, "foreignobject", "desc", "mi", "mo", "mn", "ms", "mtext")
	for _, n := range [...]string{"audio", "video", "canvas", "mphantom"} {
		t.named(n).Unshown = true
	}
	return t
}

// named is find for a name of the table.
func (t *tagTable) named(name string) *Tag {
	key, more := Letters(name)
	return t.find(key, more)
}

// Find returns the element whose first and second eight letters these are, or the zero tag.
func Find(key, more uint64) *Tag { return Tags.find(key, more) }

// Named returns the element of a name of the table.
func Named(name string) *Tag { return Tags.named(name) }

// Longer is for names longer than any in HTML.
func Longer() *Tag { return &unknownTag }

// Letters are the first and second eight letters of a name, as numbers.
func Letters(name string) (key, more uint64) {
	for i := range len(name) {
		if i < 8 {
			key = key<<8 | uint64(name[i])
		} else {
			more = more<<8 | uint64(name[i])
		}
	}
	return key, more
}

// An AttrKind is the use of an attribute's value.
type AttrKind uint8

const (
	AttrNone AttrKind = iota
	attrAlt           // the following are text
	AttrTitle
	attrPlaceholder
	AttrMore  // aria-label and others, of which each counts
	AttrMaybe // content of meta, value of input: depends on the following
	attrName  // of meta: determines whether content is text
	attrType  // of input and script
	AttrURL   // may be a document itself
	AttrSrcdoc
	AttrSheet // declarations of a style sheet
	AttrSet   // several URLs
	AttrSpace // a namespace of XML
	AttrLang  // the language of the text
	AttrClass // names in style sheets
	AttrID
	AttrXPath  // an expression of XSLT
	AttrHidden // the element is not shown
	AttrShown  // by which drawings hide an element
	AttrPadding
	AttrSpacing // of the cells of a table
	AttrAsks    // the slot that an element asks for
	AttrSlotName
)

func (k AttrKind) IsText() bool { return k >= attrAlt && k <= AttrMaybe }

// An attrRule is the use of an attribute, and the tags in which it applies.
type attrRule struct {
	kind AttrKind
	in   []Kind // nil for all
	but  []Kind
}

// attrRules are the attributes that are read, by name.
var attrRules = map[string]attrRule{
	"src": {kind: AttrURL}, "href": {kind: AttrURL}, "data": {kind: AttrURL}, "poster": {kind: AttrURL},
	"action": {kind: AttrURL}, "formaction": {kind: AttrURL}, "xlink:href": {kind: AttrURL},
	"srcset": {kind: AttrSet}, "srcdoc": {kind: AttrSrcdoc}, "style": {kind: AttrSheet},
	"alt": {kind: attrAlt}, "title": {kind: AttrTitle}, "xlink:title": {kind: AttrMore}, "placeholder": {kind: attrPlaceholder},
	"label": {kind: AttrMore}, "prompt": {kind: AttrMore}, "summary": {kind: AttrMore},
	"aria-label": {kind: AttrMore}, "aria-valuetext": {kind: AttrMore}, "aria-description": {kind: AttrMore},
	"aria-placeholder": {kind: AttrMore}, "aria-braillelabel": {kind: AttrMore}, "aria-roledescription": {kind: AttrMore},
	"name": {kind: attrName, in: []Kind{Meta}}, "property": {kind: attrName, in: []Kind{Meta}},
	"itemprop": {kind: attrName, in: []Kind{Meta}}, "http-equiv": {kind: attrName, in: []Kind{Meta}},
	"content":        {kind: AttrMaybe, in: []Kind{Meta}},
	"value":          {kind: AttrMaybe, in: []Kind{Input}},
	"type":           {kind: attrType, in: []Kind{Input, Script}},
	"dir":            {kind: attrType, in: []Kind{Turned}},
	"display":        {kind: AttrShown, but: []Kind{Meta, Input}},
	"shadowrootmode": {kind: attrType, in: []Kind{Aside}},
	"class":          {kind: AttrClass, but: []Kind{Meta}},
	"id":             {kind: AttrID, but: []Kind{Meta}},
	"cellpadding":    {kind: AttrPadding, in: []Kind{Block}},
	"cellspacing":    {kind: AttrSpacing, in: []Kind{Block}},
	"charset":        {kind: attrType, in: []Kind{Hidden}},
	"hidden":         {kind: AttrHidden},
	"popover":        {kind: AttrHidden},
	"lang":           {kind: AttrLang, but: []Kind{Meta, Input}}, // in those, content and value are kept in note
}

// An attrEntry is a row of attrTable.
type attrEntry struct {
	key  uint64 // firstEight of the name
	name string
	kind AttrKind
	tags uint32 // the kinds of tags in which it applies, one bit each
}

const attrBits = 7

// attrTable is an open hash of the rules.
var attrTable = func() (t [1 << attrBits]attrEntry) {
	for name, rule := range attrRules {
		e := attrEntry{key: FirstEight([]byte(name)), name: name, kind: rule.kind}
		for kind := range HTMLIn + 1 {
			if (rule.in == nil || slices.Contains(rule.in, kind)) && !slices.Contains(rule.but, kind) {
				e.tags |= 1 << kind
			}
		}
		i := attrSlot(e.key)
		for t[i].kind != AttrNone {
			i = (i + 1) % len(t)
		}
		t[i] = e
	}
	return t
}()

func attrSlot(key uint64) int { return int(key * 0x9E3779B97F4A7C15 >> (64 - attrBits)) }

// FirstEight returns the first eight bytes of a name in lower case, the first byte lowest.
func FirstEight(name []byte) uint64 {
	if len(name) >= 8 {
		return LowerEight(binary.LittleEndian.Uint64(name))
	}
	var eight uint64
	for i, c := range name {
		eight |= uint64(c) << (8 * i)
	}
	return LowerEight(eight)
}

// Attribute returns the use of the attribute called name in a start tag of this kind.
func Attribute(kind Kind, name []byte) AttrKind {
	return AttributeOf(kind, FirstEight(name), name)
}

// AttributeOf is attribute for a name whose firstEight is key.
func AttributeOf(kind Kind, key uint64, name []byte) AttrKind {
	for i := attrSlot(key); ; i = (i + 1) % len(attrTable) {
		switch e := &attrTable[i]; {
		case e.kind == AttrNone:
			return AttrNone
		case e.key != key || len(e.name) != len(name) || len(name) > 8 && !ascii.EqualLower(name[8:], e.name[8:]):
		case e.tags>>kind&1 == 0:
			return AttrNone
		default:
			return e.kind
		}
	}
}

// Wanted reports whether the attrMaybe of a tag counts, given the value of the attribute that
// decides.
func Wanted(kind Kind, which []byte) bool {
	switch string(which) {
	case "description", "keywords", "title", "rating", "abstract", "subject", "headline", "og:title", "og:description", "og:image:alt",
		"og:site_name", "twitter:title", "twitter:description", "twitter:image:alt", "dc.title", "dc.description", "dc.subject", "dcterms.title", "news_keywords":
		return kind == Meta
	case "hidden", "password", "checkbox", "radio", "file", "color", "range", "image":
		return false
	}
	return kind == Input
}

// LowerEight returns x with letters of ASCII in lower case.
func LowerEight(x uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low := x & (0x7F * ones)
	upper := (low + (0x80-'A')*ones) &^ (low + (0x7F-'Z')*ones) &^ x & highs
	return x | upper>>2
}

// This file handles tags that may or may not separate words: browsers ignore an end tag of an
// element that is not open, and a start tag where its element is not allowed. The open
// elements are not tracked here, so a word that contains such a tag without blanks is read
// both in parts and as a whole.

// A Place is where browsers accept the start tag of an element.
type Place uint8

const (
	Anywhere Place = iota
	OnlyOnce       // html, head, body and frames: ignored in the text of a page
	InTables
	InNoForm
	ItsTable // the table itself
)

var places = map[string]Place{
	"html": OnlyOnce, "head": OnlyOnce, "body": OnlyOnce, "frame": OnlyOnce, "frameset": OnlyOnce,
	"caption": InTables, "colgroup": InTables, "tbody": InTables, "thead": InTables, "tfoot": InTables, "tr": InTables, "td": InTables, "th": InTables,
	"form": InNoForm, "table": ItsTable,
}

// Hash is the FNV-1a hash of mark and a name in lower case.
func Hash(mark byte, name []byte) uint32 {
	h := (uint32(2166136261) ^ uint32(mark)) * 16777619
	for _, c := range name {
		h = (h ^ uint32(ascii.Lower(c))) * 16777619
	}
	return h | 1
}

// IsVoid reports whether an element has no content.
func IsVoid(t *Tag) bool {
	switch t.Name {
	case "br", "hr", "img", "embed", "input", "wbr", "frame":
		return true
	}
	return t.Kind == Hidden && t.Name != "map" && t.Name != "picture"
}
