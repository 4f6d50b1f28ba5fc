// Package turkic makes the forms of words in Kazakh, Kyrgyz and Turkish, and finds the stems
// of Kazakh and Kyrgyz words.
//
// Endings follow vowel harmony and the last sound before them. Capitals in endings stand for
// sounds that change: A and I are vowels, most others consonants. "~" means I, only after
// consonants; "^", J and H mean s, y and n, only after vowels. There is no dictionary, so Stem
// removes only endings that hardly ever belong to a word; the forms of a listed word are made
// from the word itself (see [Stemmer.Forms]). Turkish is read without ı, because folding turns
// it into i.
package turkic

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Stemmer is for one of the languages. It is safe for concurrent use.
type Stemmer struct{ l *language }

// Kazakh, Kyrgyz and Turkish return stemmers. That of Turkish only makes forms.
func Kazakh() Stemmer  { return Stemmer{kazakh()} }
func Kyrgyz() Stemmer  { return Stemmer{kyrgyz()} }
func Turkish() Stemmer { return Stemmer{turkish()} }

// A language has the properties of one language.
type language struct {
	vowels    string
	glides    string        // vowels that count as consonants before endings
	base      rune          // the first letter in letters
	letters   [0x180]letter // from base on
	s         rune          // the sound of ^
	front     string        // vowels that may be front vowels against the harmony of the word
	voiceless string
	harmony   func(vowel rune) (a, i rune) // A and I after it; 0 if it does not determine them
	consonant func(l *language, template, last rune, back bool) rune

	plural  string
	owners  []string // the last but one is for the third person
	cases   []string
	thirds  []string // cases after the third person
	persons []string
	voiced  map[rune]rune
	dropped string // vowels of last syllables that may be dropped
	verbOf  func(infinitive []rune) []string
	verbs   [][2][]string // endings of verbs, and the endings after each
}

// A letter has the properties of a sound that matter for endings.
type letter struct {
	vowel, full, hard bool // full: a vowel that is not a glide
	a, i              rune // A and I after it; 0 if it does not determine them
}

// is returns the properties of a letter.
func (l *language) is(r rune) *letter {
	if r -= l.base; r < 0 || int(r) >= len(l.letters) {
		r = 0 // a letter of another language
	}
	return &l.letters[r]
}

// prepared makes the table of letters when the language is first needed.
func prepared(l *language) func() *language {
	return sync.OnceValue(func() *language {
		l.prepare()
		return l
	})
}

func (l *language) prepare() {
	for n := range l.letters {
		r := l.base + rune(n)
		x := &l.letters[n]
		x.vowel, x.hard = strings.ContainsRune(l.vowels, r), strings.ContainsRune(l.voiceless, r)
		x.full = x.vowel && !strings.ContainsRune(l.glides, r)
		x.a, x.i = l.harmony(r)
	}
}

const (
	minStem = 3  // letters that Stem leaves
	longest = 40 // letters; a longer word is its own stem
)

var kazakh = prepared(&language{
	base:      0x400,
	s:         'с',
	vowels:    "аәеоөұүыіэяёиую",
	glides:    "иую",
	voiceless: "пткқсшщхцчфбвгдһ",
	harmony: func(r rune) (a, i rune) {
		switch r {
		case 'а', 'о', 'ұ', 'ы', 'я', 'ё':
			return 'а', 'ы'
		case 'ә', 'е', 'ө', 'ү', 'і', 'э':
			return 'е', 'і'
		}
		return 0, 0
	},
	consonant: kazakhConsonant,
	plural:    "LAр",
	owners:    []string{"~м", "~ң", "~мIз", "~ңIз", "^I"},
	cases:     []string{"", "NIң", "GA", "A", "OI", "DA", "BAн", "Mен", "DAQI", "DAQILAр", "DAQILAрGA", "DAQILAрOI"},
	thirds:    []string{"", "нIң", "нA", "н", "ндA", "нAн", "мен", "ндAgI", "ндAgIлAр"},
	persons:   []string{"MIн", "сIң", "сIз", "MIз"},
	voiced:    map[rune]rune{'п': 'б', 'к': 'г', 'қ': 'ғ'},
	dropped:   "ыіиуүұ",
	front:     "иую",
	verbOf: func(w []rune) []string {
		n := len(w) - 1
		if n < 2 || w[n] != 'у' {
			return nil
		}
		root := string(w[:n])
		if strings.ContainsRune("аеөояәюүұыіи", w[n-1]) {
			if n < 3 {
				return nil // тау is not a verb
			}
			return []string{root}
		}
		if n < 3 {
			return []string{root}
		}
		return []string{root, root + "ы", root + "і"}
	},
	verbs: [][2][]string{
		{{"Y", "PAй"}, {"MIн", "сIң", "сIз", "дI", "MIз", ""}},
		{{"DI", "PAдI", "сA", "PAсA"}, {"", "м", "ң", "ңIз", "K"}},
		{{"GAн", "PAGAн", "YтIн"}, {"", "MIн", "сIң", "сIз", "MIз", "дAр", "дAрGA", "дAрдI", "NIң", "GA", "DA", "BAн", "OI", "I"}},
		{{"~п"}, {"", "пIн", "сIң", "сIз", "тI", "пIз"}},
		{{"Aр", "PAс", "сIн", "~ңIз", "~ңдAр", "GAлI", "MAK", "MAKшI"}, {""}},
	},
})

