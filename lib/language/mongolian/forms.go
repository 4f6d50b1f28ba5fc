package mongolian

import (
	"strings"
	"unicode/utf8"

	"shuultuur/lib/language/inflect"
)

const vowels = "аэиоуөүюяёеый"

// ExtraStems calls each with further stems by which a listed noun is found: the stems of its
// forms, or the forms themselves if s cuts off more than an ending. It reports whether the
// stem of the word itself is one: for тамхи the stemmer returns там, which is another word.
func ExtraStems(s *inflect.Stemmer, word string, each func(stem string)) (own bool) {
	stem := string(s.Stem(nil, []byte(word)))
	near := func(x string) bool { // at most the vowel of a last syllable is cut off
		n := utf8.RuneCountInString(x)
		return n >= utf8.RuneCountInString(word)-1 && n > 2 || n >= utf8.RuneCountInString(word)
	}
	if isVerb(word) {
		return true
	}
	nounForms(word, func(form string) {
		switch got := string(s.Stem(nil, []byte(form))); {
		case got == word || got == stem && near(stem):
		case near(got):
			each(got)
		default:
			each(form)
		}
	})
	return near(stem)
}

// isVerb reports whether a word has the ending of an infinitive.
func isVerb(word string) bool {
	x, ok := strings.CutSuffix(word, "х")
	last, _ := utf8.DecodeLastRuneInString(x)
	return ok && strings.ContainsRune(vowels, last)
}

// nounForms calls form with the cases of a noun, in singular and plural.
func nounForms(word string, form func(string)) {
	r := []rune(word)
	n := len(r) - 1
	if n < 1 {
		return
	}
	a := vowelOf(r)
	of, object, many := "ийн", "ийг", "үүд" // of front vowels
	if a == "а" || a == "о" {
		of, object, many = "ын", "ыг", "ууд"
	}
	with := "т" + map[string]string{"а": "ай", "о": "ой", "э": "эй", "ө": "эй"}[a]
	cases := func(x, full string) { // x precedes vowels, full precedes consonants
		for _, e := range []string{of, "ийн", object, "ийг", a + a + "с", a + a + "р", a + a, a + "д"} {
			form(x + e)
		}
		for _, e := range []string{"д", "т", with, with + "гаа", with + "гээ", "гүй", "ч"} {
			form(full + e)
		}
	}
	plural := func(x string) {
		form(x)
		cases(x, x)
	}
	isVowel := func(i int) bool { return strings.ContainsRune(vowels, r[i]) }
	switch {
	case !isVowel(n):
		cases(word, word)
		plural(word + many)
		if n > 2 && isVowel(n-1) && !isVowel(n-2) { // зэвсэг, зэвсг-
			bare := string(r[:n-1]) + string(r[n])
			cases(bare, word)
			plural(bare + many)
		}
		return
	case !isVowel(n - 1): // хутга, хутг-
		cases(string(r[:n]), word)
		plural(string(r[:n]) + many)
		if r[n] == 'и' {
			cases(word, word)
		}
	}
	for _, e := range []string{"ны", "ний", "гийн", "йн", "г", "йг", "нд", "н" + a + a + "с", "г" + a + a + "с", "г" + a + a + "р", "г" + a + a, "н" + a + a, with} {
		form(word + e)
	}
	plural(word + "н" + many)
}

// vowelOf returns the vowel of endings after a word.
func vowelOf(word []rune) string {
	h := "э"
	for _, r := range word {
		switch r {
		case 'а', 'я', 'ы':
			h = "а"
		case 'о', 'ё':
			if h != "а" {
				h = "о"
			}
		case 'у', 'ю':
			if h != "о" || r == 'у' {
				h = "а"
			}
		case 'ө':
			if h == "э" {
				h = "ө"
			}
		case 'ү', 'э', 'е':
			h = "э"
		}
	}
	return h
}
