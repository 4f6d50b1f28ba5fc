package content

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// How far a rune is from its folded form, modulo 65536, or one of these.
const (
	toBlank   = 0x8000 // neither letter, digit nor mark
	toNothing = 0x8001 // shows nothing, so it must not part a word
	toSeveral = 0x8002 // several runes
)

// foldTable says what becomes of each rune of the basic plane. Pages of 256
// runes that fold alike are stored once (all of CJK is one page), so that the
// table stays in the second level cache.
type foldTable struct {
	page    [256]uint8
	offset  [][256]uint16
	compose [1024]uint64    // runes that may join with the one before them
	several map[rune]string // what a rune becomes that becomes several
	names   map[string]rune // entities met often on pages that are not English
}

// folds builds the table when it is first wanted.
var folds = sync.OnceValue(newFoldTable)

// several is what fold returns for a rune that becomes several.
const several = -2

// fold returns the folded form of r, ' ' when r parts words, -1 when nothing
// of it is to be seen, or several.
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

// foldAstral is fold above the basic plane, where text is rare.
func foldAstral(r rune) rune {
	switch {
	case r >= 0x1D400 && r <= 0x1D7FF: // letters of mathematics, read as plain ones
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

// simpleFold is the simple case folding of Unicode's CaseFolding.txt, and
// besides takes the Turkish dotless and dotted i for an i.
func simpleFold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// unseen are the runes of Default_Ignorable_Code_Point, marks that only strike a
// letter through or underline it, and what Hebrew and Arabic are written with or
// without.
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
	// Runes that normalisation replaces by one other, and those that may join.
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

// What an ASCII byte becomes in a run of text: itself folded, a blank, or 0
// where the run has to stop and look.
type byteTable [256]byte

var (
	shownText = newByteTable("<&\x00") // HTML text
	valueText = newByteTable("&")      // an attribute's value
	rawText   = newByteTable("<")      // xmp: markup ends it, entities mean nothing
	plainText = newByteTable("")       // all is text
	jsonText  = newByteTable("\\<>&")
	cueText   = newByteTable("<>&") // of subtitles: as in JSON, tags part no word
	formText  = newByteTable("%")
)

func newByteTable(stops string) *byteTable {
	t := &byteTable{}
	for c := range byte(0x80) {
		t[c] = ' '
	}
	for c := byte('0'); c <= '9'; c++ {
		t[c] = c
	}
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-32] = c, c
	}
	for _, c := range []byte(stops) {
		t[c] = 0
	}
	return t
}

// A flow turns runs of text into normalised words. It begins with a blank,
// and never has two in a row. Input may stop anywhere, within a character or
// a character reference, and go on with the next run; flush says that it does
// not go on.
type flow struct {
	b     []byte
	folds *foldTable
	// high reads bytes from 0x80: all of them when multi is false, else those
	// that are not UTF-8 (nil: they are blanks).
	high  *[128]rune
	multi bool

	joins  bool // the word at the end has runes that may join: compose it
	stress bool // it has a mark that some letters are written without
	joined int  // bytes since it has
	fixed  int  // what comes before is not composed any more
	nfc    []byte

	broken     brokenWord
	turned     int        // where text that is shown backwards begins, 0 outside
	turnedDeep int        // embeddings within it
	further    [3]further // behind what is hidden, behind all that may be, and behind tags that may not count
	has        bool       // one of these is to be said when the word ends
	others     []string   // what may stand in the first of these instead of what a style sheet adds
	otherAt    int        // where in it that begins
	otherEnd   int
	gone       int // bytes dropped from the beginning
	parting    parting

	entities *entities         // those that an XML document declares
	part     [utf8.UTFMax]byte // a character cut off by the end of a run
	nPart    int
	ref      reference
}

func (f *flow) reset() {
	b, nfc := f.b, f.nfc
	*f = flow{b: append(b[:0], ' '), nfc: nfc[:0], folds: folds(), multi: true}
}

// write adds the text of p as t reads it and returns how much of p it used:
// all, or up to a byte '<' that t stops at.
func (f *flow) write(p []byte, t *byteTable) int {
	i := 0
	for f.ref.state != refNone && i < len(p) {
		i += f.reference(p[i:])
	}
	// But for a few runes, folding makes at most three bytes of two.
	f.room(len(p) - i)
	for i < len(p) {
		if f.nPart > 0 && (t != formText || p[i] != '%') {
			i += f.completePart(p[i:])
			continue
		}
		if f.broken.less {
			f.begins(p[i])
		}
		if f.joins || f.turned > 0 || f.has {
			i = f.slow(p, i, t)
		} else {
			i = f.fast(p, i, t)
		}
		if i == len(p) {
			break
		}
		switch c := p[i]; {
		case t[c] != 0: // slow has come to the end of its word
		case c >= 0x80:
			i = f.wide(p, i)
			f.room(len(p) - i)
		case c == '<':
			if t != jsonText && t != cueText {
				return i
			}
			f.less()
			i++
		case c == '>':
			f.greater()
			i++
		case c == 0:
			for i++; i < len(p) && p[i] == 0; i++ {
			}
		default:
			f.ref.begin(c, t != shownText)
			i++
			for f.ref.state != refNone && i < len(p) {
				i += f.reference(p[i:])
			}
			f.room(len(p) - i)
		}
	}
	return i
}

// room makes room for what n bytes become.
func (f *flow) room(n int) {
	if need := len(f.b) + n + n/2 + 8; need > cap(f.b) {
		f.grow(need)
	}
}