// kazakhConsonant returns the sound of a consonant in an ending after the letter last.
func kazakhConsonant(l *language, t, last rune, back bool) rune {
	is := l.is(last)
	hard, vowel, glide := is.hard, is.full, last == 'й' || is.vowel && !is.full
	nasal := last == 'м' || last == 'н' || last == 'ң'
	switch t {
	case 'L':
		return pick(hard, 'т', pick(vowel || glide || last == 'р', 'л', 'д'))
	case 'N':
		return pick(hard, 'т', pick(vowel || nasal, 'н', 'д'))
	case 'O':
		return pick(hard, 'т', pick(vowel, 'н', 'д'))
	case 'D':
		return pick(hard, 'т', 'д')
	case 'B':
		return pick(hard, 'т', pick(nasal, 'н', 'д'))
	case 'M':
		return pick(hard, 'п', pick(last == 'з' || last == 'ж', 'б', 'м'))
	case 'P':
		return pick(hard, 'п', pick(nasal || last == 'з' || last == 'ж', 'б', 'м'))
	case 'G':
		return pick(hard, pick(back, 'қ', 'к'), pick(back, 'ғ', 'г'))
	case 'Q':
		return pick(back, 'ғ', 'г')
	case 'K':
		return pick(back, 'қ', 'к')
	}
	return t
}

var kyrgyz = prepared(&language{
	base:      0x400,
	s:         'с',
	vowels:    "аеёиоөуүыэюя",
	voiceless: "птксшщхцчф",
	harmony: func(r rune) (a, i rune) {
		switch r {
		case 'а', 'ы', 'я':
			return 'а', 'ы'
		case 'у', 'ю':
			return 'а', 'у'
		case 'о', 'ё':
			return 'о', 'у'
		case 'е', 'и', 'э':
			return 'е', 'и'
		case 'ө', 'ү':
			return 'ө', 'ү'
		}
		return 0, 0
	},
	consonant: kyrgyzConsonant,
	plural:    "LAр",
	owners:    []string{"~м", "~ң", "~бIз", "~ңIз", "~ңAр", "^I"},
	cases:     []string{"", "NIн", "GA", "A", "NI", "DA", "DAн", "DAгI", "DAгILAр"},
	thirds:    []string{"", "нIн", "нA", "н", "ндA", "нAн", "ндAгI", "ндAгILAр"},
	persons:   []string{"мIн", "сIң", "сIз", "бIз"},
	voiced:    map[rune]rune{'п': 'б', 'к': 'г'},
	dropped:   "ыиуү",
	verbOf: func(w []rune) []string {
		n := len(w) - 2
		if n < 2 || w[n] != w[n+1] {
			return nil
		}
		root := string(w[:n])
		switch w[n] {
		case 'у', 'ү':
			if n < 3 {
				return []string{root}
			}
			return []string{root, root + string(w[n])}
		case 'о':
			return []string{root + "о", root + "а"}
		case 'ө':
			return []string{root + "ө", root + "е"}
		}
		return nil
	},
	verbs: [][2][]string{
		{{"Y", "PAй"}, {"м", "мIн", "сIң", "сIз", "т", "бIз", "сIңAр", ""}},
		{{"DI", "PAдI", "сA", "PAсA"}, {"", "м", "ң", "ңIз", "к", "ңAр"}},
		{{"GAн", "PAGAн"}, {"", "мIн", "сIң", "сIз", "бIз", "дAр", "дAрGA", "дAрдI", "дIн", "GA", "дA", "дAн", "дI", "I"}},
		{{"~п"}, {"", "мIн", "сIң", "тIр", "бIз"}},
		{{"Aр", "PAс", "сIн", "~ңIз", "~ңIздAр", "чI", "GAнI", "MAK", "~ш", "~шAт", "~штI", "~шкAн"}, {""}},
	},
})

