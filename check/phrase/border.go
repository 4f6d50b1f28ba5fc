package phrase

import (
	"bytes"
	"unicode/utf8"

	"shuultuur/lib/language"
)

// This file says where in a word a listed phrase counts, in mode modern. Lists were written for
// programs that search for letters, so that a name such as Busendorf was a listed word: here a
// phrase is words, in any of their forms, unless its line asks for more.

// A reach says where a phrase may begin and end.
type reach uint8

const (
	midBegin reach = 1 << iota // within a word
	midEnd
)

// longWord is the length in runes from which the first or last word of a phrase may be part of a
// longer word: one that contains it by chance is improbable, and many languages write compounds in
// one.
const longWord = 8

// reachOf returns what a line asks for, and the phrase without the signs that ask for it: a star
// stands for the rest of a word, and a blank on one side alone leaves the other side open.
func reachOf(part []byte, normalise func([]byte) []byte) (p []byte, x reach) {
	if bytes.HasPrefix(part, []byte("*")) {
		part, x = part[1:], x|midBegin
	}
	if bytes.HasSuffix(part, []byte("*")) {
		part, x = part[:len(part)-1], x|midEnd
	}
	p = normalise(part)
	words := bytes.TrimSpace(p)
	if len(words) == 0 {
		return p, x
	}
	begins, ends := p[0] == ' ', p[len(p)-1] == ' '
	if begins && !ends {
		x |= midEnd
	}
	if ends && !begins {
		x |= midBegin
	}
	head, _, _ := bytes.Cut(words, []byte(" "))
	if utf8.RuneCount(head) >= longWord {
		x |= midBegin
	}
	if utf8.RuneCount(words[bytes.LastIndexByte(words, ' ')+1:]) >= longWord {
		x |= midEnd
	}
	first, _ := utf8.DecodeRune(words)
	last, _ := utf8.DecodeLastRune(words)
	if language.ScriptOf(string(first)).JoinsWords() {
		x |= midBegin
	}
	if language.ScriptOf(string(last)).JoinsWords() {
		x |= midEnd
	}
	return p, x
}

// fits reports whether phrase p counts between two texts.
func (x reach) fits(p, before, behind []byte) bool {
	return (x&midBegin != 0 || beginsWord(p, before)) && (x&midEnd != 0 || endsWord(p, behind))
}

// parts reports whether a word ends between two bytes, the second of which begins a character. Digits
// and letters do not belong to the same word, as in "18sex".
func parts(before, behind byte) bool {
	return before == ' ' || behind == ' ' || isDigit(before) != isDigit(behind)
}

func isDigit(c byte) bool { return c-'0' < 10 }

// beginsWord reports whether p, behind before, begins a word.
func beginsWord(p, before []byte) bool {
	return len(before) == 0 || parts(before[len(before)-1], p[0])
}

// endsWord reports whether p ends a word before behind, perhaps with an ending of grammar.
func endsWord(p, behind []byte) bool {
	if len(behind) == 0 || parts(p[len(p)-1], behind[0]) {
		return true
	}
	n := bytes.IndexByte(behind[:min(len(behind), longestEnding+1)], ' ')
	return n >= 0 && len(p) > 2 && endings[string(behind[:n])]
}

// longestEnding is the length in bytes of the longest of endings.
const longestEnding = 8

// endings are those of the forms of nouns, adjectives and verbs in the languages of public lists,
// folded as text is. They are all together: the words of a list are often those of several.
var endings = func() map[string]bool {
	m := map[string]bool{}
	for _, s := range bytes.Fields([]byte(`
		s es ed d er ers ing ings ies y z
		e en em n t st te ern r in innen
		a o i as os is ao oes ada ado adas ados ita ito itas itos inha inho ar
		ée ées é és ã ão ões x euse euses eur eurs
		or et na ne ar arna erna orna
		u ą ę ow ów om ami ach ie ego ej ych ym
		а я ы и у ю е о й ь ой ей ом ем ам ям ами ями ах ях ов ев ый ий ая яя ое ее ые ие ого его ому ему ым им их ых ую юю
		lar ler lari leri ни лар да га ning нинг`)) {
		m[string(s)] = true
	}
	return m
}()
