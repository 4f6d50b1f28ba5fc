package content

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"shuultuur/content/language"
)

// A state is a state of the tokeniser. Names follow the HTML standard, section 13.2.5; some
// states there correspond to several here, and the reverse.
type state uint8

const (
	inData state = iota
	inRCDATA
	inRawText
	inXMP
	inPlaintext
	inScript
	afterLess        // <
	afterLessSlash   // </
	inName           // <na
	beforeAttr       // <name
	inAttr           // <name at
	afterAttr        // <name attr
	beforeValue      // <name attr=
	inDouble         // <name attr="
	inSingle         // <name attr='
	inBare           // <name attr=v
	afterBang        // <!
	inComment        // <!--
	inBogus          // <!x, <?x, </3
	inDoctype        // <!x in XML
	inCDATA          // <![CDATA[
	afterRawLess     // < within RCDATA, raw text or xmp
	afterScriptLess  // < within a script
	afterPartialBang // within <![CDATA[ or <!-
)

// How deep a script is in text that looks like a comment within it.
const (
	scriptPlain   = iota
	scriptEscaped // after <!--
	scriptDouble  // after <!-- <script
)

const (
	maxAside = 64 << 10 // of text set aside; more joins the text at once
	maxNote  = 1 << 20  // of a document in an attribute or raw text
)

// A scanner extracts the visible text from HTML or XML that arrives in pieces. It follows the
// tokeniser of the HTML standard, and those parts of tree construction that change tokens (raw
// text elements, svg and math), like a browser with scripting, so that checks read the text
// that is shown. Its page converts the tokens to text.
type scanner struct {
	st   state
	back state // state to return to after a < that is not markup

	raw      string // name of the raw text element
	matched  int    // letters matched of the end of raw text, or of <![CDATA[
	like     string // text that they are compared with
	escape   uint8  // script
	dashes   int    // script
	recent   uint32 // the last three bytes of a comment or CDATA section
	brackets int    // number of ] that may end a CDATA section
	quote    byte   // within a document type declaration: the end of a string, - for a comment, ? for an instruction
	subset   bool

	page
}

// A page converts the tokens of a document to text.
//
// Text of attributes is shown elsewhere, so it first goes to aside and joins the text at the
// next line, so that phrases stay whole. So does text in style sheets, data for scripts, and
// nested documents (nested.go).
type page struct {
	out   flow
	aside flow
	xml   bool
	openTag

	depth   int    // open svg and math elements
	inHTML  bool   // HTML rules apply within them
	outside uint64 // inHTML of the elements around, one bit each
	mute    bool   // within style or script in svg

	tagContext
	nestedState
}

// An openTag is the tag that is being read.
type openTag struct {
	key, more uint64
	n         int // letters of the name
	end       bool
	slash     bool // the last byte was /, so > makes it self-closing
	prefixed  bool // its name has the prefix of a namespace
	real      bool // it ends an open element without markup
	tag       *tag
	seen      uint32 // attributes that were read, one bit per kind
	gaps      uint8  // bits of noGaps
	maybe     int    // where in aside an attrMaybe begins, -1 if none
	maybeEnd  int
	asideAt   int // length of aside when the tag began
	which     [24]byte
	nWhich    int
	effect              // the effect of its style
	added     [4]uint16 // texts that its style adds, as in nameStyle
	nAdded    int
	own       *declarations // of its style attribute
	values    []shownValue  // of attributes that a style sheet shows
	showing   int           // the current attribute: one more than the index in quotes.attrs
	valueAt   int           // in aside, where its value begins

	attr  [24]byte // the attribute's name, or the part of it that has arrived
	nAttr int      // 24: too long to matter
	kind  attrKind
}

