package content

import "bytes"

// This file is about markup in text that is no markup itself: strings of JSON
// and of scripts that a page makes elements of, cues of subtitles, entries of
// feeds. Nobody says whether it will be markup, so both readings are said: a
// word that a tag breaks is said again from its beginning behind the tag.

// A brokenWord is the beginning of a word before a tag in such text.
type brokenWord struct {
	less   bool // a < that may begin a tag
	at     int  // where in the text the tag begins, 0 outside of tags
	word   [longestWord]byte
	nWord  int
	inText bool // references stand for markup: text of a feed
}

// longestWord is how long the beginning of a word may be that is said again
// behind what breaks it.
const longestWord = 64

// lastWord returns the word that text ends with, nothing of a longer one.
func lastWord(text []byte) []byte {
	end := text[max(0, len(text)-longestWord-1):] // a word may be as long as a page
	word := end[bytes.LastIndexByte(end, ' ')+1:]
	if len(word) > longestWord {
		return nil
	}
	return word
}

// longTag is how long text behind a < may be and still be a tag.
const longTag = 1 << 10

// less takes a <. The word before it is kept in case a tag begins.
func (f *flow) less() {
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

// begins takes what follows a <.
func (f *flow) begins(c byte) {
	if f.broken.less = false; isAlnum(c) || c == '/' || c == '\\' || c == '!' {
		f.broken.at = len(f.b)
	}
}

// greater takes a >.
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

// written takes a character of markup that is written as an escape or reference,
// and says whether it is one.
func (f *flow) written(r rune) bool {
	switch r {
	case '<':
		f.less()
	case '>':
		f.greater()
	case '&':
		f.ref.begin('&', true)
	default:
		return false
	}
	return true
}

// isSubtitles says whether a text has cues, in which tags count: a track of a
// video is one whatever type it has.
func isSubtitles(typ string, head []byte) bool {
	switch typ {
	case "text/vtt", "text/srt", "application/x-subrip", "text/markdown", "text/enriched":
		return true
	}
	_, n := mark(head)
	return bytes.HasPrefix(head[n:], []byte("WEBVTT"))
}
