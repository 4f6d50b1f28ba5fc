package phrase

import (
	"bytes"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"shuultuur/content"
	"shuultuur/lib/language"
	"shuultuur/lib/multimatch"
)

// This file reverses disguises of words, for policies that ask for it: letters that look like
// others, digits instead of letters, and separated letters. Package content already removes
// invisible (zero-width) characters from every text.
//
// Only suspicious words are examined: those that mix scripts, or letters and digits, and rows
// of single letters. Each is searched for in every plain form that it may have, together with
// its neighbours for phrases of several words.

const (
	leastMarks   = 3  // marks are a disguise if at least one letter in this many has one
	leastRow     = 3  // separated letters, from which on they may be a word
	mostDisguise = 48 // runes; longer words are not examined
	// shortPhrase is the length in runes from which a phrase may match within a longer
	// disguised word: identifiers contain many shorter ones.
	shortPhrase = 5
	neighbours  = 2 // words on either side that are searched too
)

// A disguise makes followers that find disguised words ([content.Reader]).
type disguise struct {
	c     *Check
	pool  sync.Pool // of *unmasker
	multi []bool    // by phrase found by stem: whether it has several words
}

func newDisguise(c *Check) *disguise {
	d := &disguise{c: c}
	if c.stems != nil {
		for i := range c.stems.Len() {
			d.multi = append(d.multi, c.stems.Words(i) > 1)
		}
	}
	d.pool.New = func() any {
		u := &unmasker{d: d, hits: c.set.NewHits(0)}
		u.hits.Once = true
		if c.stems != nil {
			u.finder = c.stems.NewFinder()
		}
		return u
	}
	return d
}

// Follow implements [content.Reader].
func (d *disguise) Follow(*content.Body) content.Follower {
	u := d.pool.Get().(*unmasker)
	u.text, u.at, u.found, u.taken = u.text[:0], 0, u.found[:0], 0
	return u
}

// An unmasker finds disguised words in one text.
type unmasker struct {
	d      *disguise
	hits   *multimatch.Hits
	finder *language.Finder
	text   []byte // normalised: the last examined words, and the text not yet examined
	at     int    // where the text not yet examined begins
	found  []disguisedMatch
	taken  int // phrases of found that take has reported

	raw, plain, piece []byte
	runes             []rune
}

// A disguisedMatch is a phrase found in a disguised word.
type disguisedMatch struct {
	id   uint32
	word string // as on the page
}

// Close returns u to the pool.
func (u *unmasker) Close() { u.d.pool.Put(u) }

// Read appends the next text and examines it.
func (u *unmasker) Read(text []byte, fresh int) {
	u.text = append(u.text, text[fresh:]...)
	u.examine(false)
}

// take reports each phrase found since its last call. last says that the text is complete.
func (u *unmasker) take(last bool, found func(id uint32, word string)) {
	if last {
		u.examine(true)
	}
	for ; u.taken < len(u.found); u.taken++ {
		found(u.found[u.taken].id, u.found[u.taken].word)
	}
}

// next returns the end of the word at i and the beginning of the following one, or -1 if the
// end is not yet known.
func (u *unmasker) next(i int, last bool) (end, after int) {
	n := bytes.IndexByte(u.text[i:], ' ')
	switch {
	case n >= 0:
		return i + n, i + n + 1
	case last:
		return len(u.text), len(u.text)
	}
	return -1, -1
}

// examine examines the text as far as the words after the current one are known, so that the
// result does not depend on how the text was divided.
func (u *unmasker) examine(last bool) {
	for u.at < len(u.text) {
		end, after := u.next(u.at, last)
		if end < 0 {
			break
		}
		if !maybeDisguised(u.text[u.at:end]) {
			u.at = after
			continue
		}
		row, rowAfter, letters, known := u.row(end, after, last)
		if !known {
			break
		}
		if letters > 0 && letters < leastRow {
			u.at = rowAfter
			continue
		}
		right, ok := rowAfter, true
		for range neighbours {
			if _, right = u.next(right, last); right < 0 {
				ok = false
				break
			}
		}
		if !ok {
			break
		}
		u.unmask(u.at, row, rowAfter, right)
		u.at = rowAfter
	}
	u.trim()
}

// row reads a row of single letters, whose first ends at end. It returns the end of the last
// one, the beginning of the following word, and the number of letters. known is false if more
// text is needed.
func (u *unmasker) row(end, after int, last bool) (to, behind, letters int, known bool) {
	to, behind = end, after
	for start := u.at; letters < mostDisguise && single(u.text[start:end]); {
		letters++
		to, behind, start = end, after, after
		if start == len(u.text) {
			return to, behind, letters, last
		}
		if end, after = u.next(start, last); end < 0 {
			return 0, 0, 0, false
		}
	}
	return to, behind, letters, true
}

// trim removes text that is no longer needed.
func (u *unmasker) trim() {
	from := min(u.at, len(u.text))
	for range neighbours + 1 {
		from = max(0, bytes.LastIndexByte(u.text[:from], ' '))
	}
	if from > 0 {
		u.text = u.text[:copy(u.text, u.text[from:])]
		u.at -= from
	}
}

