// Package markup extracts the text of HTML and XML as browsers show it, with what style sheets
// hide, turn and add, and the strings of style sheets and scripts.
//
// A [Scanner] gets the decoded bytes of a document as they arrive and divides them into tags,
// attributes and text. Its page makes the text of them. Elements whose style matters leave
// several readings of a word in the text (package prose). A document within this one, in an
// attribute or a data: URL, goes to the body around the markup ([Outer]), which reads it like
// any other body.
package markup

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"shuultuur/content/element"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
	"shuultuur/lib/language"
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

// A Scanner extracts the visible text from HTML or XML that arrives in pieces. It follows the
// tokeniser of the HTML standard, and those parts of tree construction that change tokens (raw
// text elements, svg and math), like a browser with scripting, so that checks read the text
// that is shown. Its page converts the tokens to text.
type Scanner struct {
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

	strings bool // it reads the strings of a style sheet or script
	page    page
}

// Reset prepares x for another document.
func (x *Scanner) Reset(source *Source, xml bool) {
	note := x.page.note[:0]
	if cap(note) > keptNote {
		note = nil
	}
	x.page.sheets.reset()
	// A literal with what is kept would be built elsewhere and copied, for each page.
	sheets, opened := x.page.sheets, x.page.opened[:0]
	out, aside := x.page.out.Memory(), x.page.aside.Memory()
	*x = Scanner{}
	x.page.out.ResetIn(out)
	x.page.aside.ResetIn(aside)
	x.page.xml, x.page.tree, x.page.note, x.page.source, x.page.sheets, x.page.opened = xml, xml, note, source, sheets, opened
}

// SetTree says whether the document is XML that browsers show as source.
func (x *Scanner) SetTree(tree bool) {
	x.page.tree = tree
	x.page.out.SetMarkupInText(tree)
}

// SetOffice says whether the document is part of an office document, in which paragraphs
// separate words.
func (x *Scanner) SetOffice(office bool) { x.page.office = office }

// ApplyCharset says that the charset of the document is known and set in Out.
func (x *Scanner) ApplyCharset() {
	x.page.aside.High, x.page.aside.Multi = x.page.out.High, x.page.out.Multi
}

// BeginStrings says that the document is a script or a style sheet, which
// WriteStrings reads instead of Write.
func (x *Scanner) BeginStrings(script bool) {
	x.strings = true
	x.page.css = quotes{script: script, source: x.page.source}
}

// WriteStrings reads the next piece of a style sheet or script.
func (x *Scanner) WriteStrings(p []byte) { x.page.css.write(&x.page.out, p) }

// Out returns the text so far.
func (x *Scanner) Out() *prose.Flow { return &x.page.out }

// Remove removes the first n bytes of the text.
func (x *Scanner) Remove(n int) {
	f := &x.page.out
	x.page.slots.takeUpTo(f, n)
	f.B = f.B[:copy(f.B, f.B[n:])]
	f.OnRemoved(n)
	if x.strings {
		x.page.css.onRemoved(n)
	}
}

// Language returns the language of the first attribute that declares one.
func (x *Scanner) Language() language.Tag { return x.page.lang }

// Lost reports whether some of the text was not read, because of a limit.
func (x *Scanner) Lost() bool {
	p := &x.page
	return p.lost || p.css.lost || p.slots.lost || p.added.lost || p.entities != nil && p.entities.over
}

// Release leaves memory above most bytes to the garbage collector.
func (x *Scanner) Release(most int) {
	x.page.out.Release(most)
	x.page.aside.Release(most)
}