func kyrgyzConsonant(l *language, t, last rune, back bool) rune {
	hard, vowel := l.is(last).hard, l.is(last).full
	switch t {
	case 'L':
		return pick(hard, 'т', pick(vowel || last == 'р' || last == 'й', 'л', 'д'))
	case 'N':
		return pick(hard, 'т', pick(vowel, 'н', 'д'))
	case 'D':
		return pick(hard, 'т', 'д')
	case 'G', 'Q':
		return pick(hard, 'к', 'г')
	case 'P':
		return pick(hard, 'п', 'б')
	case 'M':
		return 'м'
	case 'K':
		return 'к'
	}
	return t
}

func pick(yes bool, a, b rune) rune {
	if yes {
		return a
	}
	return b
}

var turkish = prepared(&language{
	s:         's',
	vowels:    "aeiouöüâîû",
	voiceless: "pçtksşhf",
	harmony: func(r rune) (a, i rune) {
		switch r {
		case 'a', 'â':
			return 'a', 'i'
		case 'o', 'u', 'û':
			return 'a', 'u'
		case 'e', 'î':
			return 'e', 'i'
		case 'ö', 'ü':
			return 'e', 'ü'
		}
		return 0, 0 // i also stands for ı
	},
	consonant: func(l *language, t, last rune, _ bool) rune {
		switch t {
		case 'D':
			return pick(l.is(last).hard, 't', 'd')
		case 'C':
			return pick(l.is(last).hard, 'ç', 'c')
		}
		return t
	},
	plural:  "lAr",
	owners:  []string{"~m", "~n", "~mIz", "~nIz", "lArI", "^I"},
	cases:   []string{"", "JI", "JA", "DA", "DAn", "HIn", "JlA", "DAki", "DAkiler", "DAkilere", "DAkilerden", "DAkilerin", "CA"},
	thirds:  []string{"", "nI", "nA", "ndA", "ndAn", "nIn", "JlA", "ndAki", "ndAkiler"},
	persons: []string{"JIm", "sIn", "DIr", "JIz", "sInIz"},
	voiced:  map[rune]rune{'p': 'b', 'ç': 'c', 't': 'd', 'k': 'ğ'},
	dropped: "iuü",
	front:   "i",
	verbOf: func(w []rune) []string {
		n := len(w) - 3
		if n < 2 || string(w[n:]) != "mak" && string(w[n:]) != "mek" {
			return nil
		}
		root := string(w[:n])
		all := []string{root}
		switch w[n-1] {
		case 'a', 'e': // oyna-, and oynu- before the y of the present
			all = append(all, root+"n")
			if n > 2 {
				all = append(all, string(w[:n-1]))
			}
		case 'i', 'u', 'ü':
			all = append(all, root+"n")
		case 'l':
			all = append(all, turkishPassive(root, "n"))
		case 't':
			all = append(all, turkishPassive(root, "l"), string(w[:n-1])+"d") // git-, gidiyor
		default:
			all = append(all, turkishPassive(root, "l"))
		}
		return all
	},
	verbs: [][2][]string{
		{{"Iyor", "mIyor"}, {"", "um", "sun", "uz", "sunuz", "lar", "du", "dum", "lardi", "sa"}},
		{{"DI", "mAdI", "sA", "mAsA"}, {"", "m", "n", "k", "nIz", "lAr"}},
		{{"mIş", "mAmIş"}, {"", "Im", "sIn", "Iz", "sInIz", "lAr", "tI", "lArdI"}},
		{{"JAcAk", "mAJAcAk"}, {"", "sIn", "lAr", "tI", "lArdI", "sInIz"}},
		{{"JAcAğ", "mAJAcAğ"}, {"I", "Im", "Iz", "InI", "InA", "IndAn"}},
		{{"JAn", "mAJAn"}, {"", "I", "A", "In", "DAn", "lAr", "lArI", "lArIn", "lArA", "lArDAn"}},
		{{"DIğ", "mAdIğ"}, {"I", "Im", "In", "ImIz", "InI", "IndA", "InA"}},
		{{"DIk", "mAdIk"}, {"", "lArI", "lArInI", "çA", "tAn"}},
		{{"mA", "JIş"}, {"", "JI", "JA", "HIn", "DA", "DAn", "lAr", "lArI", "^I", "^InI", "^InA", "k", "ktAn", "ktA"}},
		{{"Ar", "Ir", "r", "mAz"}, {"", "Im", "sIn", "Iz", "lAr", "sA", "dI"}},
		{{"JIp", "JArAk", "JIncA", "mAdAn", "JIn", "JInIz", "sIn", "sInlAr", "JAlIm", "JAyIm", "JAbilir", "mAm", "mAyIz"}, {""}},
	},
})

