package content

import (
	"bytes"
)

// This file handles words whose visible letters differ from the source because of style:
// elements within a word that show nothing, blocks that begin no line, text that a style sheet
// adds or turns. The meaning of a class may be in an external sheet, and which rule of a sheet
// applies depends on all of them. So further readings of such a word are written after it: one
// without the text that is certainly hidden, one without all that may be hidden.

// An effect is the effect of style on an element.
type effect uint8

const (
	hides    effect = 1 << iota // it shows nothing, or only elsewhere
	mayHide                     // a class, an id or a style may hide it
	flows                       // it is a block that begins no line
	turns                       // its text is shown backwards
	rightTo                     // its boxes are laid out from right to left
	addsText                    // text is added before or after its content
	lays                        // blocks in it begin no lines
)

const (
	mostRule   = 16 << 10 // bytes of a rule of a style sheet
	mostStyled = 4 << 10  // names to which a page gives a style
	mostOpen   = 16       // open elements with such a style
)

// A styles has the relevant style of elements in the style sheets of a page, by the hash of a
// name: an element's, a class's with its dot, an id's with its #.
type styles struct {
	table []nameStyle // open hash, at most half full; its length is a power of two
	n     int
	looks [64]uint64 // looks of the names of classes and ids in the table
	tags  [4]uint64  // hashes of the names of elements in it, by their lowest bits
	any   effect     // of elements without a name
	kinds effect     // of all names together
	all   uint16     // text added to them
	added []addedText
	named map[string][]addedValue // by name of a custom property, or of a counter style with an @
	found declarations            // of the current rule
	rest  []byte                  // the beginning of a rule
	clean []byte                  // a rule without comments and escapes
	quote byte                    // open string quote in it, or * in a comment
	last  byte                    // last byte read
	lost  bool
}

type nameStyle struct {
	hash uint32 // 0 for a free slot
	effect
	added uint16 // index in styles.added, plus one
}

func (s *styles) reset() {
	if s.n > 0 {
		clear(s.table)
	}
	clear(s.added)
	clear(s.named)
	*s = styles{table: s.table, rest: s.rest[:0], clean: s.clean, added: s.added[:0], named: s.named, found: s.found}
}

// nameHash is the FNV-1a hash of mark and a name in lower case.
func nameHash(mark byte, name []byte) uint32 {
	h := (uint32(2166136261) ^ uint32(mark)) * 16777619
	for _, c := range name {
		h = (h ^ uint32(lower(c))) * 16777619
	}
	return h | 1
}

// anyHash stands for elements without a name.
const anyHash = 3

// mostProbes is the number of probes for a name: more names with the same hash occur only if
// somebody chose them for that.
const mostProbes = 32

// lookPlace returns the position in styles.looks for the name of a class or id: by its length,
// first and last byte. It rejects most names of a page, which have no relevant style.
func lookPlace(name []byte) (row int, bit uint64) {
	return len(name) & 63, 1 << ((lower(name[0])*7 + lower(name[len(name)-1])) & 63)
}

// slot returns the slot of a name, or a free one for it; nil after too many probes.
func (s *styles) slot(hash uint32) *nameStyle {
	for i := range uint32(mostProbes) {
		if e := &s.table[(hash>>1+i)&uint32(len(s.table)-1)]; e.hash == hash || e.hash == 0 {
			return e
		}
	}
	return nil
}

func (s *styles) find(hash uint32) (e nameStyle) {
	if s.n > 0 {
		if at := s.slot(hash); at != nil {
			e = *at
		}
	}
	return e
}

// set returns the entry of a name for changes, nil if there are too many names.
func (s *styles) set(hash uint32) *nameStyle {
	switch {
	case s.n == mostStyled:
		s.lost = true
		return nil
	case 2*(s.n+1) > len(s.table):
		old := s.table
		s.table = make([]nameStyle, max(64, 2*len(old)))
		for _, e := range old {
			if e.hash == 0 {
				continue
			}
			if at := s.slot(e.hash); at != nil {
				*at = e
			}
		}
	}
	e := s.slot(hash)
	if e == nil {
		s.lost = true
		return nil
	}
	if e.hash == 0 {
		e.hash = hash
		s.n++
	}
	return e
}