// Write reads the next piece of the markup. Each state reads a byte, or is left for one that
// does: if that ever fails, the rest of the piece is lost instead of read for ever.
func (x *Scanner) Write(p []byte) {
	i := 0
	for left := mostStates * (len(p) + 1); i < len(p) && left > 0; left-- {
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
			i = x.rawData(p, i, prose.ShownText)
		case inXMP:
			i = x.rawData(p, i, prose.RawText)
		case inPlaintext:
			i += x.page.out.Write(p[i:], prose.PlainText)
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
	x.page.lost = x.page.lost || i < len(p)
}

// Finish ends the last word. An unclosed tag or comment shows nothing.
func (x *Scanner) Finish() {
	x.page.out.Flush()
	switch x.st {
	case afterLess, afterLessSlash, afterRawLess:
		x.notRaw()
	}
	if x.page.how > rawMarkup && x.page.foreign() {
		x.page.rawEnd()
	}
	switch x.st {
	case inRawText, inScript, afterScriptLess:
		x.page.rawEnd()
	case inName, beforeAttr, inAttr, afterAttr, beforeValue, inDouble, inSingle, inBare:
		x.page.aside.Flush()
		x.page.aside.Cut(x.page.asideAt)
	}
	for len(x.page.opened) > 0 {
		x.page.endLast()
	}
	x.page.line()
}

// data reads text up to the next <.
func (x *Scanner) data(p []byte, i int) int {
	if x.page.out.IsSplit() && p[i] != '<' {
		x.page.out.Rejoin(p[i])
	}
	if x.page.how > rawMarkup || x.page.mute {
		k := bytes.IndexByte(p[i:], '<')
		if k < 0 {
			k = len(p) - i
		}
		x.page.rawPart(p[i : i+k])
		if x.page.mute {
			i += k
		} else {
			i += x.page.out.Write(p[i:], prose.ShownText)
		}
		if i == len(p) {
			return i
		}
	} else {
		if x.page.out.Complete() {
			if n := blankLen(p[i:]); n > 0 {
				x.page.out.Blank()
				i += n
			}
		}
		if i < len(p) && p[i] != '<' {
			i += x.page.out.Write(p[i:], prose.ShownText)
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
func (x *Scanner) markup() {
	if x.page.out.Incomplete() {
		x.page.out.Flush()
	}
}

func (x *Scanner) open(p []byte, i int) int {
	x.markup()
	c := p[i]
	switch {
	case ascii.IsLetter(c):
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
		x.page.startNote(x.page.xml)
		return i + 1
	}
	x.page.out.Blank()
	x.st = inData
	return i
}

func (x *Scanner) openEnd(p []byte, i int) int {
	switch c := p[i]; {
	case ascii.IsLetter(c):
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
func (x *Scanner) begin(end bool) {
	x.st = inName
	x.page.asideAt = len(x.page.aside.B)
	x.page.end = end
	x.page.key, x.page.more, x.page.n = 0, 0, 0
	x.page.slash, x.page.prefixed, x.page.real = false, false, false
	x.page.seen, x.page.gaps = 0, 0
	x.page.maybe = -1
	x.page.nWhich = 0
	x.page.effect, x.page.nAdds, x.page.own, x.page.literal = 0, 0, nil, nil
	x.page.values, x.page.showing = x.page.values[:0], 0
}

func (x *Scanner) name(p []byte, i int) int {
	if x.page.n == 0 && !x.page.xml && len(p)-i > 8 {
		eight := binary.LittleEndian.Uint64(p[i:])
		if n := nameLen(eight); n < 8 && nameByte[p[i+n]] == 0 {
			x.page.n = n
			x.page.key = bits.ReverseBytes64(element.LowerEight(eight)) >> (64 - 8*n)
			return x.nameEnd(p, i+n)
		}
	}
	key, more, n := x.page.key, x.page.more, x.page.n
	start, first := i, n == 0 && !x.page.prefixed
	for ; i < len(p); i++ {
		c := nameByte[p[i]]
		if c == 0 {
			break
		}
		if c == ':' && x.page.xml { // that was the prefix of a namespace
			key, more, n = 0, 0, 0
			x.page.prefixed = true
			continue
		}
		if n < 8 {
			key = key<<8 | uint64(c)
		} else {
			more = more<<8 | uint64(c)
		}
		n++
	}
	x.page.key, x.page.more, x.page.n = key, more, min(n, 17)
	if x.page.tree && !x.page.end {
		x.page.treeName(p[start:i], first, i < len(p))
	}
	if i == len(p) {
		return i
	}
	return x.nameEnd(p, i)
}

// nameEnd continues after the name of a tag.
func (x *Scanner) nameEnd(p []byte, i int) int {
	if x.page.n > 16 {
		x.page.tag = element.Longer()
	} else {
		x.page.tag = element.Find(x.page.key, x.page.more)
	}
	if p[i] == '>' {
		x.tagEnd()
		return i + 1
	}
	x.st = beforeAttr
	return x.attributes(p, i)
}

// attributes reads attributes whose quoted values are complete in p. It leaves other
// attributes to the states.
func (x *Scanner) attributes(p []byte, i int) int {
	for {
		for i < len(p) && nameByte[p[i]] == 0 {
			if p[i] == '>' {
				x.tagEnd()
				return i + 1
			}
			x.page.slash = p[i] == '/'
			i++
		}
		if i == len(p) {
			return i
		}
		x.page.slash = false
		start, n := i, 0
		var eight uint64
		if len(p)-i > 8 {
			eight = binary.LittleEndian.Uint64(p[i:])
			n = nameLen(eight)
		}
		for i += max(1, n); i < len(p) && attrByte[p[i]] != 0; i++ {
		}
		if i+1 >= len(p) || p[i] != '=' || p[i+1] != '"' && p[i+1] != '\'' {
			x.page.nAttr = 0
			x.st = inAttr
			return x.attrName(p, start)
		}
		kind := element.AttrNone
		if !x.page.end {
			if n < 8 && n != i-start {
				kind = x.page.attribute(element.FirstEight(p[start:i]), p[start:i])
			} else {
				kind = x.page.attribute(element.LowerEight(eight&(1<<(8*n)-1)), p[start:i])
			}
		}
		i += 2
		k := bytes.IndexByte(p[i:], p[i-1])
		if k < 0 {
			x.st = inDouble
			if p[i-1] == '\'' {
				x.st = inSingle
			}
			x.page.valueBegin(kind)
			return i
		}
		if kind != element.AttrNone && mayCount(kind, p[i:i+k]) && !x.page.styleValue(kind, p[i:i+k]) {
			x.page.valueBegin(kind)
			x.page.value(p[i : i+k])
			x.page.valueEnd()
		}
		i += k + 1
	}
}

func (x *Scanner) attrName(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		if attrByte[c] == 0 && (c != '=' || x.page.nAttr > 0) {
			break
		}
		if x.page.nAttr < len(x.page.attr) {
			x.page.attr[x.page.nAttr] = c
			x.page.nAttr++
		}
	}
	if i < len(p) {
		x.st = afterAttr
	}
	return i
}

func (x *Scanner) attrEnd(p []byte, i int) int {
	for i < len(p) && ascii.IsSpace(p[i]) {
		i++
	}
	if i == len(p) {
		return i
	}
	if p[i] == '=' {
		x.st = beforeValue
		return i + 1
	}
	if !x.page.end && x.page.nAttr < len(x.page.attr) {
		x.page.attribute(element.FirstEight(x.page.attr[:x.page.nAttr]), x.page.attr[:x.page.nAttr])
	}
	x.st = beforeAttr
	return i
}

func (x *Scanner) valueStart(p []byte, i int) int {
	for i < len(p) && ascii.IsSpace(p[i]) {
		i++
	}
	if i == len(p) {
		return i
	}
	kind := element.AttrNone
	if !x.page.end && x.page.nAttr < len(x.page.attr) {
		kind = x.page.attribute(element.FirstEight(x.page.attr[:x.page.nAttr]), x.page.attr[:x.page.nAttr])
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
		x.page.valueBegin(kind)
		return i
	}
	x.page.valueBegin(kind)
	return i + 1
}

func (x *Scanner) quoted(p []byte, i int, quote byte) int {
	k := bytes.IndexByte(p[i:], quote)
	if k < 0 {
		x.page.value(p[i:])
		return len(p)
	}
	x.page.value(p[i : i+k])
	x.page.valueEnd()
	x.st = beforeAttr
	return i + k + 1
}

func (x *Scanner) bare(p []byte, i int) int {
	start := i
	for i < len(p) && p[i] != '>' && !ascii.IsSpace(p[i]) {
		i++
	}
	x.page.value(p[start:i])
	if i < len(p) {
		x.page.valueEnd()
		x.st = beforeAttr
	}
	return i
}

// tagEnd applies a tag at its >.
func (x *Scanner) tagEnd() {
	t := x.page.tag
	x.st = inData
	x.page.mute = false
	if x.page.seen&(1<<element.AttrMaybe) != 0 && t.Kind == element.Meta && string(x.page.which[:x.page.nWhich]) == "refresh" {
		x.page.refresh(unescape(x.page.note))
	}
	if x.page.maybe >= 0 && !element.Wanted(t.Kind, x.page.which[:x.page.nWhich]) {
		x.page.aside.Remove(x.page.maybe, x.page.maybeEnd)
	}
	if x.page.office {
		if x.page.key|x.page.more != 0 && officeBreak[[2]uint64{x.page.key, x.page.more}] {
			x.page.line()
		}
		return
	}
	if t.Unshown && !x.page.end {
		x.page.effect |= hides
	}
	if x.page.linked != nil {
		x.page.url(x.page.linked)
		x.page.linked = nil
	}
	if len(x.page.slots.open) > 0 {
		x.page.slotTag(t)
	}
	if !x.page.styled(t) {
		x.page.plain(t)
	}
	if t.Kind >= element.RCDATA {
		x.special(t)
	}
	if last := &x.page.starts[x.page.nStarts%uint(len(x.page.starts))]; !x.page.end {
		x.page.nStarts++
		x.page.starts[x.page.nStarts%uint(len(x.page.starts))] = started{x.page.key, x.page.more, x.page.out.Position()}
	} else if last.key == x.page.key && last.more == x.page.more {
		x.page.nStarts--
	}
}

// special is tagEnd for elements whose content has its own rules.
func (x *Scanner) special(t *element.Tag) {
	if x.page.foreign() || x.page.end {
		x.specialForeign(t)
		return
	}
	x.raw = t.Name
	switch t.Kind {
	case element.RCDATA:
		x.page.unmarked(t)
		x.st = inRCDATA
	case element.XMP:
		x.page.line()
		x.st = inXMP
	case element.Plaintext:
		x.page.line()
		x.st = inPlaintext
	case element.RawText, element.Style:
		x.st = inRawText
		x.page.rawBegin(t)
	case element.Script:
		x.st = inScript
		x.escape = scriptPlain
		x.page.rawBegin(t)
	case element.Foreign:
		x.page.between()
		x.enter()
	}
}

// specialForeign is special for XML (without raw text) and for end tags.
func (x *Scanner) specialForeign(t *element.Tag) {
	switch t.Kind {
	case element.RCDATA, element.XMP, element.Plaintext:
		x.page.unmarked(t)
	}
	switch {
	case t.Kind == element.Foreign && x.page.end:
		x.page.between()
		if x.page.depth > 0 {
			x.page.depth--
			x.page.inHTML = x.page.outside&1 != 0
			x.page.outside >>= 1
		}
	case t.Kind == element.Foreign:
		x.page.between()
		x.enter()
	case t.Kind == element.HTMLIn || t.Name == "title":
		if t.Name == "desc" && x.page.breaksWord(t) {
			x.page.skipAside()
		}
		x.page.inHTML = x.page.depth > 0 && !x.page.end && !x.page.slash
	case t.Kind == element.Style || t.Kind == element.Script:
		if x.page.end {
			x.page.rawEnd()
		}
		x.page.mute = !x.page.end && !x.page.slash
		if x.page.mute {
			x.page.rawBegin(t)
			// In XML, only the namespace distinguishes a style sheet from text.
			x.page.mute = !x.page.tree && !x.page.strange && !x.page.prefixed
		}
	}
}

// enter begins an svg or math element. Depths above 64 are treated as 64.
func (x *Scanner) enter() {
	if x.page.slash || x.page.depth == 64 {
		return
	}
	x.page.depth++
	x.page.outside <<= 1
	if x.page.inHTML {
		x.page.outside |= 1
	}
	x.page.inHTML = false
}

// bang distinguishes comments, CDATA sections and other declarations.
func (x *Scanner) bang(p []byte, i int) int {
	if x.st == afterBang {
		x.matched = 0
		switch {
		case p[i] == '-':
			x.like = "--"
		case p[i] == '[' && x.page.foreign():
			x.like = "[CDATA["
		default:
			x.st = inBogus
			if x.page.xml {
				x.page.startNote(true)
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

func (x *Scanner) comment(p []byte, i int) int {
	start := i
	for {
		k := bytes.IndexByte(p[i:], '>')
		if k < 0 {
			x.recent = push(x.recent, p[start:])
			x.page.treeText(p[start:])
			return len(p)
		}
		i += k + 1
		r := push(x.recent, p[start:i-1])
		c, d := r&0xFF, r>>8&0xFF
		if (c == '-' || c == openDash) && (d == '-' || d == openDash) || r == '-'<<16|'-'<<8|'!' {
			x.page.treeText(p[start:i])
			x.st = inData
			return i
		}
	}
}

func (x *Scanner) bogus(p []byte, i int) int {
	k := bytes.IndexByte(p[i:], '>')
	if k < 0 {
		x.page.takeNote(p[i:])
		return len(p)
	}
	x.page.takeNote(p[i : i+k])
	if x.page.xml {
		x.page.instruction(x.page.note)
	}
	x.st = inData
	return i + k + 1
}

// cdata reads a CDATA section up to its ]]>.
func (x *Scanner) cdata(p []byte, i int) int {
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
			if !x.page.mute {
				x.page.out.Flush()
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
func (x *Scanner) cdataPart(p []byte) {
	if !x.page.mute {
		how := prose.PlainText
		if x.page.tree {
			how = prose.CueText
		}
		x.page.out.Write(p, how)
	}
	if x.page.how > rawMarkup {
		x.page.rawPart(bytes.ReplaceAll(p, []byte("&"), []byte("&amp;"))) // the surrounding text decodes references
	}
}

// rawData reads text that ends only at its own end tag.
func (x *Scanner) rawData(p []byte, i int, t *prose.Table) int {
	i += x.page.out.Write(p[i:], t)
	if i == len(p) {
		return i
	}
	x.back, x.st, x.matched = x.st, afterRawLess, 0
	return i + 1
}

// skip is rawData for text that is not shown.
func (x *Scanner) skip(p []byte, i int) int {
	k := bytes.IndexByte(p[i:], '<')
	if k < 0 {
		x.page.rawPart(p[i:])
		return len(p)
	}
	x.page.rawPart(p[i : i+k])
	x.back, x.st, x.matched = x.st, afterRawLess, 0
	return i + k + 1
}

// rawLess continues after a < in raw text: /name followed by a byte that ends a name is the
// end tag.
func (x *Scanner) rawLess(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := ascii.Lower(p[i])
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
func (x *Scanner) endRaw() {
	x.page.rawEnd()
	x.begin(true)
	x.st = beforeAttr
	x.page.tag = element.Named(x.raw)
	x.page.real = true
}

// notRaw treats the bytes since a < as text.
func (x *Scanner) notRaw() {
	if x.st != afterRawLess {
		x.page.out.Blank()
		x.st = inData
		return
	}
	x.st = x.back
	if x.back == inRawText {
		x.rawLessPart()
		return
	}
	x.page.out.Flush()
	x.page.out.Blank()
	if x.matched > 1 {
		x.page.out.Write([]byte(x.raw[:x.matched-1]), prose.RawText)
	}
}

// script reads a script, which may hide its end tag in text that looks like a comment (HTML
// standard, 13.2.5.15 and following).
func (x *Scanner) script(p []byte, i int) int {
	if x.escape == scriptPlain {
		k := bytes.IndexByte(p[i:], '<')
		if k < 0 {
			x.page.rawPart(p[i:])
			return len(p)
		}
		x.page.rawPart(p[i : i+k])
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
			x.page.rawPart(p[start:i])
			x.st, x.matched, x.dashes = afterScriptLess, 0, 0
			return i + 1
		case '>':
			if x.dashes >= 2 {
				x.page.rawPart(p[start : i+1])
				x.escape = scriptPlain
				return i + 1
			}
		}
		x.dashes = 0
	}
	x.page.rawPart(p[start:])
	return i
}

// scriptText continues the script after a < that did not end it. The bytes since then are
// text.
func (x *Scanner) scriptText() {
	x.st = inScript
	if x.page.how != rawNothing {
		x.page.rawPart([]byte("<" + x.like[:x.matched]))
	}
}

func (x *Scanner) scriptLess(p []byte, i int) int {
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
		c := ascii.Lower(p[i])
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

// doctype reads a document type declaration up to its end: a > outside strings, comments and
// brackets.
func (x *Scanner) doctype(p []byte, i int) int {
	start := i
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case x.quote == '-': // a comment
			if c == '>' && x.recent&0xFFFF == '-'<<8|'-' {
				x.quote = 0
			}
		case x.quote == '?': // an instruction
			if c == '>' && x.recent&0xFF == '?' {
				x.quote = 0
			}
		case c == '?' && x.recent&0xFF == '<':
			x.quote, c = '?', 0
		case x.quote != 0:
			if c == x.quote {
				x.quote = 0
			}
		case c == '"' || c == '\'':
			x.quote = c
		case c == '[' || c == ']':
			x.subset = c == '['
		case c == '-' && x.recent == '<'<<16|'!'<<8|'-':
			x.quote, c = '-', 0
		case c == '>' && !x.subset:
			x.page.takeNote(p[start:i])
			x.page.declare(x.page.note)
			x.st = inData
			return i + 1
		}
		x.recent = (x.recent<<8 | uint32(c)) & 0xFFFFFF
	}
	x.page.takeNote(p[start:])
	return i
}

// rawLessPart adds a < and the letters after it that resembled an end tag.
func (x *Scanner) rawLessPart() {
	if x.page.how != rawNothing {
		x.page.rawPart([]byte("<"))
		if x.matched > 0 {
			x.page.rawPart([]byte("/" + x.raw[:x.matched-1]))
		}
	}
}
