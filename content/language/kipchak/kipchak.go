// Package kipchak finds the stems of Kazakh and Kyrgyz words in Cyrillic script,
// and makes the forms of a word.
//
// Endings follow vowel harmony and the last sound of what they are added to. They
// are written here with capitals for the sounds that change: A and I are vowels,
// L, D, N, O, B, G, M and P consonants; "i" stands behind consonants alone and "s"
// behind vowels alone. No dictionary is needed, so Stem takes off only what can
// hardly be a part of a word; the forms of a listed word are made from the word
// itself (see [Stemmer.Missed]).
package kipchak

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Stemmer knows one of the languages. It is safe for concurrent use.
type Stemmer struct{ l *language }

// Kazakh and Kyrgyz return the stemmers.
func Kazakh() Stemmer { return Stemmer{kazakh} }
func Kyrgyz() Stemmer { return Stemmer{kyrgyz} }

// A language is what tells the two apart.
type language struct {
	vowels    string
	glides    string        // letters among them that count as consonants before endings
	letters   [0x100]letter // from U+0400 on
	voiceless string
	harmony   func(vowel rune) (a, i rune) // what A and I are behind it; 0 if it does not decide
	consonant func(l *language, template, last rune, back bool) rune

	plural  string
	owners  []string // the last but one is of a third person
	cases   []string
	thirds  []string // cases behind the third person
	persons []string
	voiced  map[rune]rune
	verbOf  func(infinitive []rune) []string
	verbs   [][2][]string // endings of verbs, and what follows each
}

// A letter is what endings ask of a sound.
type letter struct {
	vowel, full, hard bool // full: a vowel that is no glide
	a, i              rune // what A and I are behind it; 0 if it does not decide
}

// is returns what a letter is.
func (l *language) is(r rune) *letter {
	if r -= 0x400; r < 0 || int(r) >= len(l.letters) {
		r = 0 // a letter of other languages
	}
	return &l.letters[r]
}

func prepared(l *language) *language {
	for n := range l.letters {
		r := rune(0x400 + n)
		x := &l.letters[n]
		x.vowel, x.hard = strings.ContainsRune(l.vowels, r), strings.ContainsRune(l.voiceless, r)
		x.full = x.vowel && !strings.ContainsRune(l.glides, r)
		x.a, x.i = l.harmony(r)
	}
	return l
}

const (
	minStem = 3  // letters that Stem leaves
	longest = 40 // letters; a longer word is its own stem
)

var kazakh = prepared(&language{
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
	owners:    []string{"iм", "iң", "iмIз", "iңIз", "sI"},
	cases:     []string{"", "NIң", "GA", "A", "OI", "DA", "BAн", "Mен", "DAgI", "DAgILAр", "DAgILAрGA", "DAgILAрOI"},
	thirds:    []string{"", "нIң", "нA", "н", "ндA", "нAн", "мен", "ндAgI", "ндAgIлAр"},
	persons:   []string{"MIн", "сIң", "сIз", "MIз"},
	voiced:    map[rune]rune{'п': 'б', 'к': 'г', 'қ': 'ғ'},
	verbOf: func(w []rune) []string {
		n := len(w) - 1
		if n < 2 || w[n] != 'у' {
			return nil
		}
		root := string(w[:n])
		if strings.ContainsRune("аеөояәюүұыіи", w[n-1]) {
			if n < 3 {
				return nil // тау is no verb
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
		{{"iп"}, {"", "пIн", "сIң", "сIз", "тI", "пIз"}},
		{{"Aр", "PAс", "сIн", "iңIз", "iңдAр", "GAлI", "MAK", "MAKшI"}, {""}},
	},
})

// kazakhConsonant resolves a consonant of an ending behind the letter last.
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
	case 'g':
		return pick(back, 'ғ', 'г')
	case 'K':
		return pick(back, 'қ', 'к')
	}
	return t
}

