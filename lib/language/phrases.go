package language

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"shuultuur/lib/language/inflect"
	"shuultuur/lib/language/mongolian"
	"shuultuur/lib/language/uzbek"
)

// A Term is a word of a listed phrase, folded as by prose.Normalise. An apostrophe within
// the word is written "'".
type Term struct {
	Word string
	Stem bool // matches in every form, otherwise only as written
}

// Phrases are listed phrases whose words are found by their stems. After the last Add they do
// not change, and any number of Finders can use them.
type Phrases struct {
	seqs   [][]uint32 // terms of each phrase
	starts [][]uint32 // by term: phrases that begin with it
	terms  map[Term]map[Tag]uint32

	tables []*table // one per language in use, and one for words as written
	joints map[string]bool

	guessed int // words by stem without a known language
}

// mostGuessed is the number of words without a language that are entered in forms that
// stemmers miss. Making the forms in every language takes some milliseconds per word.
const mostGuessed = 500

// A table maps the words of one language to terms.
type table struct {
	tag    Tag // Unknown for words as written
	n      int // its index
	named  bool
	script Script
	stem   Stemmer
	short  bool // forms of a word share only two letters
	ids    map[string][]uint32
	filter [1024]uint64 // of the first letters of its words
	admits []admission
}

// An admission are the first letters of words that the filter accepts because of a term.
type admission struct {
	letters string
	term    uint32
}

// Len returns the number of phrases.
func (p *Phrases) Len() int { return len(p.seqs) }

// Words returns the number of words in a phrase.
func (p *Phrases) Words(phrase int) int { return len(p.seqs[phrase]) }

// Add adds a phrase and returns its number, counted from 0. A word by stem is found in texts
// of the language tag; with Unknown, in texts of every language that has a stemmer and the
// script of the word. Words of a language or script without stemmer are found as written.
func (p *Phrases) Add(tag Tag, terms []Term) (int, error) {
	if p.terms == nil {
		p.terms, p.joints = map[Term]map[Tag]uint32{}, map[string]bool{}
	}
	n := len(p.seqs)
	var seq []uint32
	for _, t := range terms {
		id, err := p.term(tag, t)
		if err != nil {
			return 0, err
		}
		seq = append(seq, id)
	}
	p.seqs = append(p.seqs, seq)
	p.starts[seq[0]] = append(p.starts[seq[0]], uint32(n))
	return n, nil
}

// term returns the number of a term, and enters it in the tables if it is new.
func (p *Phrases) term(tag Tag, t Term) (uint32, error) {
	if !t.Stem {
		tag = Unknown
	}
	if id, ok := p.terms[t][tag]; ok {
		return id, nil
	}
	if p.terms[t] == nil {
		p.terms[t] = map[Tag]uint32{}
	}
	id := uint32(len(p.starts))
	p.terms[t][tag] = id
	p.starts = append(p.starts, nil)
	p.parts(t.Word)
	switch {
	case !t.Stem:
		return id, p.addWritten(t.Word, id)
	case tag != Unknown:
		x, err := p.table(tag)
		if err != nil {
			return 0, err
		}
		x.named = true
		p.addForms(x, t.Word, id, true)
	default:
		script, found := ScriptOf(t.Word), false
		for _, l := range Languages {
			if l.Script != script || !HasStemmer(l.Tag) {
				continue
			}
			found = true
			x, err := p.table(l.Tag)
			if err != nil {
				return 0, err
			}
			p.addForms(x, t.Word, id, p.guessed < mostGuessed)
		}
		if p.guessed++; !found {
			return id, p.addWritten(t.Word, id)
		}
	}
	return id, nil
}

// addWritten enters a word that is found as written.
func (p *Phrases) addWritten(word string, id uint32) error {
	x, err := p.table(Unknown)
	if err != nil {
		return err
	}
	x.add(word, id)
	return nil
}

// parts records where apostrophes split a word in a text.
func (p *Phrases) parts(word string) {
	for i, c := range word {
		if c == '\'' {
			p.joints[word[:i]] = true
		}
	}
}

