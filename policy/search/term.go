package search

import (
	"bytes"
	"net/url"
	"unicode/utf8"

	"shuultuur/content/prose"
	"shuultuur/lib/language"
	"shuultuur/policy/pattern"
)

// maxTerm bounds how much of a search term is used, in bytes as sent.
const maxTerm = 4096

// AppendTerms appends the values of the query parameters with these names.
func AppendTerms(dst, path []byte, params []string) []byte {
	_, query, _ := bytes.Cut(path, []byte("?"))
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		name, value, _ := bytes.Cut(pair, []byte("="))
		for _, p := range params {
			if string(name) == p {
				dst = AppendTerm(dst, value[:min(len(value), maxTerm)])
			}
		}
	}
	return dst
}

// AppendTerm appends a query value as words: decoded, folded as pages are
// ([prose.Normalise]), and with a blank at either end, so that " word " is a whole word.
func AppendTerm(dst, value []byte) []byte {
	dst = append(dst, ' ')
	words := bytes.TrimSpace(prose.Normalise(nil, pattern.AppendDecoded(nil, value, true)))
	dst = append(dst, words...)
	if len(words) > 0 {
		dst = append(dst, ' ')
	}
	return dst
}

// ContainsAny reports whether text contains one of words, in the form of [searched].
func ContainsAny(text []byte, words [][]byte) bool {
	for _, w := range words {
		if bytes.Contains(text, w) {
			return true
		}
	}
	return false
}

// Phrase returns a phrase as it stands in a search: with a blank at either end,
// unless words in the script of that end stand next to others without blanks.
func Phrase(phrase string) []byte {
	term := AppendTerm(nil, []byte(url.QueryEscape(phrase)))
	words := bytes.TrimSpace(term)
	if len(words) == 0 {
		return nil
	}
	if language.ScriptOf(string(words)).JoinsWords() {
		term = bytes.TrimLeft(term, " ")
	}
	if last, _ := utf8.DecodeLastRune(words); language.ScriptOf(string(last)).JoinsWords() {
		term = bytes.TrimRight(term, " ")
	}
	return term
}