// write reads the next part of a style sheet.
func (s *styles) write(p []byte) {
	next := marks{-1, -1, -1, -1}
	marked := -1 // up to here, p has nothing that changes the meaning of a }
	for i := 0; i < len(p); {
		end := len(p)
		if k := bytes.IndexByte(p[i:], '}'); k >= 0 {
			end = i + k
		}
		if marked < end && s.quote == 0 {
			marked = next.from(p, i)
		}
		if s.quote != 0 || marked < end {
			from := i
			if s.quote == 0 {
				from = marked
			}
			end = s.ruleEnd(p, from)
		}
		if len(s.rest) == 0 && end < len(p) {
			s.rule(p[i:end], end <= marked)
		} else {
			s.hold(p[i:end])
		}
		if i = end + 1; end < len(p) && len(s.rest) > 0 {
			s.rule(s.rest, false)
			s.rest = s.rest[:0]
		}
	}
	if len(p) > 0 {
		s.last = p[len(p)-1]
	}
}

// hold keeps a part of a rule whose end has not arrived. A rule that is too long is applied as
// far as it has arrived; only a single declaration that is too long is dropped, because most
// of those are pictures.
func (s *styles) hold(p []byte) {
	for len(p) > 0 {
		n := min(len(p), mostRule-len(s.rest))
		s.rest, p = append(s.rest, p[:n]...), p[n:]
		if len(s.rest) < mostRule {
			return
		}
		open := bytes.LastIndexByte(s.rest, '{') + 1
		whole := bytes.LastIndexByte(s.rest, ';') + 1
		switch {
		case open == 0 || open > mostRule/2: // otherwise each declaration would require reading its selectors
			s.lost = true
			s.rest = s.rest[:0]
		case whole > open:
			s.rule(s.rest[:whole], false)
			s.rest = append(s.rest[:open], s.rest[whole:]...)
		default:
			s.lost = s.lost || mayMatter(s.rest[open:])
			s.rest = s.rest[:open]
		}
	}
}

// marks are positions at which the next string, comment or escape in a piece may begin.
type marks [4]int

// from returns the first of them from i on. It searches each byte only once for each kind,
// over all calls.
func (m *marks) from(p []byte, i int) int {
	first := len(p)
	for k, c := range [...]byte{'"', '\'', '*', '\\'} {
		if m[k] < i {
			if m[k] = len(p); i < len(p) {
				if n := bytes.IndexByte(p[i:], c); n >= 0 {
					m[k] = i + n
				}
			}
		}
		first = min(first, m[k])
	}
	return first
}

// end ends the sheet and an incomplete rule.
func (s *styles) end() {
	s.rule(s.rest, false)
	s.rest, s.quote = s.rest[:0], 0
}

// ruleEnd returns the position of the } that ends the rule to which p[i:] belongs, len(p) if
// it does not end. There is none before i.
func (s *styles) ruleEnd(p []byte, i int) int {
	for ; i < len(p); i++ {
		if s.quote != 0 { // skip to its possible end
			c := s.quote
			if c == '*' {
				c = '/'
			}
			end := len(p)
			if k := bytes.IndexByte(p[i:], c); k >= 0 {
				end = i + k
			}
			if s.quote != '*' {
				if k := bytes.IndexByte(p[i:end], '\n'); k >= 0 {
					end = i + k
				}
			}
			if i = end; i == len(p) {
				return i
			}
		}
		switch c := p[i]; {
		case s.quote == 0 && c == '}':
			return i
		case s.quote == 0 && (c == '"' || c == '\''):
			s.quote = c
		case s.quote == 0 && c == '*' && s.before(p[:i]) == '/':
			s.quote = '*'
		case s.quote == '*' && c == '/' && s.before(p[:i]) == '*', s.quote == c && c != '*', s.quote != '*' && s.quote != 0 && c == '\n':
			s.quote = 0
		}
	}
	return len(p)
}

// before returns the byte before the bytes that follow p.
func (s *styles) before(p []byte) byte {
	if len(p) > 0 {
		return p[len(p)-1]
	}
	return s.last
}