func (f *flow) grow(need int) {
	b := make([]byte, len(f.b), max(need, 2*cap(f.b), 32<<10))
	copy(b, f.b)
	f.b = b
}

const eightBlanks = 0x2020202020202020 // of an indented line

// fast copies a run of ASCII.
func (f *flow) fast(p []byte, i int, t *byteTable) int {
	b := f.b[:cap(f.b)]
	j := len(f.b)
	last := b[j-1]
	for i < len(p) && j < len(b) {
		c := t[p[i]]
		if c == 0 {
			break
		}
		b[j] = c
		i++
		// One comparison, not two: whether a letter or a blank comes next is
		// what no processor can guess.
		if (c^' ')|(last^' ') == 0 {
			for i+8 <= len(p) && binary.LittleEndian.Uint64(p[i:]) == eightBlanks {
				i += 8
			}
			continue
		}
		j++
		last = c
	}
	f.b = b[:j]
	return i
}

// slow is fast for a word that has to be composed or turned when it ends.
func (f *flow) slow(p []byte, i int, t *byteTable) int {
	for ; i < len(p); i++ {
		switch c := t[p[i]]; c {
		case 0:
			return i
		case ' ':
			f.blank()
			return i + 1
		default:
			f.b = append(f.b, c)
			if !f.joins {
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

// wide reads the characters from p[i] on that are not ASCII.
func (f *flow) wide(p []byte, i int) int {
	for i < len(p) && p[i] >= 0x80 {
		if !f.multi {
			f.rune(f.high[p[i]-0x80])
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
			f.rune(r)
		}
		i += n
	}
	return i
}

// completePart joins the beginning of p to the character that the last run
// cut off and returns how much of p that took.
func (f *flow) completePart(p []byte) int {
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
	f.rune(r)
	return size - had
}

func (f *flow) invalid(c byte) {
	if f.high == nil {
		f.blank()
		return
	}
	f.rune(f.high[c-0x80])
}

// rune adds one character.
func (f *flow) rune(r rune) {
	g := f.folds.fold(r)
	switch {
	case g == ' ':
		f.blank()
	case g == several:
		for _, s := range f.folds.several[r] {
			f.rune(s)
		}
	case g >= 0:
		if f.folds.composes(r) {
			f.joins = true
			f.stress = f.stress || r >= 0x300 && r <= 0x307
		}
		f.b = utf8.AppendRune(f.b, g)
		if f.joins {
			if f.joined++; f.joined == longJoin {
				f.compose()
			}
		}
	default:
		f.bidi(r)
	}
}

// longJoin is how long a word to be composed becomes before that is done.
const longJoin = 8 << 10

// blank ends the word.
func (f *flow) blank() {
	if f.joins {
		f.compose()
	}
	if f.has {
		f.sayFurther()
	}
	if f.b[len(f.b)-1] != ' ' {
		f.b = append(f.b, ' ')
	}
	if f.turned > 0 && len(f.b)-f.turned > mostBackward {
		f.backward()
	}
}

const mostFolds = 8

// compose brings the last word into normal form C.
func (f *flow) compose() {
	f.joins = false
	at := max(bytes.LastIndexByte(f.b, ' ')+1, f.fixed)
	// Folding may take a mark off that another then takes the place of.
	for n := 0; n < mostFolds && (f.stress || !norm.NFC.IsNormal(f.b[at:])); n++ {
		f.stress = false
		f.nfc = norm.NFC.Append(f.nfc[:0], f.b[at:]...)
		f.b = f.b[:at]
		last := ' '
		for _, r := range string(f.nfc) { // what was composed has to be folded
			if isLoose(last, r) {
				continue
			}
			last = f.folds.fold(r)
			switch g := last; {
			case g == several:
				f.b = append(f.b, f.folds.several[r]...)
			case g >= 0:
				f.b = utf8.AppendRune(f.b, g)
			}
		}
	}
	if f.joined == longJoin {
		f.fixed = len(f.b)
	}
	f.joined = 0
}

// flush ends a run: what was cut off will not be completed.
func (f *flow) flush() {
	if f.nPart > 0 {
		for _, c := range f.part[:f.nPart] {
			f.invalid(c)
		}
		f.nPart = 0
	}
	for f.ref.state != refNone { // one may stand for the beginning of another
		f.endReference(0)
	}
}

// Normalise appends to dst the normalised form of the UTF-8 text src, for
// lists of phrases that are to be found in what [Body.Text] returns, and
// returns the extended slice.
//
// Letters and digits are folded: Unicode simple case folding, normal form KC,
// and for the scripts that have them Arabic alef, Greek accents, stress marks of
// Cyrillic, ß and ё to their plain spellings. Apostrophes are blanks, whatever
// their form. Characters that show nothing (soft hyphen, zero-width joiners,
// tatweel, vowel signs of Arabic and Hebrew) are dropped, and each run of
// anything else becomes one blank. A run at the beginning or the end of src
// becomes a blank there: " Sex-" gives " sex ", and "sex" gives "sex". No
// markup, character reference or escape is read. Nothing but blanks gives " ",
// empty src nothing.
func Normalise(dst, src []byte) []byte {
	f := flow{folds: folds(), multi: true}
	f.b = append(make([]byte, 0, len(src)+len(src)/2+16), '0') // so that a first blank stays; no mark joins a digit
	f.write(src, plainText)
	f.flush()
	if f.joins {
		f.compose()
	}
	return append(dst, f.b[1:]...)
}