// single reports whether a word is one letter or digit.
func single(word []byte) bool {
	if len(word) == 0 || len(word) > utf8.UTFMax {
		return false
	}
	_, n := utf8.DecodeRune(word)
	return n == len(word)
}

// maybeDisguised reports whether a word may be disguised, or a letter of a row. It is fast, and false for
// the words of English pages.
func maybeDisguised(word []byte) bool {
	if len(word) < 2 {
		return len(word) == 1
	}
	letters, digits := false, false
	for _, c := range word {
		switch {
		case c >= utf8.RuneSelf:
			return true
		case c >= 'a':
			letters = true
		default:
			digits = true
		}
	}
	return letters && digits
}

// unmask searches for phrases in the plain forms of text[from:to], which has blanks between
// the letters of a row, together with its neighbours.
func (u *unmasker) unmask(from, to, after, right int) {
	left := from
	for range neighbours + 1 {
		left = max(0, bytes.LastIndexByte(u.text[:left], ' '))
	}
	before, behind := bytes.TrimSpace(u.text[left:from]), bytes.TrimSpace(u.text[after:right])
	u.raw = u.raw[:0]
	u.runes = u.runes[:0]
	row, marks := false, 0
	for _, r := range string(u.text[from:to]) {
		if marked(r) {
			marks++
		}
		if r == ' ' {
			row = true
			continue
		}
		if 0x300 <= r && r < 0x370 {
			continue // it does not change the letter before it
		}
		if u.runes = append(u.runes, r); len(u.runes) > mostDisguise {
			return
		}
	}
	n := len(u.runes)
	if n == 0 {
		return // marks without a letter
	}
	shown := u.text[from:to]
	if row && n >= leastRow {
		// A word of one letter may be next to the row: "a", "i", "в".
		for _, part := range [...][]rune{u.runes, u.runes[1:], u.runes[:n-1], u.runes[1 : n-1]} {
			if len(part) >= leastRow {
				u.plain = append(u.plain[:0], string(part)...)
				u.search(before, behind, shown, nil, 0)
			}
		}
	}
	kinds := kindsOf(u.runes)
	if kinds&kindOther != 0 {
		return
	}
	near := kindsOf([]rune(string(before))) | kindsOf([]rune(string(behind)))
	if kinds == kindLatin|kindMarked && marks*leastMarks < len(u.runes) {
		return // as in ordinary words of many languages
	}
	mixed := kinds&(kinds-1) != 0
	if mixed || kinds == kindAlike || kinds != kindLatin && kinds != kindDigit && near&kindLatin != 0 {
		for _, one := range [...]rune{'i', 'l'} {
			if u.write(latinOf, one) {
				u.search(before, behind, shown, latinOf, one)
			}
			if bytes.IndexByte(shown, '1') < 0 {
				break
			}
		}
	}
	if mixed && kinds&kindCyrillic != 0 || (mixed || kinds == kindLatin) && near&kindCyrillic != 0 {
		if u.write(cyrillicOf, 'і') {
			u.search(before, behind, shown, cyrillicOf, 'і')
		}
	}
}

// write sets u.plain to the runes replaced as in to, with one for the digit 1. It reports
// false if a rune has no replacement.
func (u *unmasker) write(to map[rune]rune, one rune) (ok bool) {
	u.plain, ok = u.plain[:0], true
	for _, r := range u.runes {
		if u.plain, ok = appendMapped(u.plain, r, to, one); !ok {
			break
		}
	}
	return ok
}

func appendMapped(dst []byte, r rune, to map[rune]rune, one rune) ([]byte, bool) {
	s, ok := to[r]
	if r == '1' {
		s, ok = one, true
	}
	return utf8.AppendRune(dst, s), ok
}

// appendPlain appends words, each followed by a blank; those that look disguised in their
// plain form.
func appendPlain(dst, words []byte, to map[rune]rune, one rune) []byte {
	for word := range bytes.FieldsSeq(words) {
		from, ok := len(dst), to != nil && len(word) > 1 && maybeDisguised(word)
		for _, r := range string(word) {
			if !ok {
				break
			}
			dst, ok = appendMapped(dst, r, to, one)
		}
		if !ok {
			dst = append(dst[:from], word...)
		}
		dst = append(dst, ' ')
	}
	return dst
}

// search searches for phrases that contain the plain word or a part of it, and are not in the
// word as shown. Neighbours that look disguised are replaced in the same way.
func (u *unmasker) search(before, behind, shown []byte, to map[rune]rune, one rune) {
	plain := u.plain
	p := appendPlain(append(u.piece[:0], ' '), before, to, one)
	start := len(p)
	p = append(p, plain...)
	end := len(p)
	p = appendPlain(append(p, ' '), behind, to, one)
	u.piece = p
	u.hits.Reset()
	u.d.c.set.Scan(u.hits, p, 0)
	for _, id := range u.hits.Seen {
		if pattern := u.d.c.set.Pattern(id); standsIn(p, pattern, start, end) && !bytes.Contains(shown, bytes.TrimSpace(pattern)) {
			u.add(id, shown)
		}
	}
	if u.finder == nil {
		return
	}
	u.finder.Break()
	u.finder.Read(p, func(phrase int, word []byte) {
		if u.d.multi[phrase] || bytes.Equal(word, plain) {
			u.add(uint32(u.d.c.set.Len()+phrase), shown)
		}
	})
}

