// Package prose makes text of what a reader finds: a [Flow] converts runs of characters, in which
// references may be, to normalised words with single blanks between them. Lists of phrases are
// normalised in the same way ([Normalise], [Terms]).
//
// Where people may read a word otherwise than it is written, because a tag interrupts it, a style
// hides or adds letters, or its direction turns, a Flow writes each [Reading].
package prose

import (
	"bytes"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Distance of a rune from its folded form modulo 65536, or one of these values.
const (
	toBlank   = 0x8000 // not a letter, digit or mark
	toNothing = 0x8001 // invisible, so it must not split a word
	toSeveral = 0x8002 // several runes
)

// foldTable maps each rune of the basic plane to its folded form. Pages of 256 runes that fold
// alike are stored once (all of CJK is one page), so that the table fits into the second level
// cache.
type foldTable struct {
	page    [256]uint8
	offset  [][256]uint16
	compose [1024]uint64    // runes that may combine with the one before them
	several map[rune]string // for runes that become several
	names   map[string]rune // entities that are frequent on pages not in English
}

// folds returns the table, which is built at the first call.
var folds = sync.OnceValue(newFoldTable)

// several is returned by fold for a rune that becomes several.
const several = -2

// fold returns the folded form of r: ' ' if r separates words, -1 if r is invisible, or
// several.
func (t *foldTable) fold(r rune) rune {
	if uint32(r) > 0xFFFF {
		return foldAstral(r)
	}
	switch o := t.offset[t.page[r>>8]][r&0xFF]; o {
	case toBlank:
		return ' '
	case toNothing:
		return -1
	case toSeveral:
		return several
	default:
		return rune(uint16(r) + o)
	}
}

func (t *foldTable) composes(r rune) bool {
	return uint32(r) < 0x10000 && t.compose[r>>6]&(1<<(r&63)) != 0
}

// foldAstral is fold for runes above the basic plane, which are rare in text.
func foldAstral(r rune) rune {
	switch {
	case r >= 0x1D400 && r <= 0x1D7FF: // mathematical letters, read as plain ones
		s := norm.NFKC.String(string(r))
		r, _ = utf8.DecodeRuneInString(s)
	case r >= 0x1F110 && r <= 0x1F189 && (r-0x1F110)%32 < 26: // letters in boxes
		return 'a' + (r-0x1F110)%32
	case r >= 0xE0000 && r <= 0xE0FFF, r >= 0x1D173 && r <= 0x1D17A:
		return -1
	}
	if !unicode.In(r, unicode.L, unicode.M, unicode.Nd) {
		return ' '
	}
	return simpleFold(r)
}

// simpleFold is the simple case folding of Unicode's CaseFolding.txt. It also folds the
// Turkish dotless and dotted i to i.
func simpleFold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// unseen are the runes of Default_Ignorable_Code_Point, marks that only strike through or
// underline a letter, and optional marks of Hebrew and Arabic.
var unseen = [][2]rune{
	{0xAD, 0xAD}, {0x305, 0x305}, {0x332, 0x338}, {0x33F, 0x33F}, {0x34F, 0x34F},
	{0x591, 0x5BD}, {0x5BF, 0x5BF}, {0x5C1, 0x5C2}, {0x5C4, 0x5C5}, {0x5C7, 0x5C7}, // points of Hebrew
	{0x610, 0x61A}, {0x61C, 0x61C}, {0x640, 0x640}, {0x64B, 0x652}, {0x670, 0x670}, // vowel signs, tatweel
	{0x6D6, 0x6DC}, {0x6DF, 0x6E4}, {0x6E7, 0x6E8}, {0x6EA, 0x6ED}, {0x8D3, 0x8E1}, {0x8E3, 0x8FF},
	{0x115F, 0x1160}, {0x17B4, 0x17B5}, {0x180B, 0x180F},
	{0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F}, {0x20D0, 0x20F0},
	{0x3164, 0x3164}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0},
	{0xFFF0, 0xFFF8},
}