// rule reads selectors { declarations. plain says that it has neither comments nor escapes.
func (s *styles) rule(p []byte, plain bool) {
	if !plain && bytes.Contains(p, []byte("/*")) {
		s.clean = withoutComments(s.clean[:0], p)
		p = s.clean
	}
	if !plain && bytes.IndexByte(p, '\\') >= 0 {
		p = unescapeCSS(p)
	}
	at, outer := -1, -1
	for { // the last brace, because rules are nested in @media
		k := bytes.IndexByte(p[at+1:], '{')
		if k < 0 {
			break
		}
		at, outer = at+1+k, at
	}
	if at < 0 {
		return
	}
	selectors := p[:at]
	selectors = selectors[max(outer, bytes.LastIndexByte(selectors, ';'))+1:]
	if (beginsWith(selectors, '@') || outer >= 0 && bytes.Contains(p[:outer], []byte("@function "))) && s.definition(p[:at], p[at+1:]) {
		return
	}
	d := s.declared(p[at+1:])
	if d.effect == 0 {
		return
	}
	if !plain || bytes.ContainsAny(selectors, "([") {
		selectors = withoutGroups(selectors)
	}
	for len(selectors) > 0 {
		one, rest, _ := bytes.Cut(selectors, []byte{','})
		s.selector(one, d)
		selectors = rest
	}
}

// beginsWith reports whether c is the first byte of p that is not a blank.
func beginsWith(p []byte, c byte) bool {
	for len(p) > 0 && isSpace(p[0]) {
		p = p[1:]
	}
	return len(p) > 0 && p[0] == c
}

// selector records the style of the elements that a selector matches, by its last compound:
// the elements around are ignored.
func (s *styles) selector(p []byte, d *declarations) {
	p = bytes.TrimSpace(p)
	for i := len(p) - 1; i >= 0; i-- {
		if c := p[i]; c <= ' ' || c == '>' || c == '+' || c == '~' {
			p = p[i+1:]
			break
		}
	}
	if len(p) == 0 {
		return
	}
	name, _, _ := bytes.Cut(p, []byte(":"))
	pseudo := p[bytes.LastIndexByte(p, ':')+1:]
	before, after := hasFold(pseudo, "before") || hasFold(pseudo, "marker"), hasFold(pseudo, "after")
	if len(pseudo) == len(p) {
		before, after = false, false
	}
	e, add := d.effect, d.own
	switch {
	case before:
		e, add = e&addsText, addedText{before: d.content}
	case after:
		e, add = e&addsText, addedText{after: d.content}
	case bytes.Contains(p, []byte("::")):
		return
	}
	if len(add.before)+len(add.after) == 0 {
		e &^= addsText
	}
	if e == 0 {
		return
	}
	var to *nameStyle
	switch i := bytes.IndexAny(name, ".#"); {
	case i >= 0:
		mark := name[i]
		name = name[i+1:]
		if end := bytes.IndexAny(name, ".#["); end >= 0 {
			name = name[:end]
		}
		if len(name) == 0 {
			return
		}
		row, bit := lookPlace(name)
		s.looks[row] |= bit
		to = s.set(nameHash(mark, name))
	case len(name) > 0 && isLetter(name[0]):
		if end := bytes.IndexByte(name, '['); end >= 0 {
			name = name[:end]
		}
		hash := nameHash(0, name)
		s.tags[hash>>1&3] |= 1 << (hash >> 3 & 63)
		to = s.set(hash)
	default:
		s.any |= e &^ addsText
		to = s.set(anyHash)
	}
	if to == nil {
		return
	}
	to.effect |= e
	s.kinds |= e
	if e&addsText == 0 {
		return
	}
	if to.added == 0 {
		if len(s.added) == mostStyled {
			s.lost = true
			return
		}
		s.added = append(s.added, addedText{})
		to.added = uint16(len(s.added))
	}
	if to.hash == anyHash {
		s.all = to.added
	}
	a := &s.added[to.added-1]
	s.lost = a.add(add) || s.lost
}

func hasFold(p []byte, s string) bool { return len(p) >= len(s) && equalLower(p[:len(s)], s) }

// withoutGroups returns selectors without the content of parentheses and brackets.
func withoutGroups(p []byte) []byte {
	out := make([]byte, 0, len(p))
	deep, quote := 0, byte(0)
	for _, c := range p {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case deep > 0 && (c == '"' || c == '\''):
			quote = c
		case c == '(' || c == '[':
			if deep == 0 && c == '[' {
				out = append(out, c)
			}
			deep++
		case deep > 0 && (c == ')' || c == ']'):
			deep--
		case deep == 0:
			out = append(out, c)
		}
	}
	return out
}

func withoutComments(out, p []byte) []byte {
	for {
		i := bytes.Index(p, []byte("/*"))
		if i < 0 {
			return append(out, p...)
		}
		out, p = append(out, p[:i]...), p[i+2:]
		end := bytes.Index(p, []byte("*/"))
		if end < 0 {
			return out
		}
		p = p[end+2:]
	}
}

