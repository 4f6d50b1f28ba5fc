package markup

import (
	"bytes"
	"slices"

	"shuultuur/content/element"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// This file reads style sheets: which elements, classes and ids have a style that changes how
// words are read.

const (
	mostRule      = 16 << 10  // bytes of a rule of a style sheet that are kept before it is shortened
	mostSelectors = 256 << 10 // bytes of its selectors
	mostStyled    = 64 << 10  // names to which a page gives a style
	mostAdded     = 16 << 10  // of these, names to which it adds text
	mostOpen      = 16        // open elements with such a style

	keptTable = 8 << 10                 // slots that are kept for the next page
	tooLong   = 4*prose.LongestWord + 1 // bytes of a string that is no part of a word, nor a URL
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
	room  int                     // bytes that it may have before it is shortened; 0 is mostRule
	left  byte                    // what is left out of it: * in a comment, a quote in a string, ) in a URL
	mark  byte                    // last byte that was left out, which may change the meaning of the next
	fewer bool                    // some of its selectors are missing
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
	if len(s.table) > keptTable {
		s.table = nil
	}
	if cap(s.rest) > 2*mostRule {
		s.rest, s.clean = nil, nil
	}
	if len(s.added) > keptTable {
		s.added = nil
	}
	if len(s.named) > keptTable {
		s.named = nil
	}
	clear(s.added)
	clear(s.named)
	*s = styles{table: s.table, rest: s.rest[:0], clean: s.clean, added: s.added[:0], named: s.named, found: s.found}
}

// anyHash stands for elements without a name.
const anyHash = 3

// mostProbes is the number of probes for a name: more names with the same hash occur only if
// somebody chose them for that.
const mostProbes = 32

// lookPlace returns the position in styles.looks for the name of a class or id: by its length,
// first and last byte. It rejects most names of a page, which have no relevant style.
func lookPlace(name []byte) (row int, bit uint64) {
	return len(name) & 63, 1 << ((ascii.Lower(name[0])*7 + ascii.Lower(name[len(name)-1])) & 63)
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
	for i := 0; i < len(p); {
		if s.quote == 0 && len(s.rest) == 0 {
			if i = s.rules(p, i); i == len(p) {
				break
			}
		}
		end := s.ruleEnd(p, i)
		if len(s.rest) == 0 && end < len(p) {
			s.rule(p[i:end])
		} else {
			s.hold(p[i:end])
		}
		if i = end + 1; end < len(p) && len(s.rest) > 0 {
			s.rule(s.rest)
			s.begin()
		}
	}
	if len(p) > 0 {
		s.last = p[len(p)-1]
	}
}

// rules reads the rules at p[from:] that end in p, and returns where the first one begins that
// does not. Most rules have no effect; it finds those that may have one by the bytes that divide
// them, and leaves what comments and escapes make of a rule to rule.
func (s *styles) rules(p []byte, from int) int {
	var m marks
	m.begin(p, from)
	at, outer := -1, -1       // the last brace, and the one before it
	semicolon, ends := -1, -1 // the last semicolon, and the last one before the last brace
	first := -1               // the first declaration after it that may have an effect
	odd := false              // the rule has comments or escapes
	whatever := false         // and these may give it an effect
	shut, over := 0, 0        // where the last string and the last comment end
	for i := m.next(); i < len(p); i = m.next() {
		if i < over {
			continue
		}
		switch c := p[i]; c {
		case '{':
			at, outer, ends, first = i, at, semicolon, declarationAt(p, i+1)
		case ';':
			if semicolon = i; at >= 0 && first < 0 {
				first = declarationAt(p, i+1)
			}
		case '}':
			if i < shut {
				continue
			}
			begin := max(from, outer+1, ends+1)
			switch {
			case whatever, odd && at >= 0 && (first >= 0 || bytes.IndexByte(p[from:at], '@') >= 0):
				s.rule(p[from:i])
			case odd || at < 0:
			case first >= 0, beginsWith(p[begin:at], '@'), outer >= 0 && bytes.Contains(p[from:outer], []byte("@function ")):
				if first < 0 {
					first = i
				}
				s.block(p[from:at], outer-from, p[begin:at], p[at+1:i], p[first:i])
			}
			from, at, outer, semicolon, ends, first, odd, whatever = i+1, -1, -1, -1, -1, -1, false, false
		case '*':
			if s.before(p[:i]) != '/' {
				continue
			}
			whatever = whatever || at >= 0 || i < shut || i == over
			odd = true
			if i < shut {
				continue
			}
			n := bytes.Index(p[i:], []byte("*/"))
			if n < 0 {
				return from
			}
			over = i + n + 2
			whatever = whatever || n == 0
		case '\\':
			odd, whatever = true, true
		default: // a string
			if i < shut {
				continue
			}
			n := bytes.IndexByte(p[i+1:], c)
			if n < 0 {
				return from
			}
			if line := bytes.IndexByte(p[i+1:i+1+n], '\n'); line >= 0 {
				n = line
			}
			shut = i + 1 + n + 1
		}
	}
	return from
}

// declarationAt returns where the declaration at p[i:] begins if its first letters are those of one
// that may have an effect, otherwise -1.
func declarationAt(p []byte, i int) int {
	for i < len(p) && p[i] <= ' ' {
		i++
	}
	if len(p)-i >= 3 && mattersBy(p[i], p[i+1], p[i+2]) {
		return i
	}
	return -1
}

// begin begins the next rule.
func (s *styles) begin() { s.rest, s.room, s.left, s.mark, s.fewer = s.rest[:0], 0, 0, 0, false }

// hold keeps a part of a rule whose end has not arrived. Of one that becomes long, it leaves out
// what changes nothing, and applies the declarations that have arrived.
func (s *styles) hold(p []byte) {
	for p = s.leftOut(p); len(p) > 0; p = s.leftOut(p) {
		room := max(mostRule, s.room)
		n := min(len(p), room-len(s.rest))
		s.rest, p = append(s.rest, p[:n]...), p[n:]
		if len(s.rest) == room {
			s.shorten(room)
		}
	}
}

// leftOut returns what follows in p on the part that is left out.
func (s *styles) leftOut(p []byte) []byte {
	if s.left == 0 || len(p) == 0 {
		return p
	}
	last := s.mark
	for i, c := range p {
		switch {
		case s.left == '*' && (c != '/' || last != '*'), s.left != '*' && c != s.left && (s.left == ')' || c != '\n'), s.left != '*' && last == '\\':
			if last == '\\' && c == '\\' {
				c = 0 // an escaped backslash escapes nothing
			}
			last = c
			continue
		case s.left != '*':
			s.rest = append(s.rest, c)
		}
		s.left, s.mark = 0, 0
		return p[i+1:]
	}
	s.mark = last
	return nil
}

// shorten makes room for more of a rule.
func (s *styles) shorten(room int) {
	s.drop()
	if len(s.rest) <= room/2 {
		return
	}
	open := bytes.LastIndexByte(s.rest, '{') + 1
	whole := bytes.LastIndexByte(s.rest, ';') + 1
	switch {
	case s.left != 0 && s.left != '*' && room < 2*mostSelectors: // within a value, which stays whole
		s.room = 2 * room
	case whole > open && open <= room/2: // otherwise each declaration would require reading its selectors
		s.rule(s.rest[:whole])
		s.rest = append(s.rest[:open], s.rest[whole:]...)
	case room < 2*mostSelectors:
		s.room = 2 * room
	default:
		s.lost = s.lost || mayMatter(s.rest[open:])
		s.rest, s.fewer = s.rest[:min(open, mostRule/2)], true
	}
}

// drop leaves out of the rule comments, and the rest of long strings and URLs: they are no words.
func (s *styles) drop() {
	p, out := s.rest, s.rest[:0]
	for i := 0; i < len(p); {
		switch c := p[i]; {
		case c == '/' && i+1 < len(p) && p[i+1] == '*':
			end := bytes.Index(p[i+2:], []byte("*/"))
			if end < 0 {
				s.left, s.mark, s.rest = '*', 0, out
				if i+2 < len(p) {
					s.mark = p[len(p)-1]
				}
				return
			}
			i += 2 + end + 2
		case c == '"' || c == '\'' || c == '(' && endsInURL(out) && !beginsWith(p[i+1:], '"') && !beginsWith(p[i+1:], '\''):
			shut := c
			if c == '(' {
				shut = ')'
			}
			end, whole := i+1, false
			for ; end < len(p) && !whole; end++ {
				if p[end] == '\\' {
					end++
				} else {
					whole = p[end] == shut || p[end] == '\n' && c != '('
				}
			}
			switch {
			case whole && end-i > tooLong:
				out = append(append(out, p[i:i+tooLong]...), shut)
			case !whole && len(p)-i > tooLong:
				s.left, s.mark, s.rest = shut, 0, append(out, p[i:i+tooLong]...)
				if end > len(p) { // the last byte is a backslash that escapes the next
					s.mark = '\\'
				}
				return
			default:
				out = append(out, p[i:min(end, len(p))]...)
			}
			i = min(end, len(p))
		default:
			out = append(out, c)
			i++
		}
	}
	s.rest = out
}

// endsInURL reports whether a function that begins behind p is a URL.
func endsInURL(p []byte) bool { return len(p) >= 3 && ascii.EqualLower(p[len(p)-3:], "url") }

// end ends the sheet and an incomplete rule.
func (s *styles) end() {
	s.rule(s.rest)
	s.begin()
	s.quote = 0
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

// rule reads selectors { declarations.
func (s *styles) rule(p []byte) {
	if bytes.Contains(p, []byte("/*")) {
		s.clean = withoutComments(s.clean[:0], p)
		p = s.clean
	}
	if bytes.IndexByte(p, '\\') >= 0 {
		p = unescapeCSS(p)
	}
	at := bytes.LastIndexByte(p, '{') // the last brace, because rules are nested in @media
	if at < 0 {
		return
	}
	outer := bytes.LastIndexByte(p[:at], '{')
	selectors := p[max(outer, bytes.LastIndexByte(p[:at], ';'))+1 : at]
	s.block(p[:at], outer, selectors, p[at+1:], p[at+1:])
}

// block reads a rule without comments and escapes: what stands before its last brace, where in
// that the brace before it is, the selectors, the declarations, and those from the first on that
// may have an effect.
func (s *styles) block(head []byte, outer int, selectors, all, declarations []byte) {
	if (beginsWith(selectors, '@') || outer >= 0 && bytes.Contains(head[:outer], []byte("@function "))) && s.definition(head, all) {
		return
	}
	d := s.declared(declarations)
	if d.effect == 0 {
		return
	}
	s.lost = s.lost || s.fewer
	if bytes.IndexByte(selectors, '(') >= 0 || bytes.IndexByte(selectors, '[') >= 0 {
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
	for len(p) > 0 && ascii.IsSpace(p[0]) {
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
	before, after := ascii.HasPrefixLower(pseudo, "before") || ascii.HasPrefixLower(pseudo, "marker"), ascii.HasPrefixLower(pseudo, "after")
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
		to = s.set(element.Hash(mark, name))
	case len(name) > 0 && ascii.IsLetter(name[0]):
		if end := bytes.IndexByte(name, '['); end >= 0 {
			name = name[:end]
		}
		hash := element.Hash(0, name)
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
		if len(s.added) == mostAdded {
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
		for ; n < len(p) && n < i+7 && ascii.Unhex(p[n]) >= 0; n++ {
			r = r<<4 | rune(ascii.Unhex(p[n]))
		}
		switch {
		case n == i+1 && p[n] == '\n':
		case n == i+1:
			out = append(out, p[n])
		default:
			out = append(out, string(prose.Numeric(r))...)
			if n == len(p) || !ascii.IsSpace(p[n]) {
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
		for len(name) > 0 && ascii.IsSpace(name[len(name)-1]) {
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
	if !mattersBy(one[0], one[1], one[2]) {
		return false
	}
	if one[0] == '-' { // content may refer to it: it is a text, or var(), attr() or a function of the page
		value := one[max(0, bytes.IndexByte(one, ':')):]
		return bytes.IndexByte(value, '"') >= 0 || bytes.IndexByte(value, '\'') >= 0 ||
			bytes.IndexByte(value, '(') >= 0 && (bytes.Contains(value, []byte("r(")) || bytes.Contains(value, []byte("R(")) || bytes.Contains(value, []byte("--")))
	}
	return true
}

// mattersBy reports whether a declaration may have an effect, by its first three letters.
func mattersBy(a, b, c byte) bool {
	b, c = ascii.Lower(b), ascii.Lower(c)
	switch ascii.Lower(a) {
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
		return b == '-' // a custom property
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
	is := func(s string) bool { return ascii.EqualLower(word, s) }
	switch {
	case ascii.EqualLower(name, "display"):
		switch {
		case is("none"):
			return hides
		case is("flex"), is("grid"):
			return lays
		case is("inline-flex"), is("inline-grid"):
			return lays | flows
		case ascii.HasPrefixLower(word, "inline"), is("contents"), is("table-cell"):
			return flows
		}
	case ascii.EqualLower(name, "position"):
		if is("absolute") || is("fixed") {
			return hides | flows
		}
	case ascii.EqualLower(name, "float"):
		if is("left") || is("right") {
			return flows
		}
	case ascii.EqualLower(name, "direction"):
		if is("rtl") {
			return rightTo
		}
	case ascii.EqualLower(name, "unicode-bidi"):
		if is("bidi-override") || is("isolate-override") {
			return turns
		}
	case ascii.EqualLower(name, "font-size"), ascii.EqualLower(name, "font"):
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
	case ascii.HasPrefixLower(unit, "em"), ascii.HasPrefixLower(unit, "rem"), ascii.HasPrefixLower(unit, "ex"), ascii.HasPrefixLower(unit, "ch"):
		return size < 0.1
	}
	return size < 2
}

// mayMatch reports whether a style sheet may match all elements of a tag.
func (s *styles) mayMatch(t *element.Tag) bool {
	return s.n > 0 && (t.Hash == 0 || s.any != 0 || s.all != 0 || s.tags[t.Hash>>1&3]&(1<<(t.Hash>>3&63)) != 0)
}

// element returns the hash of an element's name.
func (s *styles) element(t *element.Tag, key, more uint64) uint32 {
	if t.Hash != 0 {
		return t.Hash
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
	return element.Hash(0, name[:n])
}

// adds reads a declaration that may add text.
func (s *styles) adds(d *declarations, name, value []byte) {
	switch {
	case ascii.EqualLower(name, "content"):
		if v, ok := valueOf(value); ok { // other values may have no effect
			d.content = append(d.content, v)
			d.effect |= addsText
		}
	case ascii.EqualLower(name, "list-style"), ascii.EqualLower(name, "list-style-type"):
		v, ok := valueOf(value)
		if !ok {
			if v.text = counterOf(value); v.text == "" {
				return
			}
			v.varies = true
		}
		d.own.before = append(d.own.before, v)
		d.effect |= addsText
	case ascii.EqualLower(name, "quotes"):
		open, rest := cssToken(value)
		shut, _ := cssToken(rest)
		for _, q := range [...]struct {
			to *[]addedValue
			v  []byte
		}{{&d.own.before, open}, {&d.own.after, shut}} {
			if v, ok := valueOf(q.v); ok {
				*q.to = append(*q.to, v)
				d.effect |= addsText
			}
		}
	case bytes.HasPrefix(name, []byte("--")):
		if v, ok := valueOf(value); ok {
			s.name(string(name), v)
		}
	}
}

// name stores a value that others may refer to.
func (s *styles) name(name string, v addedValue) {
	if s.named == nil {
		s.named = make(map[string][]addedValue)
	}
	had, ok := s.named[name]
	switch i := slices.Index(had, v); {
	case i >= 0:
		had = slices.Delete(had, i, i+1)
	case !ok && len(s.named) == mostNamed || len(had) == mostValues:
		s.lost = true
		return
	}
	s.named[name] = append(had, v)
}

// counterStyle reads the rule of a counter style: each of its symbols, with prefix and suffix.
func (s *styles) counterStyle(name, p []byte) {
	var symbols [][]byte
	var prefix, suffix []byte
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		switch property = bytes.ToLower(bytes.TrimSpace(property)); string(property) {
		case "prefix":
			prefix, _ = cssToken(value)
		case "suffix":
			suffix, _ = cssToken(value)
		case "symbols", "additive-symbols":
			for {
				var token []byte
				if token, value = cssToken(value); len(token) == 0 {
					break
				}
				if token[0] < '0' || token[0] > '9' { // otherwise it is a weight
					symbols = append(symbols, token)
				}
			}
		}
	}
	for _, symbol := range symbols[:min(len(symbols), mostValues)] {
		if text := plainValue(slices.Concat(unquoted(prefix), unquoted(symbol), unquoted(suffix))); text != "" {
			s.name("@"+string(name), addedValue{text: text})
		}
	}
	s.lost = s.lost || len(symbols) > mostValues
}

// definition reads a rule that defines a counter style, a custom property or a custom function,
// and reports whether it was one. head is what stands before its last brace.
func (s *styles) definition(head, p []byte) bool {
	at := bytes.LastIndexByte(head, '@')
	if k := bytes.LastIndex(head, []byte("@function ")); k >= 0 { // conditions may be in it
		at = k
	}
	kind, name, _ := bytes.Cut(head[at+1:], []byte{' '})
	switch name = bytes.TrimSpace(name); string(bytes.ToLower(kind)) {
	case "counter-style":
		s.counterStyle(name, p)
	case "property":
		s.property(name, p)
	case "function":
		s.function(name, p)
	default:
		return false
	}
	return true
}

// property reads the rule of a custom property.
func (s *styles) property(name, p []byte) {
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		if ascii.EqualLower(bytes.TrimSpace(property), "initial-value") {
			s.adds(&declarations{}, name, bytes.TrimSpace(value))
		}
	}
}

// function reads the rule of a custom function: its parameters and results, and the custom
// properties in it, which are taken for the page's.
func (s *styles) function(head, p []byte) {
	head, _, _ = bytes.Cut(head, []byte{'{'})
	name, parameters, _ := bytes.Cut(head, []byte{'('})
	parameters = parameters[:max(0, bytes.LastIndexByte(parameters, ')'))]
	for one := range bytes.SplitSeq(p, []byte{';'}) {
		property, value, _ := bytes.Cut(one, []byte{':'})
		switch property = bytes.TrimSpace(property); {
		case !ascii.EqualLower(property, "result"):
			s.adds(&declarations{}, property, bytes.TrimSpace(value))
		case len(value) <= 4*prose.LongestWord:
			s.name("("+string(bytes.ToLower(bytes.TrimSpace(name))), addedValue{text: string(parameters) + "{" + string(value)})
		}
	}
}
