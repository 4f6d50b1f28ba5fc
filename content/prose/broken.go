package prose

import (
	"bytes"

	"shuultuur/content/element"
	"shuultuur/lib/ascii"
)

// This file handles markup in text outside of elements: strings of JSON and scripts from which
// a page makes elements, cues of subtitles, entries of feeds. Nothing says whether the text
// will be used as markup, so both readings are written: a word that a tag interrupts is
// repeated from its beginning after the tag.

// A brokenWord is the beginning of a word before a tag in such text.
type brokenWord struct {
	less   bool // a < that may begin a tag
	at     int  // position of the tag in the text, 0 outside tags
	word   [LongestWord]byte
	nWord  int
	inText bool // references stand for markup, as in a feed
}

// LongestWord is the length up to which the beginning of a word is repeated after an
// interruption.
const LongestWord = 64

// LastWord returns the word at the end of text, or nothing if it is longer.
func LastWord(text []byte) []byte {
	end := text[max(0, len(text)-LongestWord-1):] // a word may be as long as a page
	word := end[bytes.LastIndexByte(end, ' ')+1:]
	if len(word) > LongestWord {
		return nil
	}
	return word
}

// longTag is the length up to which text after a < may be a tag.
const longTag = 1 << 10

// lessThan handles a <. It keeps the word before it, in case a tag begins.
func (f *Flow) lessThan() {
	if f.Joins {
		f.compose()
	}
	w := &f.broken
	if w.at == 0 || len(f.B)-w.at >= longTag {
		w.nWord = copy(w.word[:], LastWord(f.B))
		w.less, w.at = true, 0
	}
	f.Blank()
}

// begins handles the byte after a <, at a position in the text.
func (w *brokenWord) begins(c byte, at int) {
	if w.less = false; ascii.IsAlnum(c) || c == '/' || c == '\\' || c == '!' {
		w.at = at
	}
}

// greater handles a >.
func (f *Flow) greater() {
	w := &f.broken
	at := w.at
	w.at, w.less = 0, false
	f.Blank()
	if at <= 0 || at > len(f.B) {
		return
	}
	name, _, _ := bytes.Cut(f.B[at:min(len(f.B), at+17)], []byte(" "))
	kind := element.Unknown
	if len(name) <= 16 {
		kind = element.Named(string(name)).Kind
	}
	switch kind {
	case element.Unknown, element.Inline, element.Hidden, element.Meta:
		f.B = append(f.B, w.word[:w.nWord]...)
	}
}

// written handles a character of markup written as an escape or reference, and reports whether
// r is one.
func (f *Flow) written(r rune) bool {
	switch r {
	case '<':
		f.lessThan()
	case '>':
		f.greater()
	case '&':
		f.ref.begin('&', true)
	default:
		return false
	}
	return true
}