// unescapeCSS decodes the escapes of a style sheet.
func unescapeCSS(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] != '\\' || i+1 == len(p) {
			out = append(out, p[i])
			continue
		}
		var r rune
		n := i + 1
		for ; n < len(p) && n < i+7 && unhex(p[n]) >= 0; n++ {
			r = r<<4 | unhex(p[n])
		}
		switch {
		case n == i+1 && p[n] == '\n':
		case n == i+1:
			out = append(out, p[n])
		default:
			out = append(out, string(numeric(r))...)
			if n == len(p) || !isSpace(p[n]) {
				n--
			}
		}
		i = n
	}
	return out
}

// declared returns the effect of declarations. It is valid until the next call.
func (s *styles) declared(p []byte) *declarations {
	d := &s.found
	*d = declarations{}
	for len(p) > 0 {
		i := 0
		for i < len(p) && p[i] <= ' ' {
			i++
		}
		p = p[i:]
		one := p
		if k := bytes.IndexByte(p, ';'); k >= 0 {
			one, p = p[:k], p[k+1:]
		} else {
			p = nil
		}
		if !mayMatter(one) {
			continue
		}
		for len(p) > 0 && bytes.IndexByte(one, '(') >= 0 && bytes.Count(one, []byte{'('}) > bytes.Count(one, []byte{')'}) { // the ; is in a function
			n := bytes.IndexByte(p, ';')
			if n < 0 {
				n = len(p)
			}
			one, p = one[:len(one)+1+n], p[min(len(p), n+1):]
		}
		k := bytes.IndexByte(one, ':')
		if k < 0 {
			continue
		}
		name, value := one[:k], one[k+1:]
		for len(value) > 0 && value[0] <= ' ' {
			value = value[1:]
		}
		for len(name) > 0 && isSpace(name[len(name)-1]) {
			name = name[:len(name)-1]
		}
		d.effect |= declares(name, value)
		s.adds(d, name, value)
	}
	return d
}

// mayMatter reports whether a declaration may have an effect, by the first letters of its
// property: most do not.
func mayMatter(one []byte) bool {
	if len(one) < 6 {
		return false
	}
	a, b, c := lower(one[0]), lower(one[1]), lower(one[2])
	switch a {
	case 'd':
		return b == 'i' // display, direction
	case 'f':
		return b == 'o' && c == 'n' || b == 'l' && c == 'o' // font-size, float
	case 'p':
		return b == 'o' && c == 's' // position
	case 'u':
		return b == 'n' // unicode-bidi
	case 'c':
		return b == 'o' && c == 'n' // content
	case 'l':
		return b == 'i' && c == 's' // list-style
	case 'q':
		return b == 'u' // quotes
	case '-':
		// Content may refer to it: it is a text, or var(), attr() or a function of the page.
		if b != '-' {
			return false
		}
		value := one[max(0, bytes.IndexByte(one, ':')):]
		return bytes.IndexByte(value, '"') >= 0 || bytes.IndexByte(value, '\'') >= 0 ||
			bytes.IndexByte(value, '(') >= 0 && (bytes.Contains(value, []byte("r(")) || bytes.Contains(value, []byte("R(")) || bytes.Contains(value, []byte("--")))
	}
	return false
}

// declares returns the effect of one declaration.
func declares(name, value []byte) effect {
	word := value
	if k := bytes.IndexByte(word, '!'); k >= 0 {
		word = word[:k]
	}
	word = bytes.TrimSpace(word)
	is := func(s string) bool { return equalLower(word, s) }
	switch {
	case equalLower(name, "display"):
		switch {
		case is("none"):
			return hides
		case is("flex"), is("grid"):
			return lays
		case is("inline-flex"), is("inline-grid"):
			return lays | flows
		case hasFold(word, "inline"), is("contents"), is("table-cell"):
			return flows
		}
	case equalLower(name, "position"):
		if is("absolute") || is("fixed") {
			return hides | flows
		}
	case equalLower(name, "float"):
		if is("left") || is("right") {
			return flows
		}
	case equalLower(name, "direction"):
		if is("rtl") {
			return rightTo
		}
	case equalLower(name, "unicode-bidi"):
		if is("bidi-override") || is("isolate-override") {
			return turns
		}
	case equalLower(name, "font-size"), equalLower(name, "font"):
		if isTiny(word) {
			return hides
		}
	}
	return 0
}