func (x *scanner) reset(xml bool) {
	note := x.note[:0]
	if cap(note) > keptText {
		note = nil
	}
	x.sheets.reset()
	// A literal with what is kept would be built elsewhere and copied, for each page.
	level, scripts, sheets, opened := x.level, x.scripts, x.sheets, x.opened[:0]
	b, nfc, asideB, asideNFC := x.out.b, x.out.nfc, x.aside.b, x.aside.nfc
	*x = scanner{}
	x.out.b, x.out.nfc, x.aside.b, x.aside.nfc = b, nfc, asideB, asideNFC
	x.out.reset()
	x.aside.reset()
	x.xml, x.tree, x.note, x.level, x.scripts, x.sheets, x.opened = xml, xml, note, level, scripts, sheets, opened
}

func (x *page) foreign() bool { return x.xml || x.depth > 0 && !x.inHTML }

// write reads the next piece of the markup.
func (x *scanner) write(p []byte) {
	for i := 0; i < len(p); {
		switch x.st {
		case inData:
			i = x.data(p, i)
		case afterLess:
			i = x.open(p, i)
		case afterLessSlash:
			i = x.openEnd(p, i)
		case inName:
			i = x.name(p, i)
		case beforeAttr:
			i = x.attributes(p, i)
		case inAttr:
			i = x.attrName(p, i)
		case afterAttr:
			i = x.attrEnd(p, i)
		case beforeValue:
			i = x.valueStart(p, i)
		case inDouble:
			i = x.quoted(p, i, '"')
		case inSingle:
			i = x.quoted(p, i, '\'')
		case inBare:
			i = x.bare(p, i)
		case afterBang, afterPartialBang:
			i = x.bang(p, i)
		case inComment:
			i = x.comment(p, i)
		case inBogus:
			i = x.bogus(p, i)
		case inDoctype:
			i = x.doctype(p, i)
		case inCDATA:
			i = x.cdata(p, i)
		case inRCDATA:
			i = x.rawData(p, i, shownText)
		case inXMP:
			i = x.rawData(p, i, rawText)
		case inPlaintext:
			i += x.out.write(p[i:], plainText)
		case inRawText:
			i = x.skip(p, i)
		case afterRawLess:
			i = x.rawLess(p, i)
		case inScript:
			i = x.script(p, i)
		case afterScriptLess:
			i = x.scriptLess(p, i)
		}
	}
}

// finish ends the last word. An unclosed tag or comment shows nothing.
func (x *scanner) finish() {
	x.out.flush()
	switch x.st {
	case afterLess, afterLessSlash, afterRawLess:
		x.notRaw()
	}
	if x.how > rawMarkup && x.foreign() {
		x.rawEnd()
	}
	switch x.st {
	case inRawText, inScript, afterScriptLess:
		x.rawEnd()
	case inName, beforeAttr, inAttr, afterAttr, beforeValue, inDouble, inSingle, inBare:
		x.aside.flush()
		x.aside.b = x.aside.b[:x.asideAt]
		x.aside.fixed = 0
	}
	for len(x.opened) > 0 {
		x.endLast()
	}
	x.line()
}

// line ends the line, where text set aside may be added.
func (x *page) line() {
	x.out.turnBack()
	x.out.blank()
	if len(x.aside.b) > 1 {
		x.aside.turnBack()
		x.aside.blank()
		x.out.b = append(x.out.b, x.aside.b[1:]...)
		x.aside.b = x.aside.b[:1]
		x.aside.fixed, x.aside.broken.at = 0, 0
	}
	if x.turns > 0 {
		x.out.beginReversed()
	}
}

// spill adds excessive text in aside to the text. When it does so does not depend on how the
// pieces were divided.
func (x *page) spill() {
	for len(x.aside.b) > maxAside {
		n := bytes.LastIndexByte(x.aside.b[:maxAside], ' ') + 1
		if n <= 1 {
			n = maxAside
			for x.aside.b[n]&0xC0 == 0x80 {
				n--
			}
		}
		x.out.blank()
		x.out.b = append(x.out.b, x.aside.b[1:n]...)
		x.aside.b = x.aside.b[:1+copy(x.aside.b[1:], x.aside.b[n:])]
		x.aside.onRemoved(n - 1)
		x.asideAt = max(1, x.asideAt-n+1)
		x.css.at = max(0, x.css.at-n+1)
		x.maybe = -1 // too long for a description
	}
}

