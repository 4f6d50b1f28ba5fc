package content

import "bytes"

// What a start or end tag does to the text around it.
type tagKind uint8

const (
	tagUnknown tagKind = iota // no HTML: shown in the line, as browsers do
	tagInline                 // does not part a word: s<b></b>ex reads sex
	tagHidden                 // it is nothing itself: link, area
	tagAside                  // what is in it stands elsewhere or nowhere: template, dialog
	tagWord                   // parts a word, but not a sentence: img, input
	tagBlock                  // begins a new line
	tagMeta                   // its content attribute may be text
	tagInput                  // its value attribute may be text
	tagRCDATA                 // title, textarea: text without markup
	tagRawText                // noscript, iframe: a document of its own, up to its end tag
	tagStyle
	tagScript
	tagXMP       // shown as it is, up to its end tag
	tagPlaintext // all the rest is text
	tagForeign   // svg, math: other rules within
	tagHTMLIn    // within svg and math: HTML rules again
)

// A tag is an element name as the tokeniser needs it. key and more are its
// first and second eight letters.
type tag struct {
	key, more uint64
	name      string // lower case
	kind      tagKind
	out       bool // as a start tag in svg or math it ends these
}

const tagBits = 9

// tagTable is an open hash of the elements of HTML that do something.
type tagTable [1 << tagBits]tag

func tagSlot(key, more uint64) uint64 {
	return ((key ^ more<<3) * 0x9E3779B97F4A7C15) >> (64 - tagBits)
}

// find returns the element called by these letters, or the zero tag.
func (t *tagTable) find(key, more uint64) *tag {
	for i := tagSlot(key, more); ; i = (i + 1) % uint64(len(t)) {
		if e := &t[i]; e.key == key && e.more == more || e.key == 0 {
			return e
		}
	}
}

var tags = newTagTable()

// unknownTag stands for names longer than any of HTML.
var unknownTag tag

func newTagTable() *tagTable {
	t := &tagTable{}
	add := func(kind tagKind, out bool, names ...string) {
		for _, n := range names {
			key, more := letters(n)
			*t.find(key, more) = tag{key, more, n, kind, out}
		}
	}
	add(tagAside, false, "template", "datalist", "dialog", "rp")
	add(tagInline, false, "a", "abbr", "acronym", "bdi", "bdo", "cite", "data", "del", "dfn", "tspan", "textpath", "font", "ins", "kbd", "label", "mark", "output", "q", "rt", "samp", "slot", "time", "wbr", "blink", "basefont")
	add(tagInline, true, "b", "big", "code", "em", "i", "nobr", "ruby", "s", "small", "span", "strike", "strong", "sub", "sup", "tt", "u", "var")
	add(tagHidden, false, "base", "link", "param", "source", "track", "col", "area", "map", "picture")
	add(tagWord, false, "audio", "button", "canvas", "object", "video", "select", "progress", "meter")
	add(tagWord, true, "embed", "img")
	add(tagBlock, false, "address", "article", "aside", "caption", "colgroup", "details", "dir", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "header", "hgroup", "html", "legend", "main", "nav", "optgroup", "option", "search", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr", "marquee")
	add(tagBlock, true, "blockquote", "body", "br", "center", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "li", "listing", "menu", "ol", "p", "pre", "table", "ul")
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

// What an attribute's value is wanted for.
type attrKind uint8

const (
	attrNone attrKind = iota
	attrAlt           // these are text
	attrTitle
	attrPlaceholder
	attrMore  // aria-label and others; of these each counts
	attrMaybe // content of meta, value of input: depends on those that follow
	attrName  // of meta: these say on what
	attrType  // of input and script
	attrURL   // may be a document itself
	attrSrcdoc
	attrSheet // declarations of a style sheet
	attrSet   // several URLs
	attrSpace // a namespace of XML
	attrLang  // the language of the text
)

func (k attrKind) isText() bool { return k >= attrAlt && k <= attrMaybe }

// attribute says what the value of the attribute called name is wanted for in
// a start tag of this kind. The usual names are told by their length and first
// letter.
func attribute(kind tagKind, name []byte) attrKind {
	switch len(name) {
	case 3:
		switch {
		case equalLower(name, "src"):
			return attrURL
		case equalLower(name, "alt"):
			return attrAlt
		}
	case 4:
		switch {
		case equalLower(name, "href"), equalLower(name, "data"):
			return attrURL
		case kind == tagMeta && equalLower(name, "name"):
			return attrName
		case kind != tagMeta && kind != tagInput && equalLower(name, "lang"): // of those, content and value are kept in note
			return attrLang
		case (kind == tagInput || kind == tagScript) && equalLower(name, "type"):
			return attrType
		}
	case 5:
		switch {
		case equalLower(name, "title"):
			return attrTitle
		case kind == tagInput && equalLower(name, "value"):
			return attrMaybe
		case equalLower(name, "label"):
			return attrMore
		case equalLower(name, "style"):
			return attrSheet
		}
	case 6:
		switch {
		case equalLower(name, "srcdoc"):
			return attrSrcdoc
		case equalLower(name, "srcset"):
			return attrSet
		case equalLower(name, "prompt"):
			return attrMore
		case equalLower(name, "poster"), equalLower(name, "action"):
			return attrURL
		}
	case 7:
		switch {
		case kind == tagMeta && equalLower(name, "content"):
			return attrMaybe
		case equalLower(name, "summary"):
			return attrMore
		}
	case 8:
		if kind == tagMeta && (equalLower(name, "property") || equalLower(name, "itemprop")) {
			return attrName
		}
	case 10:
		switch {
		case equalLower(name, "aria-label"):
			return attrMore
		case equalLower(name, "xlink:href"), equalLower(name, "formaction"):
			return attrURL
		case kind == tagMeta && equalLower(name, "http-equiv"):
			return attrName
		}
	case 11:
		if equalLower(name, "placeholder") {
			return attrPlaceholder
		}
	case 14, 16, 17, 19, 20:
		switch string(bytes.ToLower(name)) {
		case "aria-valuetext", "aria-description", "aria-placeholder", "aria-braillelabel", "aria-roledescription":
			return attrMore
		}
	}
	return attrNone
}

// wanted says whether the attrMaybe of a tag counts, given the value of the
// attribute that tells.
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

// equalLower compares b, in any case, with the lower case s.
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