func newFoldTable() *foldTable {
	t := &foldTable{}
	flat := make([]uint16, 0x10000)
	for r := range flat {
		flat[r] = toBlank
	}
	for _, tab := range []*unicode.RangeTable{unicode.L, unicode.M, unicode.Nd} {
		for _, g := range tab.R16 {
			for r := uint32(g.Lo); r <= uint32(g.Hi); r += uint32(g.Stride) {
				flat[r] = 0
			}
		}
	}
	to := func(r, folded rune) { flat[r] = uint16(folded) - uint16(r) }
	for _, g := range unicode.CaseRanges {
		for r := rune(g.Lo); r <= rune(g.Hi) && r < 0x10000; r++ {
			if flat[r] == 0 {
				to(r, simpleFold(r))
			}
		}
	}
	// Runes that normalisation replaces by a single other one, and those that may combine.
	for _, g := range [][2]rune{{0x300, 0x11FF}, {0x1AB0, 0x2000}, {0x2126, 0x212B}, {0x2CEF, 0x2CF1}, {0x302A, 0x309A}, {0xA66F, 0xABFF}, {0xF900, 0xFB4F}, {0xFE20, 0xFE2F}} {
		for r := g[0]; r <= g[1]; r++ {
			if flat[r] == toBlank {
				continue
			}
			s := norm.NFC.String(string(r))
			one, n := utf8.DecodeRuneInString(s)
			if n == len(s) && one != r && one <= 0xFFFF {
				to(r, simpleFold(one))
			}
			if n != len(s) || one > 0xFFFF || !norm.NFC.PropertiesString(s).BoundaryBefore() {
				t.compose[r>>6] |= 1 << (r & 63)
			}
		}
	}
	for i := range rune(26) {
		to(0xFF21+i, 'a'+i) // full width
		to(0xFF41+i, 'a'+i)
		to(0x24B6+i, 'a'+i) // circled
		to(0x24D0+i, 'a'+i)
	}
	for i := range rune(10) {
		to(0xFF10+i, '0'+i)
	}
	for _, g := range unseen {
		for r := g[0]; r <= g[1]; r++ {
			flat[r] = toNothing
		}
	}
	t.spellings(flat)
	t.compatible(flat)
	seen := make(map[[256]uint16]uint8)
	for i := range t.page {
		page := [256]uint16(flat[i<<8:])
		at, ok := seen[page]
		if !ok {
			at = uint8(len(t.offset))
			seen[page] = at
			t.offset = append(t.offset, page)
		}
		t.page[i] = at
	}
	t.names = entityNames()
	return t
}

// A Table maps ASCII bytes in a run of text to their folded form, a blank, or 0 for bytes
// that need special treatment.
type Table struct {
	to    [256]byte
	stops [4][16]byte // the bytes of ASCII with 0, each 16 times; the rest are bytes that are not ASCII
}

var (
	ShownText = newTable("<&\x00") // HTML text
	ValueText = newTable("&")      // an attribute's value
	RawText   = newTable("<")      // xmp: markup ends it, there are no entities
	PlainText = newTable("")       // everything is text
	JSONText  = newTable("\\<>&")
	CueText   = newTable("<>&") // of subtitles: as in JSON, tags do not separate words
	FormText  = newTable("%")
)

func newTable(stops string) *Table {
	t := &Table{}
	for c := range byte(0x80) {
		t.to[c] = ' '
	}
	for c := byte('0'); c <= '9'; c++ {
		t.to[c] = c
	}
	for c := byte('a'); c <= 'z'; c++ {
		t.to[c], t.to[c-32] = c, c
	}
	for i := range t.stops {
		c := byte(0x80)
		if i < len(stops) {
			c = stops[i]
			t.to[c] = 0
		}
		for k := range t.stops[i] {
			t.stops[i][k] = c
		}
	}
	return t
}