// data reads text up to the next <.
func (x *scanner) data(p []byte, i int) int {
	if x.out.parting.to > 0 && p[i] != '<' {
		x.out.rejoin(p[i])
	}
	if x.how > rawMarkup || x.mute {
		k := bytes.IndexByte(p[i:], '<')
		if k < 0 {
			k = len(p) - i
		}
		x.rawPart(p[i : i+k])
		if x.mute {
			i += k
		} else {
			i += x.out.write(p[i:], shownText)
		}
		if i == len(p) {
			return i
		}
	} else {
		if x.out.complete() {
			if n := blankLen(p[i:]); n > 0 {
				x.out.blank()
				i += n
			}
		}
		if i < len(p) && p[i] != '<' {
			i += x.out.write(p[i:], shownText)
		}
		if i == len(p) {
			return i
		}
	}
	if i++; i < len(p) {
		return x.open(p, i)
	}
	x.st = afterLess
	return i
}

// markup says that a < began markup, which ends an incomplete character or reference before
// it.
func (x *scanner) markup() {
	if x.out.nPart > 0 || x.out.ref.state != refNone {
		x.out.flush()
	}
}

func (x *scanner) open(p []byte, i int) int {
	x.markup()
	c := p[i]
	switch {
	case isLetter(c):
		x.begin(false)
		return x.name(p, i)
	case c == '/':
		x.st = afterLessSlash
		if i++; i < len(p) {
			return x.openEnd(p, i)
		}
		return i
	case c == '!':
		x.st = afterBang
		return i + 1
	case c == '?':
		x.st = inBogus
		x.startNote(x.xml)
		return i + 1
	}
	x.out.blank()
	x.st = inData
	return i
}

func (x *scanner) openEnd(p []byte, i int) int {
	switch c := p[i]; {
	case isLetter(c):
		x.begin(true)
		return x.name(p, i)
	case c == '>':
		x.st = inData
		return i + 1
	}
	x.st = inBogus
	return i
}

// begin starts a tag.
func (x *scanner) begin(end bool) {
	x.st = inName
	x.asideAt = len(x.aside.b)
	x.end = end
	x.key, x.more, x.n = 0, 0, 0
	x.slash, x.prefixed, x.real = false, false, false
	x.seen, x.gaps = 0, 0
	x.maybe = -1
	x.nWhich = 0
	x.effect, x.nAdded, x.own, x.literal = 0, 0, nil, nil
	x.values, x.showing = x.values[:0], 0
}

// nameByte returns a letter of a tag's name in lower case, 0 for bytes that end it.
var nameByte = func() (t [256]byte) {
	for c := range t {
		t[c] = lower(byte(c))
	}
	t[0] = 1
	for _, c := range " \t\n\f\r/>" {
		t[c] = 0
	}
	return t
}()

func (x *scanner) name(p []byte, i int) int {
	if x.n == 0 && !x.xml && len(p)-i > 8 {
		eight := binary.LittleEndian.Uint64(p[i:])
		if n := nameLen(eight); n < 8 && nameByte[p[i+n]] == 0 {
			x.n = n
			x.key = bits.ReverseBytes64(lowerEight(eight)) >> (64 - 8*n)
			return x.nameEnd(p, i+n)
		}
	}
	key, more, n := x.key, x.more, x.n
	start, first := i, n == 0 && !x.prefixed
	for ; i < len(p); i++ {
		c := nameByte[p[i]]
		if c == 0 {
			break
		}
		if c == ':' && x.xml { // that was the prefix of a namespace
			key, more, n = 0, 0, 0
			x.prefixed = true
			continue
		}
		if n < 8 {
			key = key<<8 | uint64(c)
		} else {
			more = more<<8 | uint64(c)
		}
		n++
	}
	x.key, x.more, x.n = key, more, min(n, 17)
	if x.tree && !x.end {
		x.treeName(p[start:i], first, i < len(p))
	}
	if i == len(p) {
		return i
	}
	return x.nameEnd(p, i)
}