// isTiny reports whether a length is too small to be visible.
func isTiny(v []byte) bool {
	n, size, digit := 0, 0.0, 0.0
	for ; n < len(v) && (v[n] >= '0' && v[n] <= '9' || v[n] == '.'); n++ {
		switch {
		case v[n] == '.':
			digit = 1
		case digit == 0:
			size = size*10 + float64(v[n]-'0')
		default:
			digit /= 10
			size += digit * float64(v[n]-'0')
		}
	}
	if n == 0 {
		return false
	}
	switch unit := v[n:]; {
	case len(unit) > 0 && unit[0] == '%':
		return size < 10
	case hasFold(unit, "em"), hasFold(unit, "rem"), hasFold(unit, "ex"), hasFold(unit, "ch"):
		return size < 0.1
	}
	return size < 2
}

// An otherReading is another reading of the current word: it has another beginning, and
// continues like the text from a position on.
type otherReading struct {
	at   int // position in the text, 0 if there is none
	say  bool
	word [longestWord]byte
	n    int
}

// begun returns a reading that begins with the text of r so far, or with the last word of the
// text.
func (f *flow) begun(r *otherReading) otherReading {
	if r.at == 0 {
		w := otherReading{}
		w.n = copy(w.word[:], lastWord(f.b))
		return w
	}
	w := *r
	w.add(f.b[min(r.at, len(f.b)):])
	w.say = w.say || w.n > r.n && r.n > 0
	return w
}

// add extends the word. A word that is too long is discarded.
func (r *otherReading) add(p []byte) {
	if r.n > 0 && r.word[r.n-1] == ' ' {
		p = bytes.TrimLeft(p, " ")
	}
	if len(p) > len(r.word)-r.n {
		r.n, r.say = 0, false
		return
	}
	r.n += copy(r.word[r.n:], p)
}

// settle brings the end of the text into its final form.
func (f *flow) settle() {
	f.flush()
	if f.joins {
		f.compose()
	}
}

// goOn continues a reading with the following text.
func (f *flow) goOn(which int, w otherReading) {
	w.at = len(f.b)
	f.further[which] = w
	f.has = true
	if which == 0 {
		f.others = nil
	}
}

// sayFurther writes the other readings of the word that has ended.
func (f *flow) sayFurther() {
	f.has = false
	end := len(f.b)
	lastWord := f.b[bytes.LastIndexByte(f.b, ' ')+1:]
	for i := range f.further {
		r := &f.further[i]
		if r.at == 0 {
			continue
		}
		rest := f.b[min(r.at, end):end]
		r.at = 0
		if len(rest) > longestWord || len(rest)+r.n == 0 || len(rest) == 0 && !r.say {
			continue
		}
		word := bytes.TrimLeft(r.word[:r.n], " ")
		lastWord = f.sayWord(lastWord, word, rest)
		if i == 0 && len(f.others) > 0 {
			lastWord = sayOthers(f, lastWord, r.word[:r.n], rest)
		}
	}
}

// sayWord writes the word begin + rest, unless it equals out, the word written last. It
// returns the last written word.
func (f *flow) sayWord(out, begin, rest []byte) []byte {
	from := len(f.b)
	if f.b[from-1] != ' ' {
		f.b = append(f.b, ' ')
		from++
	}
	f.b = append(append(f.b, begin...), rest...)
	if bytes.Equal(f.b[from:], out) {
		f.b = f.b[:from]
		return out
	}
	return f.b[from:]
}

// A chain is the word that a style sheet made of elements without text of their own.
type chain struct {
	to   int // where the last of them ended, counted from the beginning of all text
	word otherReading
}

// A styledElement is an open element with a style.
type styledElement struct {
	key, more uint64
	deep      int // number of open elements of its name in it
	within    int // number of open lists or tables in it, if its end tag is optional
	effect
	after []string        // text that its style adds after it, as returned by [shownBy]
	turn  int             // which of several texts is used
	start int             // where its text begins, counted from the beginning of all text
	words [2]otherReading // the words that it interrupts, in both readings
	host  *slotHost       // if it has a shadow root that has ended
}

