package language

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"shuultuur/content/language/uzbek"
)

// A Term is a word of a listed phrase, folded as content.Normalise folds. An
// apostrophe within the word is written "'".
type Term struct {
	Word string
	Stem bool // it is found in every form, otherwise only as it is written
}

// Phrases are listed phrases whose words are found by their stems. Add builds
// them; after that they do not change, and any number of Finders use them.
type Phrases struct {
	seqs   [][]uint32 // terms of each phrase
	starts [][]uint32 // by term: phrases that begin with it
	terms  map[Term]map[Tag]uint32

	tables []*table // one for each language in use, and one for words as written
	joints map[string]bool
}

// A table finds the terms of a word in one language.
type table struct {
	tag    Tag // Unknown: words as they are written
	named  bool
	stem   Stemmer
	short  bool // forms of a word share only two letters
	ids    map[string][]uint32
	filter [1024]uint64 // of the first letters of its words
}

// Len returns the number of phrases.
func (p *Phrases) Len() int { return len(p.seqs) }

// Words returns how many words a phrase has.
func (p *Phrases) Words(phrase int) int { return len(p.seqs[phrase]) }

// Add takes a phrase and returns its number, counted from 0. A word to be found
// by its stem is found in texts of the language, or with Unknown in texts of
// each language that has a stemmer and is written in the script of the word.
// Words of a language without stemmer are found as they are written.
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

// term returns the number of a term and enters it in the tables.
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
	for i, c := range t.Word {
		if c == '\'' {
			p.joints[t.Word[:i]] = true
		}
	}
	switch {
	case !t.Stem:
		x, err := p.table(Unknown)
		if err != nil {
			return 0, err
		}
		x.add(t.Word, id)
	case tag != Unknown:
		x, err := p.table(tag)
		if err != nil {
			return 0, err
		}
		x.named = true
		x.addForms(t.Word, id)
	default:
		script := ScriptOf(t.Word)
		for _, l := range Languages {
			if l.Script != script || !HasStemmer(l.Tag) {
				continue
			}
			x, err := p.table(l.Tag)
			if err != nil {
				return 0, err
			}
			x.addForms(t.Word, id)
		}
	}
	return id, nil
}