// nameEnd continues after the name of a tag.
func (x *scanner) nameEnd(p []byte, i int) int {
	if x.n > 16 {
		x.tag = &unknownTag
	} else {
		x.tag = tags.find(x.key, x.more)
	}
	if p[i] == '>' {
		x.tagEnd()
		return i + 1
	}
	x.st = beforeAttr
	return x.attributes(p, i)
}

// attrByte is 0 for bytes that end an attribute's name.
var attrByte = func() (t [256]byte) {
	t = nameByte
	t['='] = 0
	return t
}()

// attributes reads attributes whose quoted values are complete in p. It leaves other
// attributes to the states.
func (x *scanner) attributes(p []byte, i int) int {
	for {
		for i < len(p) && nameByte[p[i]] == 0 {
			if p[i] == '>' {
				x.tagEnd()
				return i + 1
			}
			x.slash = p[i] == '/'
			i++
		}
		if i == len(p) {
			return i
		}
		x.slash = false
		start, n := i, 0
		var eight uint64
		if len(p)-i > 8 {
			eight = binary.LittleEndian.Uint64(p[i:])
			n = nameLen(eight)
		}
		for i += max(1, n); i < len(p) && attrByte[p[i]] != 0; i++ {
		}
		if i+1 >= len(p) || p[i] != '=' || p[i+1] != '"' && p[i+1] != '\'' {
			x.nAttr = 0
			x.st = inAttr
			return x.attrName(p, start)
		}
		kind := attrNone
		if !x.end {
			if n < 8 && n != i-start {
				kind = x.attribute(firstEight(p[start:i]), p[start:i])
			} else {
				kind = x.attribute(lowerEight(eight&(1<<(8*n)-1)), p[start:i])
			}
		}
		i += 2
		k := bytes.IndexByte(p[i:], p[i-1])
		if k < 0 {
			x.st = inDouble
			if p[i-1] == '\'' {
				x.st = inSingle
			}
			x.valueBegin(kind)
			return i
		}
		if kind != attrNone && kind.mayCount(p[i:i+k]) && !x.styleValue(kind, p[i:i+k]) {
			x.valueBegin(kind)
			x.value(p[i : i+k])
			x.valueEnd()
		}
		i += k + 1
	}
}

func (x *scanner) attrName(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		if attrByte[c] == 0 && (c != '=' || x.nAttr > 0) {
			break
		}
		if x.nAttr < len(x.attr) {
			x.attr[x.nAttr] = c
			x.nAttr++
		}
	}
	if i < len(p) {
		x.st = afterAttr
	}
	return i
}

func (x *scanner) attrEnd(p []byte, i int) int {
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	if i == len(p) {
		return i
	}
	if p[i] == '=' {
		x.st = beforeValue
		return i + 1
	}
	if !x.end && x.nAttr < len(x.attr) {
		x.attribute(firstEight(x.attr[:x.nAttr]), x.attr[:x.nAttr])
	}
	x.st = beforeAttr
	return i
}

func (x *scanner) valueStart(p []byte, i int) int {
	for i < len(p) && isSpace(p[i]) {
		i++
	}
	if i == len(p) {
		return i
	}
	kind := attrNone
	if !x.end && x.nAttr < len(x.attr) {
		kind = x.attribute(firstEight(x.attr[:x.nAttr]), x.attr[:x.nAttr])
	}
	switch p[i] {
	case '"':
		x.st = inDouble
	case '\'':
		x.st = inSingle
	case '>':
		x.tagEnd()
		return i + 1
	default:
		x.st = inBare
		x.valueBegin(kind)
		return i
	}
	x.valueBegin(kind)
	return i + 1
}

func (x *scanner) quoted(p []byte, i int, quote byte) int {
	k := bytes.IndexByte(p[i:], quote)
	if k < 0 {
		x.value(p[i:])
		return len(p)
	}
	x.value(p[i : i+k])
	x.valueEnd()
	x.st = beforeAttr
	return i + k + 1
}

func (x *scanner) bare(p []byte, i int) int {
	start := i
	for i < len(p) && p[i] != '>' && !isSpace(p[i]) {
		i++
	}
	x.value(p[start:i])
	if i < len(p) {
		x.valueEnd()
		x.st = beforeAttr
	}
	return i
}

