package prose

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/lib/language"
)

// isApostrophe reports whether r is used as the apostrophe of Uzbek, of which there are many.
// Each is a blank in normalised text.
func isApostrophe(r rune) bool {
	switch r {
	case '\'', '`', '\u00b4', '\u02b9', '\u02bb', '\u02bc', '\u02bd', '\u02be', '\u02bf', '\u02c8', '\u02ca', '\u02cb',
		'\u055a', '\u05f3', '\u2018', '\u2019', '\u201b', '\u2032', '\u2035', '\uff07', '\uff40':
		return true
	}
	return false
}

// Terms reads a phrase of a list whose words in braces are to be found by their
// stems, or all of them with all. Words are normalised ([Normalise]), but an
// apostrophe within a word stays, as "'".
func Terms(phrase []byte, all bool) []language.Term {
	var terms []language.Term
	for len(phrase) > 0 {
		i := bytes.IndexAny(phrase, "{}")
		part := phrase
		if i >= 0 {
			part = phrase[:i]
		}
		stem := all || i >= 0 && phrase[i] == '}'
		for _, w := range bytes.Fields(normaliseJoined(part)) {
			if w = bytes.Trim(w, "'"); len(w) > 0 {
				terms = append(terms, language.Term{Word: string(w), Stem: stem})
			}
		}
		if i < 0 {
			break
		}
		phrase = phrase[i+1:]
	}
	return terms
}

// normaliseJoined is Normalise, but apostrophes become "'".
func normaliseJoined(p []byte) []byte {
	var out []byte
	for len(p) > 0 {
		i := bytes.IndexFunc(p, isApostrophe)
		if i < 0 {
			return Normalise(out, p)
		}
		out = append(Normalise(out, p[:i]), '\'')
		_, n := utf8.DecodeRune(p[i:])
		p = p[i+n:]
	}
	return out
}

// Apostrophes returns the words of a text in UTF-8 that have apostrophes within
// them, as [Terms] spells them, and each beginning of one up to a letter before
// an apostrophe. In normalised text such words are parted. Character references
// of HTML are read.
func Apostrophes(text []byte) map[string]bool {
	words := map[string]bool{}
	letter := func(r rune) bool { return isApostrophe(r) || unicode.In(r, unicode.L, unicode.M, unicode.Nd) }
	for w := range strings.FieldsFuncSeq(html.UnescapeString(string(text)), func(r rune) bool { return !letter(r) }) {
		if !strings.ContainsFunc(w, isApostrophe) {
			continue
		}
		var whole string
		for i, part := range strings.Split(string(normaliseJoined([]byte(w))), "'") {
			if i > 0 {
				whole += "'"
			}
			if whole += part; i > 0 {
				words[whole] = true
			}
		}
	}
	return words
}