// table returns the table of a language. Both scripts of Uzbek share one, since
// their stems are the same.
func (p *Phrases) table(tag Tag) (*table, error) {
	if tag == "uz-Cyrl" {
		tag = "uz-Latn"
	}
	for _, x := range p.tables {
		if x.tag == tag {
			return x, nil
		}
	}
	x := &table{tag: tag, stem: whole{}, short: tag == "mn", ids: map[string][]uint32{}}
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

// addForms enters the stem of a word, and the word itself: an author may have
// written the stem already, of which the stemmer might take another ending.
func (x *table) addForms(word string, id uint32) {
	stem := string(x.stem.Stem(nil, []byte(word)))
	x.add(stem, id)
	if word != stem {
		x.add(word, id)
	}
	x.admit(word)
	// Folding makes е of ё, so that yo is ye in words written in Cyrillic.
	if folded := strings.ReplaceAll(word, "yo", "ye"); x.tag == "uz-Latn" && folded != word {
		x.addForms(folded, id)
	}
}

func (x *table) add(word string, id uint32) {
	if !slices.Contains(x.ids[word], id) {
		x.ids[word] = append(x.ids[word], id)
	}
	x.admit(word)
}

// admit lets words with the first letters of this one through the filter.
func (x *table) admit(word string) {
	two, three := beginning([]byte(word))
	at := three
	if x.short || three == 0 {
		at = two
	}
	x.filter[at>>6] |= 1 << (at & 63)
}

// may says whether a word with this beginning can be in the table.
func (x *table) may(two, three uint16) bool {
	return (x.filter[two>>6]>>(two&63)|x.filter[three>>6]>>(three&63))&1 != 0
}

// base are the letters of U+00E0 to U+00FF without their marks: several
// stemmers take these off.
const base = "aaaaaaaceeeeiiiidnooooo/ouuuuyty"

// beginning returns hashes of the first two letters and of the first three, 0
// where the word has not so many.
func beginning(word []byte) (two, three uint16) {
	h := uint32(0)
	for n := 1; len(word) > 0 && n <= 3; n++ {
		r, size := rune(word[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(word)
			if 0xe0 <= r && r <= 0xff {
				r = rune(base[r-0xe0])
			}
		}
		word = word[size:]
		h = (h + uint32(r)) * 0x9e3779b1
		switch n {
		case 2:
			two = uint16(h>>16) | 1
		case 3:
			three = uint16(h>>16) | 1
		}
	}
	if two == 0 {
		two = uint16(h>>16) | 1
	}
	return two, three
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

// A Finder finds phrases in one text after another. It belongs to one
// goroutine.
type Finder struct {
	p      *Phrases
	tables []*table // in use
	seed   maphash.Seed
	known  [1 << 10]knownWord // words looked up last
	ids    []uint32
	stem   []byte

	tag    Tag          // that tables and filter are for
	set    bool         // they are
	filter [1024]uint64 // those of tables, and of the beginnings of words with apostrophes
	latin  bool         // words in Cyrillic letters may be in a table by their Latin ones

	active, next []place // phrases of which the last words were the beginning
	open         []byte  // the word before, if an apostrophe may join the next to it
	before       []place // phrases that were active before it
	joined       []byte
}

// A place is a phrase and the terms of it that were found.
type place struct{ phrase, n uint32 }

type knownWord struct {
	hash  uint64
	table *table
	ids   []uint32
}

// NewFinder returns a finder that looks for words as if the language of its
// texts were not certain.
func (p *Phrases) NewFinder() *Finder {
	f := &Finder{p: p, seed: maphash.MakeSeed()}
	f.Reset()
	return f
}

// Reset begins another text, of which the language is not certain.
func (f *Finder) Reset() {
	f.Break()
	f.SetLanguage(Unknown)
}

// Break says that the next text does not go on from the last.
func (f *Finder) Break() { f.active, f.open = f.active[:0], f.open[:0] }

// SetLanguage says in which language the text goes on. Where it is Unknown,
// words are looked for in the languages that lists name.
func (f *Finder) SetLanguage(tag Tag) {
	if tag == "uz-Cyrl" {
		tag = "uz-Latn"
	}
	if f.set && f.tag == tag {
		return
	}
	f.tag, f.set = tag, true
	f.tables = f.tables[:0]
	for _, x := range f.p.tables {
		if x.tag == Unknown || x.tag == tag || tag == Unknown && x.named {
			f.tables = append(f.tables, x)
		}
	}
	f.prepare()
}

// SetAny says that the text may be in every language, as a few words typed in
// a search are.
func (f *Finder) SetAny() {
	f.tables, f.set = append(f.tables[:0], f.p.tables...), false
	f.prepare()
}

// prepare makes the filter of the tables.
func (f *Finder) prepare() {
	f.filter, f.latin = [1024]uint64{}, false
	for _, x := range f.tables {
		for i, bits := range &x.filter {
			f.filter[i] |= bits
		}
		f.latin = f.latin || x.tag == "uz-Latn"
	}
	for word := range f.p.joints {
		two, _ := beginning([]byte(word))
		f.filter[two>>6] |= 1 << (two & 63)
	}
}

// skips says whether a word with this beginning is no part of any phrase.
func (f *Finder) skips(word []byte, two, three uint16) bool {
	return (f.filter[two>>6]>>(two&63)|f.filter[three>>6]>>(three&63))&1 == 0 && !(f.latin && word[0] >= utf8.RuneSelf)
}

const maxActive = 64

// Read reads on in a normalised text, which ends with a whole word, and calls
// found with the number of each phrase in it and its last word as it stands.
func (f *Finder) Read(text []byte, found func(phrase int, word []byte)) {
	for len(text) > 0 {
		i := bytes.IndexByte(text, ' ')
		word := text
		if i < 0 {
			text = nil
		} else {
			word, text = text[:i], text[i+1:]
		}
		if len(word) > 0 && len(word) <= 2*longestWord {
			f.word(word, found)
		}
	}
}

func (f *Finder) word(word []byte, found func(int, []byte)) {
	two, three := beginning(word)
	if len(f.open) == 0 && f.skips(word, two, three) { // as nearly all words
		f.active = f.active[:0]
		return
	}
	next := f.step(f.next[:0], f.active, f.look(word, two, three), word, found)
	if len(f.p.joints) > 0 {
		next = f.join(next, word, found)
	}
	f.active, f.next = next, f.active
}

// join joins a word to the one before it, if that is the beginning of a listed
// word up to an apostrophe: apostrophes are blanks in a text.
func (f *Finder) join(next []place, word []byte, found func(int, []byte)) []place {
	if len(f.open) > 0 {
		f.joined = append(append(append(f.joined[:0], f.open...), '\''), word...)
		two, three := beginning(f.joined)
		next = f.step(next, f.before, f.look(f.joined, two, three), f.joined, found)
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

// step appends to next the phrases of from that go on with a word which has the
// terms ids, and those that begin with it.
func (f *Finder) step(next, from []place, ids []uint32, word []byte, found func(int, []byte)) []place {
	for _, id := range ids {
		for _, a := range from {
			if f.p.seqs[a.phrase][a.n] == id {
				next = f.moved(next, a, word, found)
			}
		}
		for _, s := range f.p.starts[id] {
			next = f.moved(next, place{s, 0}, word, found)
		}
	}
	return next
}

func (f *Finder) moved(next []place, a place, word []byte, found func(int, []byte)) []place {
	a.n++
	if int(a.n) == len(f.p.seqs[a.phrase]) {
		found(int(a.phrase), word)
	} else if len(next) < maxActive {
		next = append(next, a)
	}
	return next
}

// look returns the terms of a word, of which two and three are the beginning.
func (f *Finder) look(word []byte, two, three uint16) []uint32 {
	f.ids = f.ids[:0]
	for _, x := range f.tables {
		if x.tag == "uz-Latn" && word[0] >= utf8.RuneSelf {
			var room [16]byte
			a, b := beginning(uzbek.Latin(room[:0], word[:min(len(word), 6)]))
			if x.may(a, b) {
				f.ids = append(f.ids, f.lookIn(x, word)...)
			}
		} else if x.may(two, three) {
			f.ids = append(f.ids, f.lookIn(x, word)...)
		}
	}
	return f.ids
}

// lookIn stems a word unless it is known.
func (f *Finder) lookIn(x *table, word []byte) []uint32 {
	h := maphash.Bytes(f.seed, word)
	k := &f.known[h&uint64(len(f.known)-1)]
	if k.hash != h || k.table != x {
		f.stem = x.stem.Stem(f.stem[:0], word)
		ids := x.ids[string(f.stem)]
		if len(ids) == 0 {
			ids = x.ids[string(word)]
		}
		*k = knownWord{h, x, ids}
	}
	return k.ids
}

// Named returns the tag of the table for a name that a list gives, such as "uz"
// or "ru-RU", in the script of a word, or Unknown.
func Named(name, word string) Tag {
	if tag := Parse(strings.TrimSpace(name), ScriptOf(word)); tag != Unknown {
		return tag
	}
	return Parse(strings.TrimSpace(name), None)
}