func (x *page) valueBegin(kind attrKind) {
	if kind != attrMore && kind != attrURL && x.seen&(1<<kind) != 0 {
		kind = attrNone // of equal names the first applies
	}
	x.seen |= 1 << kind &^ 1
	x.kind = kind
	switch {
	case kind.isText():
		x.aside.blank()
		x.valueAt = len(x.aside.b)
		if kind == attrMaybe {
			x.maybe = len(x.aside.b)
			x.startNote(x.tag.kind == tagMeta)
		}
	case kind >= attrURL:
		x.startNote(true)
	case kind != attrNone:
		x.nWhich = 0
	}
}

func (x *page) value(v []byte) {
	switch {
	case x.kind == attrNone:
	case x.kind.isText():
		x.aside.write(v, valueText)
		if x.kind == attrMaybe {
			x.takeNote(v)
		}
		x.spill()
	case x.kind >= attrURL:
		x.takeNote(v)
		if x.kind == attrURL && !x.kind.mayCount(x.note) {
			x.kind = attrNone
		}
	default:
		for _, c := range v {
			if x.nWhich < len(x.which) {
				x.which[x.nWhich] = lower(c)
				x.nWhich++
			}
		}
	}
}

func (x *page) valueEnd() {
	switch {
	case x.kind.isText():
		x.aside.flush()
		x.aside.blank()
		if x.kind == attrMaybe {
			x.maybeEnd = len(x.aside.b)
		}
		keepShown(x)
	case x.kind == attrURL && x.tag.name == "link": // an attribute that follows may name its charset
		x.linked = bytes.Clone(unescape(x.note))
	case x.kind == attrURL:
		x.url(unescape(x.note))
	case x.kind == attrPadding, x.kind == attrSpacing:
		if v := bytes.TrimSpace(x.note); len(v) > 0 && v[0] == '0' && (len(v) == 1 || v[1] < '0' || v[1] > '9') {
			x.gaps |= 1 << (x.kind - attrPadding)
		}
	case x.kind == attrAsks:
		x.slots.asks = string(unescape(x.note))
	case x.kind == attrSlotName:
		x.slots.called = string(unescape(x.note))
	case x.kind == attrSheet:
		x.declarations(unescape(x.note))
	case x.kind == attrShown:
		if equalLower(bytes.TrimSpace(x.note), "none") {
			x.effect |= hides
		}
	case x.kind == attrXPath:
		x.expression(x.note)
	case x.kind == attrClass:
		x.applyNames('.', unescape(x.note))
	case x.kind == attrID:
		x.applyNames('#', unescape(x.note))
	case x.kind == attrSet:
		for u := range bytes.FieldsSeq(unescape(x.note)) {
			x.dataURL(u)
		}
	case x.kind == attrSrcdoc:
		x.nest(htmlUTF8, unescape(x.note))
	case x.kind == attrSpace:
		x.namespace(x.note)
	case x.kind == attrLang && x.lang == language.Unknown:
		x.lang = tagOf(x.note)
	}
	x.kind = attrNone
}

// tagEnd applies a tag at its >.
func (x *scanner) tagEnd() {
	t := x.tag
	x.st = inData
	x.mute = false
	if x.seen&(1<<attrMaybe) != 0 && t.kind == tagMeta && string(x.which[:x.nWhich]) == "refresh" {
		x.refresh(unescape(x.note))
	}
	if x.maybe >= 0 && !wanted(t.kind, x.which[:x.nWhich]) {
		x.aside.b = append(x.aside.b[:x.maybe], x.aside.b[x.maybeEnd:]...)
		x.aside.fixed = 0
	}
	if x.office {
		if x.key|x.more != 0 && officeBreak[[2]uint64{x.key, x.more}] {
			x.line()
		}
		return
	}
	if t.unshown && !x.end {
		x.effect |= hides
	}
	if x.linked != nil {
		x.url(x.linked)
		x.linked = nil
	}
	if len(x.slots.open) > 0 {
		slotTag(&x.page, t)
	}
	if !x.styled(t) {
		x.plain(t)
	}
	if t.kind >= tagRCDATA {
		x.special(t)
	}
	if last := &x.starts[x.nStarts%uint(len(x.starts))]; !x.end {
		x.nStarts++
		x.starts[x.nStarts%uint(len(x.starts))] = started{x.key, x.more, x.out.gone + len(x.out.b)}
	} else if last.key == x.key && last.more == x.more {
		x.nStarts--
	}
}