// A Flow converts runs of text to normalised words. It begins with a blank, and never has two
// in a row. Input may end anywhere, even within a character or a character reference, and
// continue with the next run; flush says that it does not continue.
type Flow struct {
	B     []byte
	folds *foldTable
	// High decodes bytes from 0x80: all of them if multi is false, otherwise those that are
	// not UTF-8 (nil: they are blanks).
	High  *[128]rune
	Multi bool

	Joins  bool // the last word has runes that may combine: compose it
	stress bool // it has a mark that some letters are also written without
	joined int  // bytes since joins was set
	Fixed  int  // text before this is not composed any more
	nfc    []byte

	broken     brokenWord
	turned     int        // where text that is shown backwards begins, 0 if there is none
	turnedDeep int        // embeddings in it
	further    [3]Reading // after hidden text, after text that may be hidden, and after tags that may not count
	has        bool       // one of these is to be written when the word ends
	others     []string   // alternatives in the first of these to the text that a style sheet adds
	otherAt    int        // position in it of that text
	otherEnd   int
	gone       int // bytes removed from the beginning
	parting    splitWord

	Entities Entities          // declared by an XML document, nil for none
	part     [utf8.UTFMax]byte // an incomplete character at the end of a run
	nPart    int
	ref      reference
}

// Entities are what names stand for in a document.
type Entities interface {
	// Text returns the text of an entity, and whether it exists.
	Text(name string) (string, bool)
}

// A memory is what a Flow leaves to the next one.
type memory struct{ b, nfc []byte }

// Memory returns what the next flow can use.
func (f *Flow) Memory() memory { return memory{f.B, f.nfc} }

// ResetIn begins a text in memory, which is zero for none.
func (f *Flow) ResetIn(m memory) {
	*f = Flow{}
	f.B, f.nfc, f.folds, f.Multi = append(m.b[:0], ' '), m.nfc[:0], folds(), true
}

// Reset begins a text.
func (f *Flow) Reset() { f.ResetIn(f.Memory()) }

// Empty removes all text. Only complete words may be in it.
func (f *Flow) Empty() {
	f.B = f.B[:1]
	f.Fixed, f.broken.at = 0, 0
}

// Release drops memory that the next text need not have.
func (f *Flow) Release(most int) {
	if cap(f.B) > most {
		f.B = nil
	}
	f.nfc = nil
}

// SetMarkupInText says whether references stand for markup, as in a feed.
func (f *Flow) SetMarkupInText(is bool) { f.broken.inText = is }

// Position returns the length of the text, counted from the beginning of all text.
func (f *Flow) Position() int { return f.gone + len(f.B) }

// Index returns where in the text a position is.
func (f *Flow) Index(position int) int { return position - f.gone }

// Incomplete reports whether a character or reference is.
func (f *Flow) Incomplete() bool { return f.nPart > 0 || f.ref.state != refNone }

// FixMost says that the text is not composed any more but for its last bytes, and returns
// where these begin.
func (f *Flow) FixMost() int {
	n := len(f.B) - 64
	for f.B[n]&0xC0 == 0x80 {
		n--
	}
	f.Fixed = n
	return n
}

// Write adds the text in p, read by t, and returns the number of bytes used: all, or up to a
// byte '<' at which t stops.
func (f *Flow) Write(p []byte, t *Table) int {
	i := 0
	for f.ref.state != refNone && i < len(p) {
		i += f.reference(p[i:])
	}
	// With few exceptions, folding turns two bytes into at most three.
	f.room(len(p) - i)
	for i < len(p) {
		if f.nPart > 0 && (t != FormText || p[i] != '%') {
			i += f.completePart(p[i:])
			continue
		}
		if f.broken.less {
			f.broken.begins(p[i], len(f.B))
		}
		if f.Joins || f.turned > 0 || f.has {
			i = f.slow(p, i, t)
		} else {
			i = f.fast(p, i, t)
		}
		if i == len(p) {
			break
		}
		switch c := p[i]; {
		case t.to[c] != 0: // slow has reached the end of its word
		case c >= 0x80:
			i = f.nonASCII(p, i)
			f.room(len(p) - i)
		case c == '<':
			if t != JSONText && t != CueText {
				return i
			}
			f.lessThan()
			i++
		case c == '>':
			f.greater()
			i++
		case c == 0:
			for i++; i < len(p) && p[i] == 0; i++ {
			}
		default:
			f.ref.begin(c, t != ShownText)
			i++
			for f.ref.state != refNone && i < len(p) {
				i += f.reference(p[i:])
			}
			f.room(len(p) - i)
		}
	}
	return i
}