// table returns the table of a language. Both scripts of Uzbek share one, because their stems
// are the same.
func (p *Phrases) table(tag Tag) (*table, error) {
	if tag == "uz-Cyrl" {
		tag = "uz-Latn"
	}
	for _, x := range p.tables {
		if x.tag == tag {
			return x, nil
		}
	}
	x := &table{tag: tag, n: len(p.tables), script: scriptOfTag(tag), stem: identityStemmer{}, short: tag == "mn", ids: map[string][]uint32{}}
	if HasStemmer(tag) {
		s, err := NewStemmer(tag)
		if err != nil {
			return nil, err
		}
		x.stem = s
	}
	p.tables = append(p.tables, x)
	return x, nil
}

// addForms enters the stem of a word, and the word itself, because a list may contain a stem
// from which the stemmer would remove another ending. With all, which takes time, it also
// enters the forms that the stemmer misses.
func (p *Phrases) addForms(x *table, word string, id uint32, all bool) {
	stem := string(x.stem.Stem(nil, []byte(word)))
	x.add(word, id)
	if (!all || p.addMissed(x, word, stem, id)) && word != stem {
		x.add(stem, id)
	}
	if x.tag == "ar" {
		for _, p := range particles {
			x.admit(p+word, id)
			x.admit(p+stem, id)
		}
	}
	// Folding turns ё into е, so that yo becomes ye in words written in Cyrillic.
	if folded := strings.ReplaceAll(word, "yo", "ye"); x.tag == "uz-Latn" && folded != word {
		p.addForms(x, folded, id, all)
	}
}

// addMissed enters the forms of a word for which the stemmer returns another stem. It reports
// whether the stem itself is to be entered.
func (p *Phrases) addMissed(x *table, word, stem string, id uint32) bool {
	switch s := x.stem.(type) {
	case *inflect.Stemmer: // the one for Mongolian
		return mongolian.ExtraStems(s, word, func(form string) { x.add(form, id) })
	case *uzbek.Stemmer:
		own := s.ExtraStems(word, func(form string) {
			x.add(form, id)
			p.parts(form)
		})
		if q, ok := strings.CutSuffix(stem, "q"); ok {
			p.parts(q + "g'") // before a vowel
		}
		return own
	case interface{ Forms(string, func(string)) }:
		s.Forms(word, func(form string) {
			if form != word && string(x.stem.Stem(nil, []byte(form))) != stem {
				x.add(form, id)
			}
		})
	}
	return true
}

func (x *table) add(word string, id uint32) {
	if !slices.Contains(x.ids[word], id) {
		x.ids[word] = append(x.ids[word], id)
	}
	x.admit(word, id)
}

// particles are written together with the following Arabic word. The stemmer removes them.
var particles = strings.Fields("ال وال فال بال كال لل ولل و ف ب ك ل وب ول وك بب كك")

// admit lets words with the first letters of word pass the filter.
func (x *table) admit(word string, id uint32) {
	at := beginning([]byte(word))[x.shared(word)]
	x.filter[at>>6] |= 1 << (at & 63)
	// The forms of a word begin alike, and come one after the other.
	a := admission{x.letters(word), id}
	if n := len(x.admits); !slices.Contains(x.admits[max(0, n-alike):], a) {
		x.admits = append(x.admits, a)
	}
}

// shared returns the number of first letters that all forms of a word share, minus two: 0, 1
// or 2 for two, three or four letters. Endings change at most the last letter of a stem, and
// in Uzbek the last two.
func (x *table) shared(word string) int {
	n := utf8.RuneCountInString(word)
	switch {
	case n == 2 || x.short:
		return 0
	case x.tag == Unknown && n > 3 || n >= 6 && x.tag != "ar" || n == 5 && x.tag != "ar" && x.tag != "uz-Latn":
		return 2
	}
	return min(1, max(0, n-2))
}

// Beginnings returns the first bytes, up to four, of every word that may begin a phrase in a
// normalised text.
func (p *Phrases) Beginnings() [][]byte {
	all := map[string]bool{}
	for _, x := range p.tables {
		for _, a := range x.admits {
			if len(p.starts[a.term]) > 0 {
				x.beginnings(a.letters, all)
			}
		}
	}
	for word := range p.joints {
		spell(word+" ", false, "", all)
	}
	var list [][]byte
	for b := range all {
		list = append(list, []byte(b))
	}
	return list
}

// alike is how many admissions before are compared with a new one.
const alike = 8