// plain applies a tag regardless of its style.
func (x *page) plain(t *tag) {
	switch t.kind {
	case tagUnknown:
		if x.xml {
			x.line()
		}
		return
	case tagInline, tagHidden, tagMeta:
	case tagAside:
		if t.name == "template" && isShadow(x) {
			shadow(x)
		} else if x.skipAside(); t.name == "template" {
			x.slots.from = x.out.gone + len(x.out.b) // after the beginning of a word that is repeated
		}
	case tagTurned:
		x.override()
	case tagInput:
		if string(x.which[:x.nWhich]) != "hidden" && !x.end {
			x.out.blank()
		}
	case tagWord:
		x.between()
	case tagBlock:
		if x.end || t.place != anywhere {
			x.block(t)
		} else {
			x.out.parting.to = 0
			x.line()
		}
	default: // has its own rules
		return
	}
	if t.out && x.depth > 0 && !x.inHTML && (!x.end || t.name == "p" || t.name == "br") {
		x.rawEnd()
		x.depth = 0
	}
}

// between splits a word at an element with its own place in the line: a picture, a field, a
// film. The element may be invisible, such as a picture without a source, so another reading
// continues the word after it.
func (x *page) between() {
	f := &x.out
	f.settle()
	if f.has && f.further[0].at == len(f.b) && !inWord(&x.out) {
		return // it is already continued, and nothing has come since
	}
	if x.end {
		var w otherReading
		if f.has && f.further[0].at == len(f.b) {
			w = f.begun(&f.further[0])
		}
		if f.parting = f.parts(); w.n > 0 {
			f.goOn(0, w)
		}
		return
	}
	w := f.breaks()
	f.blank()
	if w.n > 0 {
		w.say = false // blank has written it
		f.goOn(0, w)
	}
}

// special is tagEnd for elements whose content has its own rules.
func (x *scanner) special(t *tag) {
	if x.foreign() || x.end {
		x.specialForeign(t)
		return
	}
	x.raw = t.name
	switch t.kind {
	case tagRCDATA:
		unmarked(&x.page, t)
		x.st = inRCDATA
	case tagXMP:
		x.line()
		x.st = inXMP
	case tagPlaintext:
		x.line()
		x.st = inPlaintext
	case tagRawText, tagStyle:
		x.st = inRawText
		x.rawBegin(t)
	case tagScript:
		x.st = inScript
		x.escape = scriptPlain
		x.rawBegin(t)
	case tagForeign:
		x.between()
		x.enter()
	}
}

// specialForeign is special for XML (without raw text) and for end tags.
func (x *scanner) specialForeign(t *tag) {
	switch t.kind {
	case tagRCDATA, tagXMP, tagPlaintext:
		unmarked(&x.page, t)
	}
	switch {
	case t.kind == tagForeign && x.end:
		x.between()
		if x.depth > 0 {
			x.depth--
			x.inHTML = x.outside&1 != 0
			x.outside >>= 1
		}
	case t.kind == tagForeign:
		x.between()
		x.enter()
	case t.kind == tagHTMLIn || t.name == "title":
		if t.name == "desc" && breaksWord(&x.page, t) {
			x.skipAside()
		}
		x.inHTML = x.depth > 0 && !x.end && !x.slash
	case t.kind == tagStyle || t.kind == tagScript:
		if x.end {
			x.rawEnd()
		}
		x.mute = !x.end && !x.slash
		if x.mute {
			x.rawBegin(t)
			// In XML, only the namespace distinguishes a style sheet from text.
			x.mute = !x.tree && !x.strange && !x.prefixed
		}
	}
}