// Complete reports whether no character, reference or tag is incomplete.
func (f *Flow) Complete() bool { return f.ref.state == refNone && f.nPart == 0 && !f.broken.less }

// room makes room for the result of n bytes.
func (f *Flow) room(n int) {
	if need := len(f.B) + n + n/2 + 8; need > cap(f.B) {
		f.grow(need)
	}
}

func (f *Flow) grow(need int) {
	b := make([]byte, len(f.B), max(need, 2*cap(f.B), 32<<10))
	copy(b, f.B)
	f.B = b
}

// fast copies a run of ASCII. Whether a byte follows another blank is added to the position
// instead of tested: no processor can predict it.
func (f *Flow) fast(p []byte, i int, t *Table) int {
	// A tag or reference before may have added text of its own.
	if need := len(f.B) + len(p) - i; need > cap(f.B) {
		f.grow(need)
	}
	b := f.B[:cap(f.B)]
	j := len(f.B)
	last := b[j-1]
	if vectors && len(p)-i >= 16 && p[i+1] < 0x80 {
		used, made := foldRun(b[j:], p[i:], t, last)
		i, j = i+used, j+made
		last = b[j-1]
	}
	for _, c := range p[i:] {
		if c = t.to[c]; c == 0 {
			break
		}
		b[j] = c
		j += int(uint((c^' ')|(last^' '))+255) >> 8
		last = c
		i++
	}
	f.B = b[:j]
	return i
}

// slow is fast for a word that must be composed or turned when it ends.
func (f *Flow) slow(p []byte, i int, t *Table) int {
	for ; i < len(p); i++ {
		switch c := t.to[p[i]]; c {
		case 0:
			return i
		case ' ':
			f.Blank()
			return i + 1
		default:
			f.B = append(f.B, c)
			if !f.Joins {
				continue
			}
			if f.joined++; f.joined == longJoin {
				f.compose()
				return i + 1
			}
		}
	}
	return i
}

// nonASCII reads the non-ASCII characters from p[i] on.
func (f *Flow) nonASCII(p []byte, i int) int {
	for i < len(p) && p[i] >= 0x80 {
		if !f.Multi {
			f.Rune(f.High[p[i]-0x80])
			i++
			continue
		}
		r, n := utf8.DecodeRune(p[i:])
		if n == 1 {
			if !utf8.FullRune(p[i:]) {
				f.nPart = copy(f.part[:], p[i:])
				return len(p)
			}
			f.invalid(p[i])
		} else {
			f.Rune(r)
		}
		i += n
	}
	return i
}

// completePart joins the beginning of p to the incomplete character of the last run, and
// returns the number of bytes used.
func (f *Flow) completePart(p []byte) int {
	had := f.nPart
	n := copy(f.part[had:], p)
	q := f.part[:had+n]
	if !utf8.FullRune(q) {
		f.nPart += n
		return n
	}
	f.nPart = 0
	r, size := utf8.DecodeRune(q)
	if size == 1 {
		for _, c := range q[:had] {
			f.invalid(c)
		}
		return 0
	}
	f.Rune(r)
	return size - had
}

func (f *Flow) invalid(c byte) {
	if f.High == nil {
		f.Blank()
		return
	}
	f.Rune(f.High[c-0x80])
}