var kyrgyz = prepared(&language{
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
	owners:    []string{"iм", "iң", "iбIз", "iңIз", "iңAр", "sI"},
	cases:     []string{"", "NIн", "GA", "A", "NI", "DA", "DAн", "DAгI", "DAгILAр"},
	thirds:    []string{"", "нIн", "нA", "н", "ндA", "нAн", "ндAгI", "ндAгILAр"},
	persons:   []string{"мIн", "сIң", "сIз", "бIз"},
	voiced:    map[rune]rune{'п': 'б', 'к': 'г'},
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
		{{"iп"}, {"", "мIн", "сIң", "тIр", "бIз"}},
		{{"Aр", "PAс", "сIн", "iңIз", "iңIздAр", "чI", "GAнI", "MAK", "iш", "iшAт", "iштI", "iшкAн"}, {""}},
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
	case 'G', 'g':
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

// A state is what the next sound of an ending depends on.
type state struct{ last, a, i rune }

// after is the state behind a stem.
func (l *language) after(stem []rune) state {
	x := state{stem[len(stem)-1], 'а', 'ы'}
	for n := len(stem) - 1; n >= 0; n-- {
		if is := l.is(stem[n]); is.a != 0 {
			x.a, x.i = is.a, is.i
			break
		}
	}
	return x
}

// sound resolves one letter t of an ending; 0 is none.
func (l *language) sound(x state, t rune) rune {
	vowel := l.is(x.last).full
	switch t {
	case 'A':
		return x.a
	case 'I':
		return x.i
	case 'i':
		return pick(vowel, 0, x.i)
	case 's':
		return pick(vowel, 'с', 0)
	case 'Y': // of the present
		return pick(vowel, 'й', x.a)
	case 'L', 'N', 'O', 'D', 'B', 'M', 'P', 'G', 'g', 'K':
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

// join adds an ending to a stem.
func (l *language) join(stem, ending string) string {
	out := []rune(stem)
	x := l.after(out)
	for _, t := range ending {
		if r := l.sound(x, t); r != 0 {
			out = append(out, r)
			l.next(&x, r)
		}
	}
	return string(out)
}

// ends says whether a word is its beginning up to cut with an ending.
func (l *language) ends(word []rune, cut int, ending string) bool {
	x := l.after(word[:cut])
	for _, t := range ending {
		r := l.sound(x, t)
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

// Missed calls each with the forms of a listed word that Stem does not lead to its
// stem. A verb is known by the ending of its infinitive.
func (s Stemmer) Missed(word string, each func(form string)) {
	stem := string(s.Stem(nil, []byte(word)))
	form := func(f string) {
		if got := string(s.Stem(nil, []byte(f))); got != stem && f != word {
			each(f)
		}
	}
	s.l.nouns(word, form)
	for _, root := range s.l.verbOf([]rune(word)) {
		for _, group := range s.l.verbs {
			for _, e := range group[0] {
				for _, t := range group[1] {
					form(s.l.join(root, e+t))
				}
			}
		}
	}
}

// nouns calls form with the forms of a noun: plural, possession, case, person.
func (l *language) nouns(word string, form func(string)) {
	for _, c := range l.cases {
		form(l.join(word, c))
		form(l.join(word, l.plural+c))
	}
	for _, p := range l.persons {
		form(l.join(word, p))
		form(l.join(word, l.plural+p))
	}
	for n, o := range l.owners {
		all := l.cases
		if n == len(l.owners)-1 {
			all = l.thirds
		}
		for _, c := range all {
			form(l.join(word, l.plural+o+c))
			for _, x := range l.before(word) {
				form(l.join(x, o+c))
			}
		}
	}
}

// before is a noun as it is before a vowel: it may end in another consonant, or
// lose its last vowel.
func (l *language) before(word string) []string {
	all := []string{word}
	r := []rune(word)
	n := len(r) - 1
	if v, ok := l.voiced[r[n]]; ok && n > 1 {
		all = append(all, string(r[:n])+string(v))
	}
	if n > 2 && strings.ContainsRune("ыіиуүұ", r[n-1]) && !l.is(r[n]).vowel && !l.is(r[n-2]).vowel {
		all = append(all, string(r[:n-1])+string(r[n]))
	}
	return all
}

// Stem appends the stem of a word in lower case to dst: without case, and without
// plural and what stands behind it, as far as these fit what is before them. It
// allocates nothing if dst has room.
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
	without := l.without(w, l.cases[1:])
	for _, o := range l.owners {
		if x := l.off(without, o); len(x) < len(without) {
			if y := l.off(x, l.plural); len(y) < len(x) {
				return y
			}
		}
	}
	if x := l.off(without, l.plural); len(x) < len(without) {
		return x
	}
	// The third person is told by the н before its case.
	for _, c := range l.thirds[1:] {
		if x := l.off(w, c); len(x) < len(w) {
			if y := l.off(x, l.plural+"I"); len(y) < len(x) {
				return y
			}
		}
	}
	return without
}

// without takes off the longest of some endings that fits.
func (l *language) without(w []rune, endings []string) []rune {
	best := w
	for _, e := range endings {
		if x := l.off(w, e); len(x) < len(best) {
			best = x
		}
	}
	return best
}

// off takes an ending off a word, if it fits what is before it. A vowel alone may
// be anything, and stays.
func (l *language) off(w []rune, ending string) []rune {
	n := utf8.RuneCountInString(ending)
	if n < 2 {
		return w
	}
	last, _ := utf8.DecodeLastRuneInString(ending)
	if last >= utf8.RuneSelf && (len(w) == 0 || w[len(w)-1] != last) {
		return w
	}
	for cut := len(w) - n; cut <= len(w)-n+1; cut++ { // i and s may be silent
		if cut >= minStem && slices.ContainsFunc(w[:cut], func(r rune) bool { return l.is(r).vowel }) && l.ends(w, cut, ending) {
			return w[:cut]
		}
	}
	return w
}