// enter begins an svg or math element. Depths above 64 are treated as 64.
func (x *scanner) enter() {
	if x.slash || x.depth == 64 {
		return
	}
	x.depth++
	x.outside <<= 1
	if x.inHTML {
		x.outside |= 1
	}
	x.inHTML = false
}

// bang distinguishes comments, CDATA sections and other declarations.
func (x *scanner) bang(p []byte, i int) int {
	if x.st == afterBang {
		x.matched = 0
		switch {
		case p[i] == '-':
			x.like = "--"
		case p[i] == '[' && x.foreign():
			x.like = "[CDATA["
		default:
			x.st = inBogus
			if x.xml {
				x.startNote(true)
				x.recent, x.quote, x.subset = 0, 0, false
				x.st = inDoctype
			}
			return i
		}
		x.st = afterPartialBang
	}
	for ; i < len(p) && x.matched < len(x.like); i++ {
		if p[i] != x.like[x.matched] {
			x.st = inBogus
			return i
		}
		x.matched++
	}
	if x.matched == len(x.like) {
		x.st = inComment
		x.recent = openDash<<8 | openDash
		if x.matched > 2 {
			x.st, x.brackets = inCDATA, 0
		}
	}
	return i
}

// openDash represents a dash of <!-- itself, which may belong to --> but not to --!>.
const openDash = 1

// push adds the last bytes of p to recent, the last three that were seen.
func push(recent uint32, p []byte) uint32 {
	for _, c := range p[max(0, len(p)-3):] {
		recent = recent<<8 | uint32(c)
	}
	return recent & 0xFFFFFF
}

func (x *scanner) comment(p []byte, i int) int {
	start := i
	for {
		k := bytes.IndexByte(p[i:], '>')
		if k < 0 {
			x.recent = push(x.recent, p[start:])
			x.treeText(p[start:])
			return len(p)
		}
		i += k + 1
		r := push(x.recent, p[start:i-1])
		c, d := r&0xFF, r>>8&0xFF
		if (c == '-' || c == openDash) && (d == '-' || d == openDash) || r == '-'<<16|'-'<<8|'!' {
			x.treeText(p[start:i])
			x.st = inData
			return i
		}
	}
}

func (x *scanner) bogus(p []byte, i int) int {
	k := bytes.IndexByte(p[i:], '>')
	if k < 0 {
		x.takeNote(p[i:])
		return len(p)
	}
	x.takeNote(p[i : i+k])
	if x.xml {
		x.instruction(x.note)
	}
	x.st = inData
	return i + k + 1
}

// cdata reads a CDATA section up to its ]]>.
func (x *scanner) cdata(p []byte, i int) int {
	for i < len(p) {
		if x.brackets == 0 {
			k := bytes.IndexByte(p[i:], ']')
			if k < 0 {
				k = len(p) - i
			}
			x.cdataPart(p[i : i+k])
			if i += k; i == len(p) {
				return i
			}
		}
		switch c := p[i]; {
		case c == ']' && x.brackets == 2:
			x.cdataPart(p[i : i+1])
			i++
		case c == ']':
			x.brackets++
			i++
		case c == '>' && x.brackets == 2:
			x.brackets = 0
			x.st = inData
			if !x.mute {
				x.out.flush()
			}
			return i + 1
		default:
			x.cdataPart([]byte("]]")[:x.brackets])
			x.brackets = 0
		}
	}
	return i
}

// cdataPart reads a part of a CDATA section.
func (x *scanner) cdataPart(p []byte) {
	if !x.mute {
		how := plainText
		if x.tree {
			how = cueText
		}
		x.out.write(p, how)
	}
	if x.how > rawMarkup {
		x.rawPart(bytes.ReplaceAll(p, []byte("&"), []byte("&amp;"))) // the surrounding text decodes references
	}
}

// rawData reads text that ends only at its own end tag.
func (x *scanner) rawData(p []byte, i int, t *byteTable) int {
	i += x.out.write(p[i:], t)
	if i == len(p) {
		return i
	}
	x.back, x.st, x.matched = x.st, afterRawLess, 0
	return i + 1
}