// turkishPassive appends the passive to a root that ends in a consonant.
func turkishPassive(root, consonant string) string {
	vowel := "i"
	for _, r := range root {
		switch r {
		case 'a', 'e', 'i':
			vowel = "i"
		case 'o', 'u':
			vowel = "u"
		case 'ö', 'ü':
			vowel = "ü"
		}
	}
	return root + vowel + consonant
}

// A state determines the next sound of an ending.
type state struct{ last, a, i rune }

// after returns the state after a stem.
func (l *language) after(stem []rune) state {
	x := state{stem[len(stem)-1], 'а', 'ы'}
	if l.base == 0 {
		x.a, x.i = 'a', 'i'
	}
	for n := len(stem) - 1; n >= 0; n-- {
		if is := l.is(stem[n]); is.a != 0 {
			x.a, x.i = is.a, is.i
			break
		}
	}
	return x
}

// letterFor returns the sound for one letter t of an ending; 0 for none.
func (l *language) letterFor(x state, t rune) rune {
	vowel := l.is(x.last).full
	switch t {
	case 'A':
		return x.a
	case 'I':
		return x.i
	case '~':
		return pick(vowel, 0, x.i)
	case '^':
		return pick(vowel, l.s, 0)
	case 'J':
		return pick(vowel, 'y', 0)
	case 'H':
		return pick(vowel, 'n', 0)
	case 'Y': // of the present
		return pick(vowel, 'й', x.a)
	case 'L', 'N', 'O', 'D', 'B', 'M', 'P', 'G', 'Q', 'K', 'C':
		return l.consonant(l, t, x.last, x.a == 'а' || x.a == 'о')
	}
	return t
}

func (l *language) next(x *state, r rune) {
	x.last = r
	if is := l.is(r); is.a != 0 {
		x.a, x.i = is.a, is.i
	}
}

// join appends an ending to a stem.
func (l *language) join(stem, ending string, front bool) string {
	out := []rune(stem)
	x := l.after(out)
	switch {
	case front && l.base == 0:
		x.a, x.i = 'e', 'i'
	case front:
		x.a, x.i = 'е', 'і' // of Kazakh
	}
	for _, t := range ending {
		if r := l.letterFor(x, t); r != 0 {
			out = append(out, r)
			l.next(&x, r)
		}
	}
	return string(out)
}

// ends reports whether a word consists of its beginning up to cut and an ending.
func (l *language) ends(word []rune, cut int, ending string) bool {
	x := l.after(word[:cut])
	for _, t := range ending {
		r := l.letterFor(x, t)
		if r == 0 {
			continue
		}
		if cut == len(word) || word[cut] != r {
			return false
		}
		cut++
		l.next(&x, r)
	}
	return cut == len(word)
}

// Forms calls form with forms of a word: those of nouns and, if it has the ending of an
// infinitive, those of verbs.
func (s Stemmer) Forms(word string, form func(string)) {
	l := s.l
	for _, front := range l.harmonies(word) {
		l.nouns(word, front, form)
	}
	for _, root := range l.verbOf([]rune(word)) {
		for _, front := range l.harmonies(root) {
			for _, group := range l.verbs {
				for _, e := range group[0] {
					for _, t := range group[1] {
						form(l.join(root, e+t, front))
					}
				}
			}
		}
	}
}