// styleOf returns the effect of style on the element of a start tag.
func (x *page) styleOf(t *tag) (e effect) {
	e = x.effect
	if x.sheets.n > 0 {
		e |= x.sheets.any
		s := x.sheets.find(x.sheets.element(t, x.key, x.more))
		e |= s.effect
		addNamed(x, s.added)
		addNamed(x, x.sheets.all)
	}
	if x.nAdded > 0 {
		e |= addsText
	}
	if x.tight&1 != 0 && (t.name == "td" || t.name == "th") {
		e |= flows
	}
	inline := t.kind == tagInline || t.kind == tagTurned || t.kind == tagUnknown
	if n := len(x.opened); n > 0 && x.opened[n-1].effect&lays != 0 && t.kind == tagBlock {
		e |= flows
	}
	if !inline && e&flows == 0 {
		e &^= rightTo
	}
	if inline && !x.xml {
		e &^= flows
	}
	if e&rightTo != 0 {
		e |= turns
	}
	if e&hides != 0 {
		e |= mayHide
	}
	return e &^ rightTo
}

// mayMatch reports whether a style sheet may match all elements of a tag.
func (s *styles) mayMatch(t *tag) bool {
	return s.n > 0 && (t.hash == 0 || s.any != 0 || s.all != 0 || s.tags[t.hash>>1&3]&(1<<(t.hash>>3&63)) != 0)
}

// element returns the hash of an element's name.
func (s *styles) element(t *tag, key, more uint64) uint32 {
	if t.hash != 0 {
		return t.hash
	}
	var name [16]byte
	n := 0
	for _, part := range [...]uint64{key, more} {
		for shift := 56; shift >= 0; shift -= 8 {
			if c := byte(part >> shift); c != 0 {
				name[n] = c
				n++
			}
		}
	}
	return nameHash(0, name[:n])
}

// wantsNames reports whether class names and ids of an element may match a style sheet.
func (x *page) wantsNames() bool {
	if x.sheets.n == 0 || inWord(&x.out) {
		return inWord(&x.out)
	}
	kinds := x.sheets.kinds & (turns | rightTo | addsText | lays)
	switch x.tag.kind {
	case tagBlock:
		kinds |= x.sheets.kinds & flows
	case tagInline, tagTurned, tagUnknown:
		kinds |= x.sheets.kinds & hides
	}
	return kinds != 0
}

// styleValue reads a complete value that needs no decoding, and reports whether it did.
func (x *page) styleValue(kind attrKind, v []byte) bool {
	if kind != attrClass && kind != attrID && kind != attrSheet || !x.out.multi || x.seen&(1<<kind) != 0 || bytes.IndexByte(v, '&') >= 0 {
		return false
	}
	x.seen |= 1 << kind
	switch kind {
	case attrClass:
		x.applyNames('.', v)
	case attrID:
		x.applyNames('#', v)
	default:
		x.declarations(v)
	}
	return true
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
			s := x.sheets.find(nameHash(mark, v[:n]))
			x.effect |= s.effect
			addNamed(x, s.added)
		}
		v = v[min(len(v), n+1):]
	}
}

// mayHide records that an inline element may be hidden. An element beside a word, rather than
// in it, seldom is.
func (x *page) mayHide() {
	if t := x.tag; inWord(&x.out) && (t.kind == tagInline || t.kind == tagUnknown) && t.name != "sub" && t.name != "sup" && t.name != "a" {
		x.effect |= mayHide
	}
}

// inWord reports whether the text ends within a word.
func inWord(f *flow) bool { return f.b[len(f.b)-1] != ' ' }

// breaks returns the reading of the word that is interrupted here, an empty one outside words.
func (f *flow) breaks() (w otherReading) {
	f.settle()
	if inWord(f) || f.has {
		w = f.begun(&f.further[0])
	}
	return w
}