// skip is rawData for text that is not shown.
func (x *scanner) skip(p []byte, i int) int {
	k := bytes.IndexByte(p[i:], '<')
	if k < 0 {
		x.rawPart(p[i:])
		return len(p)
	}
	x.rawPart(p[i : i+k])
	x.back, x.st, x.matched = x.st, afterRawLess, 0
	return i + k + 1
}

// rawLess continues after a < in raw text: /name followed by a byte that ends a name is the
// end tag.
func (x *scanner) rawLess(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := lower(p[i])
		switch {
		case x.matched == 0 && c == '/':
			x.matched = 1
			x.markup()
		case x.matched > 0 && x.matched <= len(x.raw) && c == x.raw[x.matched-1]:
			x.matched++
		case x.matched == len(x.raw)+1 && nameByte[c] == 0:
			x.endRaw()
			return i
		default:
			x.notRaw()
			return i
		}
	}
	return i
}

// endRaw continues as after the name of an end tag.
func (x *scanner) endRaw() {
	x.rawEnd()
	x.begin(true)
	x.st = beforeAttr
	x.tag = tags.named(x.raw)
	x.real = true
}

// notRaw treats the bytes since a < as text.
func (x *scanner) notRaw() {
	if x.st != afterRawLess {
		x.out.blank()
		x.st = inData
		return
	}
	x.st = x.back
	if x.back == inRawText {
		x.rawLessPart()
		return
	}
	x.out.flush()
	x.out.blank()
	if x.matched > 1 {
		x.out.write([]byte(x.raw[:x.matched-1]), rawText)
	}
}

// script reads a script, which may hide its end tag in text that looks like a comment (HTML
// standard, 13.2.5.15 and following).
func (x *scanner) script(p []byte, i int) int {
	if x.escape == scriptPlain {
		k := bytes.IndexByte(p[i:], '<')
		if k < 0 {
			x.rawPart(p[i:])
			return len(p)
		}
		x.rawPart(p[i : i+k])
		x.st, x.matched = afterScriptLess, 0
		return i + k + 1
	}
	start := i
	for ; i < len(p); i++ {
		switch p[i] {
		case '-':
			x.dashes++
			continue
		case '<':
			x.rawPart(p[start:i])
			x.st, x.matched, x.dashes = afterScriptLess, 0, 0
			return i + 1
		case '>':
			if x.dashes >= 2 {
				x.rawPart(p[start : i+1])
				x.escape = scriptPlain
				return i + 1
			}
		}
		x.dashes = 0
	}
	x.rawPart(p[start:])
	return i
}

// scriptText continues the script after a < that did not end it. The bytes since then are
// text.
func (x *scanner) scriptText() {
	x.st = inScript
	if x.how != rawNothing {
		x.rawPart([]byte("<" + x.like[:x.matched]))
	}
}

func (x *scanner) scriptLess(p []byte, i int) int {
	if x.matched == 0 {
		switch c := p[i]; {
		case c == '/':
			x.like = "/script"
		case c == '!' && x.escape == scriptPlain:
			x.like = "!--"
		case c|0x20 == 's' && x.escape == scriptEscaped:
			x.like = "script"
		default:
			x.scriptText()
			return i
		}
	}
	for ; i < len(p); i++ {
		c := lower(p[i])
		if x.matched < len(x.like) && c == x.like[x.matched] {
			x.matched++
			if x.like == "!--" && x.matched == 3 {
				x.scriptText()
				x.escape, x.dashes = scriptEscaped, 2
				return i + 1
			}
			continue
		}
		if x.matched < len(x.like) || nameByte[c] != 0 {
			x.scriptText()
			return i
		}
		switch {
		case x.like == "script":
			x.scriptText()
			x.escape = scriptDouble
		case x.escape == scriptDouble:
			x.scriptText()
			x.escape = scriptEscaped
		default:
			x.st = inScript
			x.raw = "script"
			x.endRaw()
			return i
		}
		return i + 1
	}
	return i
}

func isLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

var spaceByte = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, '\f': true}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'
}
