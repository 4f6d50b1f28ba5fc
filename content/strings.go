package content

import "bytes"

// This file handles markup in text outside of elements: strings of JSON and scripts from which
// a page makes elements, cues of subtitles, entries of feeds. Nothing says whether the text
// will be used as markup, so both readings are written: a word that a tag interrupts is
// repeated from its beginning after the tag.

// A brokenWord is the beginning of a word before a tag in such text.
type brokenWord struct {
	less   bool // a < that may begin a tag
	at     int  // position of the tag in the text, 0 outside tags
	word   [longestWord]byte
	nWord  int
	inText bool // references stand for markup, as in a feed
}

// longestWord is the length up to which the beginning of a word is repeated after an
// interruption.
const longestWord = 64

// lastWord returns the word at the end of text, or nothing if it is longer.
func lastWord(text []byte) []byte {
	end := text[max(0, len(text)-longestWord-1):] // a word may be as long as a page
	word := end[bytes.LastIndexByte(end, ' ')+1:]
	if len(word) > longestWord {
		return nil
	}
	return word
}

// longTag is the length up to which text after a < may be a tag.
const longTag = 1 << 10

// lessThan handles a <. It keeps the word before it, in case a tag begins.
func (f *flow) lessThan() {
	if f.joins {
		f.compose()
	}
	w := &f.broken
	if w.at == 0 || len(f.b)-w.at >= longTag {
		w.nWord = copy(w.word[:], lastWord(f.b))
		w.less, w.at = true, 0
	}
	f.blank()
}

// begins handles the byte after a <.
func (f *flow) begins(c byte) {
	if f.broken.less = false; isAlnum(c) || c == '/' || c == '\\' || c == '!' {
		f.broken.at = len(f.b)
	}
}

// greater handles a >.
func (f *flow) greater() {
	w := &f.broken
	at := w.at
	w.at, w.less = 0, false
	f.blank()
	if at <= 0 || at > len(f.b) {
		return
	}
	name, _, _ := bytes.Cut(f.b[at:min(len(f.b), at+17)], []byte(" "))
	kind := tagUnknown
	if len(name) <= 16 {
		kind = tags.named(string(name)).kind
	}
	switch kind {
	case tagUnknown, tagInline, tagHidden, tagMeta:
		f.b = append(f.b, w.word[:w.nWord]...)
	}
}

// written handles a character of markup written as an escape or reference, and reports whether
// r is one.
func (f *flow) written(r rune) bool {
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

// isSubtitles reports whether a text has cues, in which tags count: WebVTT is recognised
// whatever its type.
func isSubtitles(typ string, head []byte) bool {
	switch typ {
	case "text/vtt", "text/srt", "application/x-subrip", "text/markdown", "text/enriched":
		return true
	}
	_, n := mark(head)
	return bytes.HasPrefix(head[n:], []byte("WEBVTT"))
}