// letters returns the letters that words accepted because of word begin with, or the word and
// a space if such a word ends there.
func (x *table) letters(word string) string {
	letters := []rune(word)
	most := x.shared(word) + 2
	switch {
	case len(letters) > most:
		letters = letters[:most]
	case len(letters) < most && x.tag == Unknown:
		letters = append(letters, ' ')
	}
	return string(letters)
}

// beginnings adds the beginnings of words that begin with letters.
func (x *table) beginnings(letters string, all map[string]bool) {
	spell(letters, x.tag != Unknown && x.tag != "uz-Latn" && ScriptOf(letters) == Latin, "", all)
	if x.tag == "uz-Latn" {
		for r := rune(0x430); r < 0x500; r++ {
			if l := uzbek.Latin(nil, []byte(string(r))); len(l) > 0 && l[0] == letters[0] {
				for _, next := range []byte{0xd0, 0xd1, 0xd2, 0xd3, ' '} { // and the bytes that a letter begins with, or no letter
					all[string(r)+string([]byte{next})] = true
				}
			}
		}
	}
}

// spell adds to all the first four bytes of before and letters. If the stemmer may remove
// marks, it adds them with and without marks.
func spell(letters string, marks bool, before string, all map[string]bool) {
	if letters == "" || len(before) >= 4 {
		all[before[:min(len(before), 4)]] = true
		return
	}
	r, n := utf8.DecodeRuneInString(letters)
	spell(letters[n:], marks, before+letters[:n], all)
	if !marks {
		return
	}
	if 0xe0 <= r && r <= 0xff {
		r = rune(base[r-0xe0])
		spell(letters[n:], marks, before+string(r), all)
	}
	for i, b := range base {
		if b == r {
			spell(letters[n:], marks, before+string(rune(0xe0+i)), all)
		}
	}
}

// may reports whether a word with this beginning can be in the table.
func (x *table) may(b prefixHashes) bool { return b.intersects(&x.filter) }

// prefixHashes are hashes of the first two, three and four letters of a word. For a shorter
// word they are hashes of all its letters.
type prefixHashes [3]uint16

// intersects reports whether a filter contains one of them.
func (b prefixHashes) intersects(filter *[1024]uint64) bool {
	return (filter[b[0]>>6]>>(b[0]&63)|filter[b[1]>>6]>>(b[1]&63)|filter[b[2]>>6]>>(b[2]&63))&1 != 0
}

// base are the letters of U+00E0 to U+00FF without their marks: several stemmers remove these.
const base = "aaaaaaaceeeeiiiidnooooo/ouuuuyty"