// Rune adds one character.
func (f *Flow) Rune(r rune) {
	g := f.folds.fold(r)
	switch {
	case g == ' ':
		f.Blank()
	case g == several:
		for _, s := range f.folds.several[r] {
			f.Rune(s)
		}
	case g >= 0:
		if f.folds.composes(r) {
			f.Joins = true
			f.stress = f.stress || r >= 0x300 && r <= 0x307
		}
		f.B = utf8.AppendRune(f.B, g)
		if f.Joins {
			if f.joined++; f.joined == longJoin {
				f.compose()
			}
		}
	default:
		f.bidi(r)
	}
}

// longJoin is the length at which a word to be composed is composed before its end.
const longJoin = 8 << 10

// Blank ends the word.
func (f *Flow) Blank() {
	if f.Joins {
		f.compose()
	}
	if f.has {
		f.sayFurther()
	}
	if f.B[len(f.B)-1] != ' ' {
		f.B = append(f.B, ' ')
	}
	if f.turned > 0 && len(f.B)-f.turned > mostBackward {
		f.backward()
	}
}

const mostFolds = 8

// compose converts the last word to normal form C, up to the last position in it that is
// remembered: the result may be shorter or longer.
func (f *Flow) compose() {
	f.Joins = false
	from := max(f.Fixed, f.turned)
	if f.has {
		for i := range f.further {
			from = max(from, f.further[i].at)
		}
	}
	f.composeFrom(from + bytes.LastIndexByte(f.B[from:], ' ') + 1)
	if f.joined == longJoin {
		f.Fixed = len(f.B)
	}
	f.joined = 0
}

// composeFrom converts the text from a position on to normal form C.
func (f *Flow) composeFrom(at int) {
	// Folding may remove a mark that another one then replaces.
	for n := 0; n < mostFolds && (f.stress || !norm.NFC.IsNormal(f.B[at:])); n++ {
		f.stress = false
		f.nfc = norm.NFC.Append(f.nfc[:0], f.B[at:]...)
		f.B = f.B[:at]
		last := ' '
		for _, r := range string(f.nfc) { // composed characters must be folded
			if isLoose(last, r) {
				continue
			}
			last = f.folds.fold(r)
			switch g := last; {
			case g == several:
				f.B = append(f.B, f.folds.several[r]...)
			case g >= 0:
				f.B = utf8.AppendRune(f.B, g)
			}
		}
	}
}

// Flush ends a run: an incomplete character stays incomplete.
func (f *Flow) Flush() {
	if f.nPart > 0 {
		for _, c := range f.part[:f.nPart] {
			f.invalid(c)
		}
		f.nPart = 0
	}
	for f.ref.state != refNone { // a reference may be the beginning of another
		f.endReference(0)
	}
}

// Normalise appends to dst the normalised form of the UTF-8 text src, and returns the extended
// slice. It is for lists of phrases that are to be found in the text of a body.
//
// Letters and digits are folded: Unicode simple case folding, normal form KC, and where
// scripts have them Arabic alef, Greek accents, stress marks of Cyrillic, ß and ё to their
// plain spellings. Apostrophes of any form are blanks. Invisible characters (soft hyphen,
// zero-width joiners, tatweel, vowel signs of Arabic and Hebrew) are removed. Each run of
// other characters becomes one blank, also at the beginning and end of src: " Sex-" gives "
// sex ", and "sex" gives "sex". Markup, character references and escapes are not decoded. Only
// blanks give " ", and an empty src gives nothing.
func Normalise(dst, src []byte) []byte {
	f := Flow{folds: folds(), Multi: true}
	f.B = append(make([]byte, 0, len(src)+len(src)/2+16), '0') // so that a first blank is kept; no mark combines with a digit
	f.Write(src, PlainText)
	f.Flush()
	if f.Joins {
		f.compose()
	}
	return append(dst, f.B[1:]...)
}

// TrimBlanks leaves one blank at the end of b.
func TrimBlanks(b []byte) []byte {
	for len(b) > 1 && b[len(b)-2] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}