// styled applies a tag together with its style, if it has one, and reports whether it did.
func (x *page) styled(t *tag) bool {
	switch {
	case x.transform && x.prefixed: // an element of XSLT separates nothing
		x.effect |= flows
	case x.effect == 0 && x.nAdded == 0 && len(x.opened) == 0 && x.tight&1 == 0 && !x.sheets.mayMatch(t), x.tree, t.kind >= tagMeta && t.kind != tagInput:
		return false
	}
	if t.kind == tagBlock && !x.xml {
		x.endImplied(t)
	}
	if x.end {
		return x.leave(t)
	}
	if n := len(x.opened); n > 0 && x.opened[n-1].key == x.key && x.opened[n-1].more == x.more && !isVoid(t) {
		x.opened[n-1].deep++
	}
	e := x.styleOf(t)
	if e == 0 {
		return false
	}
	f := &x.out
	f.settle()
	broken := inWord(&x.out) || f.has
	if !broken && e&^(hides|mayHide) == 0 && t.kind == tagBlock {
		return false
	}
	s := styledElement{key: x.key, more: x.more, effect: e}
	if broken {
		s.words = [2]otherReading{f.begun(&f.further[0]), f.begun(&f.further[1])}
	}
	if e&flows != 0 {
		f.further[0].at, f.further[1].at, f.further[2].at, f.has = 0, 0, 0, false
	}
	x.plain(t)
	s.start = f.gone + len(f.b)
	if isVoid(t) && !x.xml {
		if e&(hides|mayHide|flows) != 0 {
			x.showNothing(&s)
		}
		return true
	}
	chained := x.chain.to == s.start
	before, turn := shownBy(x, &s)
	if e&flows != 0 && broken || len(before) > 0 {
		var w [2]otherReading
		switch {
		case broken && (e&flows != 0 || t.kind != tagBlock):
			w = s.words
		case chained:
			w[0] = x.chain.word
		}
		f.goOnWith(w, before, turn)
	}
	if x.slash && x.foreign() {
		return true
	}
	if e&turns != 0 {
		if x.turns++; x.turns == 1 {
			f.beginReversed()
		}
	}
	if len(x.opened) == mostOpen {
		x.forget(0)
	}
	x.opened = append(x.opened, s)
	return true
}

// forget drops an open element.
func (x *page) forget(i int) {
	s := x.opened[i]
	if s.effect&turns != 0 {
		x.turns = max(0, x.turns-1)
	}
	x.opened = append(x.opened[:i], x.opened[i+1:]...)
	if s.host != nil {
		closeHost(x, s.host)
	}
}

// isVoid reports whether an element has no content.
func isVoid(t *tag) bool {
	switch t.name {
	case "br", "hr", "img", "embed", "input", "wbr", "frame":
		return true
	}
	return t.kind == tagHidden && t.name != "map" && t.name != "picture"
}

// leave applies an end tag if it ends an element with a style, and reports whether it did.
func (x *page) leave(t *tag) bool {
	i := len(x.opened) - 1
	for ; i >= 0; i-- {
		if s := &x.opened[i]; s.key == x.key && s.more == x.more {
			break
		}
	}
	if i < 0 {
		return false
	}
	if x.opened[i].deep > 0 {
		x.opened[i].deep--
		return false
	}
	s := x.opened[i]
	x.forget(i)
	f := &x.out
	f.settle()
	if s.effect&turns != 0 && x.turns == 0 {
		f.turnBack()
	}
	w := [2]otherReading{x.out.breaks()}
	if len(s.after) > 1 {
		w[1] = f.begun(&f.further[1])
	}
	added := s.effect&addsText != 0 && s.start == f.gone+len(f.b)
	if added && w[0].n == 0 && x.chain.to == s.start {
		w[0] = x.chain.word
	}
	x.plain(t)
	if s.effect&(hides|mayHide) != 0 {
		x.showNothing(&s)
	}
	if len(s.after) > 0 || s.effect&(flows|hides) == flows && w[0].n > 0 {
		f.goOnWith(w, s.after, s.turn)
		if t.kind == tagBlock && s.effect&flows == 0 {
			f.blank() // the following text is on another line
		}
	}
	if added {
		chainAfter(x, w[0], s.after)
	}
	return true
}

// chainAfter keeps the word of an element that has no text but what a style sheet adds: the
// text that one adds to the next element may continue it, if a style in a later or an external
// sheet sets them side by side.
func chainAfter(x *page, w otherReading, after []string) {
	if len(after) > 0 {
		w.add([]byte(after[len(after)-1]))
	}
	w.say = true
	x.chain = chain{to: x.out.gone + len(x.out.b), word: w}
}

// showNothing continues the word that an element interrupts after it.
func (x *page) showNothing(s *styledElement) {
	f := &x.out
	at := s.start - f.gone
	glued := at > 0 && at < len(f.b) && f.b[at] != ' ' && f.b[at-1] != ' '
	if s.effect&hides == 0 && !(glued && inWord(&x.out)) {
		return // without the sheet, people read several words
	}
	for i, w := range s.words {
		if s.effect&hides == 0 && (i == 0 || w.n == 0) {
			continue
		}
		w.say = w.say || glued && w.n > 0
		f.goOn(i, w)
	}
}