// harmonies reports whether a word follows the harmony of its vowels, or may also follow that
// of front vowels, as some borrowed words and some changed by folding do.
func (l *language) harmonies(word string) []bool {
	r := []rune(word)
	for n := len(r) - 1; n >= 0; n-- {
		if l.is(r[n]).vowel {
			if strings.ContainsRune(l.front, r[n]) {
				return []bool{false, true}
			}
			break
		}
	}
	return []bool{false}
}

// nouns calls form with the forms of a noun: plural, possession, case, person.
func (l *language) nouns(word string, front bool, form func(string)) {
	for _, c := range l.cases {
		form(l.join(word, c, front))
		form(l.join(word, l.plural+c, front))
	}
	for _, x := range l.beforeVowel(word)[1:] {
		for _, c := range l.cases {
			if c != "" && strings.Contains("JH", c[:1]) { // begins with a vowel here
				form(l.join(x, c, front))
			}
		}
	}
	for _, p := range l.persons {
		form(l.join(word, p, front))
		form(l.join(word, l.plural+p, front))
	}
	for n, o := range l.owners {
		all := l.cases
		if n == len(l.owners)-1 {
			all = l.thirds
		}
		for _, c := range all {
			form(l.join(word, l.plural+o+c, front))
			for _, x := range l.beforeVowel(word) {
				form(l.join(x, o+c, front))
			}
		}
	}
}

// beforeVowel returns a noun in its forms before a vowel: it may end in another consonant, or lose
// its last vowel.
func (l *language) beforeVowel(word string) []string {
	all := []string{word}
	r := []rune(word)
	n := len(r) - 1
	if v, ok := l.voiced[r[n]]; ok && n > 1 {
		all = append(all, string(r[:n])+string(v))
		if r[n] == 'k' && r[n-1] == 'n' {
			all[1] = string(r[:n]) + "g"
		}
	}
	if n > 2 && strings.ContainsRune(l.dropped, r[n-1]) && !l.is(r[n]).vowel && !l.is(r[n-2]).vowel {
		all = append(all, string(r[:n-1])+string(r[n]))
	}
	return all
}

// Stem appends the stem of a word in lower case to dst: without case, and without plural and
// the endings after it, if these fit the letters before them. It allocates nothing if dst has
// room.
func (s Stemmer) Stem(dst, word []byte) []byte {
	var room [longest]rune
	w := room[:0]
	for i := 0; i < len(word); {
		r, n := utf8.DecodeRune(word[i:])
		if len(w) == longest || r == utf8.RuneError {
			return append(dst, word...)
		}
		w = append(w, r)
		i += n
	}
	for _, r := range s.l.stem(w) {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func (l *language) stem(w []rune) []rune {
	without := l.trimEnding(w, l.cases[1:])
	for _, o := range l.owners {
		if x := l.removeEnding(without, o); len(x) < len(without) {
			if y := l.removeEnding(x, l.plural); len(y) < len(x) {
				return y
			}
		}
	}
	if x := l.removeEnding(without, l.plural); len(x) < len(without) {
		return x
	}
	// The third person is recognised by the н before its case.
	for _, c := range l.thirds[1:] {
		if x := l.removeEnding(w, c); len(x) < len(w) {
			if y := l.removeEnding(x, l.plural+"I"); len(y) < len(x) {
				return y
			}
		}
	}
	return without
}

// trimEnding removes the longest of some endings that fits.
func (l *language) trimEnding(w []rune, endings []string) []rune {
	best := w
	for _, e := range endings {
		if x := l.removeEnding(w, e); len(x) < len(best) {
			best = x
		}
	}
	return best
}

// removeEnding removes an ending from a word if it fits the letters before it. A single vowel may be
// anything, and is kept.
func (l *language) removeEnding(w []rune, ending string) []rune {
	n := utf8.RuneCountInString(ending)
	if n < 2 {
		return w
	}
	last, _ := utf8.DecodeLastRuneInString(ending)
	if last >= utf8.RuneSelf && (len(w) == 0 || w[len(w)-1] != last) {
		return w
	}
	for cut := len(w) - n; cut <= len(w)-n+1; cut++ { // ~ and ^ may have no sound
		if cut >= minStem && slices.ContainsFunc(w[:cut], func(r rune) bool { return l.is(r).vowel }) && l.ends(w, cut, ending) {
			return w[:cut]
		}
	}
	return w
}