func (u *unmasker) add(id uint32, shown []byte) {
	for _, f := range u.found[u.taken:] {
		if f.id == id && f.word == string(shown) {
			return // already found in another plain form
		}
	}
	if len(u.found) < 1<<12 {
		u.found = append(u.found, disguisedMatch{id, string(shown)})
	}
}

// standsIn reports whether pattern occurs in text so that it overlaps text[from:to]. A short
// pattern must be a whole word.
func standsIn(text, pattern []byte, from, to int) bool {
	whole := utf8.RuneCount(bytes.TrimSpace(pattern)) < shortPhrase
	for i := 0; ; i++ {
		n := bytes.Index(text[i:], pattern)
		if n < 0 {
			return false
		}
		i += n
		end := i + len(pattern)
		if end <= from || i >= to {
			continue
		}
		if !whole || (pattern[0] == ' ' || text[i-1] == ' ') && (pattern[len(pattern)-1] == ' ' || text[end] == ' ') {
			return true
		}
	}
}

// kinds is a set of the kinds of characters in a word, with a bit for each.
type kinds uint8

const (
	kindLatin    kinds = 1 << iota
	kindCyrillic       // Cyrillic letters
	kindAlike          // letters of other scripts that look like Latin ones
	kindMarked         // Latin letters with marks
	kindDigit
	kindOther
)

// marked reports whether r is a Latin letter with marks, or a mark.
func marked(r rune) bool {
	return 0x300 <= r && r < 0x370 || (0xc0 <= r && r < 0x250 || 0x1e00 <= r && r < 0x1f00) && latinOf[r] != 0
}

func kindsOf(runes []rune) (k kinds) {
	for _, r := range runes {
		switch {
		case r == ' ':
		case r >= 'a' && r <= 'z':
			k |= kindLatin
		case r >= '0' && r <= '9':
			k |= kindDigit
		case r >= 0x400 && r < 0x530:
			k |= kindCyrillic
		case marked(r):
			k |= kindMarked
		case latinOf[r] != 0:
			k |= kindAlike
		default:
			k |= kindOther
		}
	}
	return k
}

// asLatin lists letters, folded, and the Latin letters that they resemble.
var asLatin = [...][2]string{
	{"авсенкмоптхуѕіјһԁԛԝгӏєьр", "abcehkmontxysijhdqwrlebp"},   // Cyrillic
	{"αβγεζηικμνορςτυχωϲϳ", "abyeznikmvopctuxwcj"},             // Greek
	{"աբգդեզհյոսվցօքկլռ", "wpqnbqhjnudgoplln"},                 // Armenian
	{"ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz"},   // small capitals
	{"ɑɡɩʋɔəɛɾɯɱ", "agiuceerwm"},                               // phonetic letters
	{"ꭰꮯꭼꮋꭻꮶꮮꮇꮲꮪꭲꮩꮃꮓ", "dcehjklmpstvwz"},                       // Cherokee
	{"ꭺꭵꮐꮋꮑꮎꮖ", "aighnoi"},                                     // more Cherokee
	{"ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "abcdefghijklmnoprstuvwxyz"}, // Lisu
	{"øłđħŧıƈʂɲơưɐɒɗɓƙƥƭ", "oldhticsnouaadbkpt"},               // with strokes and hooks
	{"023456789", "ozeasgtbg"},
}

// asCyrillic lists Latin letters, and the Cyrillic letters that they resemble.
var asCyrillic = [...][2]string{
	{"abcehkmnoprtuxyzi", "авсенкмпоргтихузі"},
	{"0234689", "огзчбвд"},
}

// latinOf and cyrillicOf map characters to the letters that they resemble.
var latinOf, cyrillicOf = standsFor('a', 'z', asLatin[:]), standsFor(0x430, 0x52f, asCyrillic[:])

// standsFor returns a map of the letters from first to last to themselves, and of further
// letters by pairs.
func standsFor(first, last rune, pairs [][2]string) map[rune]rune {
	m := map[rune]rune{}
	for r := first; r <= last; r++ {
		if unicode.IsLower(r) {
			m[r] = r
		}
	}
	for r := rune(0xc0); first == 'a' && r < 0x1f00; r++ {
		// Letters with marks resemble those without.
		if d := []rune(norm.NFD.String(string(r))); len(d) > 1 && d[0] >= first && d[0] <= last {
			m[r] = d[0]
		}
	}
	for _, p := range pairs {
		to := []rune(p[1])
		for i, r := range []rune(p[0]) {
			m[r] = to[i]
		}
	}
	return m
}