func beginning(word []byte) (b prefixHashes) {
	h := uint32(0)
	for n := 1; len(word) > 0 && n <= 4; n++ {
		r, size := rune(word[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(word)
			if 0xe0 <= r && r <= 0xff {
				r = rune(base[r-0xe0])
			}
		}
		word = word[size:]
		h = (h + uint32(r)) * 0x9e3779b1
		for i := max(0, n-2); i < len(b); i++ {
			b[i] = uint16(h >> 16)
		}
	}
	return b
}

// ScriptOf returns the script of the first letter of a word.
func ScriptOf(word string) Script {
	for _, r := range word {
		if r|0x20 >= 'a' && r|0x20 <= 'z' {
			return Latin
		}
		if s := scriptOf(r); s != None {
			return s
		}
	}
	return None
}

// A Finder finds phrases in one text after another. It belongs to one goroutine.
type Finder struct {
	p             *Phrases
	seed          maphash.Seed
	known         [1 << 10]knownWord // cache of words
	seen          []sighting
	stem, written []byte // forms of the current word
	last, tail    []byte // the text before the current word, and the end of the previous text

	tell     func() Tag // nil: the text may be in any language
	tag      Tag        // its last answer
	tagKnown bool

	filter [1024]uint64 // those of the tables, and of the beginnings of words with apostrophes
	latin  bool         // words in Cyrillic may be in a table in Latin letters

	active, room []place // phrases that the last words began
	open         []byte  // the previous word, if an apostrophe may join the next one to it
	before       []place // phrases that were active before it
	joined       []byte
}

// A place is a phrase, the number of its terms that were found, and the tables of the words,
// one bit each.
type place struct{ phrase, n, tables uint32 }

// A sighting is a term of a word, with the table that has it.
type sighting struct{ term, table uint32 }

type knownWord struct {
	hash  uint64
	table *table
	ids   []uint32
}

// NewFinder returns a finder for texts in any language, such as a few words typed into a
// search.
func (p *Phrases) NewFinder() *Finder {
	f := &Finder{p: p, seed: maphash.MakeSeed()}
	for _, x := range p.tables {
		for i, bits := range &x.filter {
			f.filter[i] |= bits
		}
		f.latin = f.latin || x.tag == "uz-Latn"
	}
	for word := range p.joints {
		two := beginning([]byte(word))[0]
		f.filter[two>>6] |= 1 << (two & 63)
	}
	return f
}

// Break says that the next text does not continue the last one.
func (f *Finder) Break() { f.active, f.open, f.tail = f.active[:0], f.open[:0], f.tail[:0] }

// Ask sets the function that returns the language of the following text. It is called when a
// listed word may occur, once until Ask is called again. If it returns Unknown, words are
// searched for in the languages that lists name; a nil tell means every language. Words in
// another script than that of the text's language are searched for in the languages of that
// script that lists name.
func (f *Finder) Ask(tell func() Tag) { f.tell, f.tagKnown = tell, false }

// uses reports whether the words of a table are searched for in the text.
func (f *Finder) uses(x *table) bool {
	if x.tag == Unknown || f.tell == nil {
		return true
	}
	if !f.tagKnown {
		f.tag, f.tagKnown = f.tell(), true
		if f.tag == "uz-Cyrl" {
			f.tag = "uz-Latn"
		}
	}
	return x.tag == f.tag || x.named && (f.tag == Unknown || x.script != scriptOfTag(f.tag))
}

// scriptOfTag returns the script of a language in the table, None for others.
func scriptOfTag(tag Tag) Script {
	for i := range Languages {
		if Languages[i].Tag == tag {
			return Languages[i].Script
		}
	}
	return None
}

// skips reports whether a word with this beginning is not in any phrase.
func (f *Finder) skips(word []byte, b prefixHashes) bool {
	return !b.intersects(&f.filter) && !(f.latin && word[0] >= utf8.RuneSelf)
}

const maxActive = 64

// Read reads a normalised text, which ends with a complete word, and calls found with the
// number of each phrase in it and with its last word in the text.
func (f *Finder) Read(text []byte, found func(phrase int, word []byte)) {
	for at := 0; at < len(text); {
		at = f.next(text, at, found)
	}
	f.end(text)
}

// ReadAt is Read for a caller that has already found the beginnings of words (see
// [Phrases.Beginnings]), at the increasing positions starts.
func (f *Finder) ReadAt(text []byte, starts []int, found func(phrase int, word []byte)) {
	defer f.end(text)
	for at := 0; at < len(text); {
		if len(f.active) == 0 && len(f.open) == 0 {
			for len(starts) > 0 && starts[0] < at {
				starts = starts[1:]
			}
			if len(starts) == 0 {
				return
			}
			at = starts[0]
		}
		at = f.next(text, at, found)
	}
}

// end keeps the last word of a text, because the next text may continue it.
func (f *Finder) end(text []byte) {
	text = bytes.TrimSuffix(text, []byte(" "))
	text = text[max(0, len(text)-longestWord):]
	f.tail = append(f.tail[:0], text[bytes.LastIndexByte(text, ' ')+1:]...)
}

// next reads the word at a position and returns the position of the next.
func (f *Finder) next(text []byte, at int, found func(int, []byte)) int {
	word := text[at:]
	if i := bytes.IndexByte(word, ' '); i >= 0 {
		word = word[:i]
	}
	if len(word) > 0 && len(word) <= 2*longestWord {
		if f.last = f.tail; at > 0 {
			f.last = text[:at-1]
		}
		f.word(word, found)
	}
	return at + len(word) + 1
}

func (f *Finder) word(word []byte, found func(int, []byte)) {
	b := beginning(word)
	if len(f.open) == 0 && f.skips(word, b) { // true for nearly all words
		f.active = f.active[:0]
		return
	}
	next := f.step(f.room[:0], f.active, f.termsOf(word, b), word, found)
	if len(f.p.joints) > 0 {
		next = f.join(next, word, found)
	}
	f.active, f.room = next, f.active
}

// join joins a word to the previous one, if that is the part of a listed word before an
// apostrophe: apostrophes are blanks in a text.
func (f *Finder) join(next []place, word []byte, found func(int, []byte)) []place {
	if len(f.open) > 0 {
		f.joined = append(append(append(f.joined[:0], f.open...), '\''), word...)
		next = f.step(next, f.before, f.termsOf(f.joined, beginning(f.joined)), f.joined, found)
		if f.p.joints[string(f.joined)] {
			f.open = append(f.open[:0], f.joined...)
			return next
		}
	}
	f.open = f.open[:0]
	if f.p.joints[string(word)] {
		f.open = append(f.open, word...)
		f.before = append(f.before[:0], f.active...)
	}
	return next
}

// step appends to next the phrases of from that continue with a word that has the terms in
// seen, and those that begin with it.
func (f *Finder) step(next, from []place, seen []sighting, word []byte, found func(int, []byte)) []place {
	for _, s := range seen {
		for _, a := range from {
			if f.p.seqs[a.phrase][a.n] == s.term {
				next = f.moved(next, a, s.table, word, found)
			}
		}
		for _, phrase := range f.p.starts[s.term] {
			next = f.moved(next, place{phrase: phrase}, s.table, word, found)
		}
	}
	return next
}

func (f *Finder) moved(next []place, a place, table uint32, word []byte, found func(int, []byte)) []place {
	a.n++
	a.tables |= 1 << table
	if int(a.n) == len(f.p.seqs[a.phrase]) {
		for t, x := range f.p.tables {
			if a.tables>>t&1 != 0 && !f.uses(x) {
				return next
			}
		}
		found(int(a.phrase), word)
	} else if len(next) < maxActive {
		next = append(next, a)
	}
	return next
}

// termsOf returns the terms of a word with this beginning.
func (f *Finder) termsOf(word []byte, b prefixHashes) []sighting {
	f.seen = f.seen[:0]
	for _, x := range f.p.tables {
		b := b
		if x.tag == "uz-Latn" && word[0] >= utf8.RuneSelf {
			var room [16]byte
			b = beginning(uzbek.Latin(room[:0], word[:min(len(word), 8)]))
		}
		// Determining the language costs more than stemming a few words, so it waits until a
		// phrase is found, unless every language is searched.
		if x.may(b) && (x.named && !f.tagKnown || f.uses(x)) {
			ids := f.lookIn(x, word)
			if len(ids) > 0 && f.isSplitEnd(x, word) {
				continue
			}
			for _, id := range ids {
				f.seen = append(f.seen, sighting{id, uint32(x.n)})
			}
		}
	}
	return f.seen
}

// isSplitEnd reports whether a word is the end of another one that an apostrophe split: "taradi"
// (combs) in "ko taradi" (ko'taradi, lifts).
func (f *Finder) isSplitEnd(x *table, word []byte) bool {
	s, ok := x.stem.(*uzbek.Stemmer)
	if n := len(f.last); !ok || n == 0 || f.last[n-1] != 'o' && f.last[n-1] != 'g' || bytes.IndexByte(word, '\'') >= 0 {
		return false
	}
	before := f.last[bytes.LastIndexByte(f.last, ' ')+1:]
	_, n := s.JoinParts([]string{string(before), string(word)})
	return n == 2
}

// lookIn returns the terms of a word in a table, from the cache if possible.
func (f *Finder) lookIn(x *table, word []byte) []uint32 {
	h := maphash.Bytes(f.seed, word)
	k := &f.known[(h+uint64(x.n))%uint64(len(f.known))]
	if k.hash != h || k.table != x {
		f.stem = x.stem.Stem(f.stem[:0], word)
		ids := x.ids[string(f.stem)]
		if f.written = append(f.written[:0], word...); x.tag == "uz-Latn" {
			f.written = uzbek.Latin(f.written[:0], word)
		}
		if more := x.ids[string(f.written)]; len(ids) == 0 {
			ids = more
		} else if !bytes.Equal(f.stem, f.written) {
			ids = slices.Clip(ids)
			for _, id := range more {
				if !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
		*k = knownWord{h, x, ids}
	}
	return k.ids
}

// TagNamed returns the tag in the table for a name in a list, such as "uz" or "ru-RU", in the
// script of a word, or Unknown.
func TagNamed(name, word string) Tag {
	if tag := Parse(strings.TrimSpace(name), ScriptOf(word)); tag != Unknown {
		return tag
	}
	return Parse(strings.TrimSpace(name), None)
}
