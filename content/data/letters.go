package data

import (
	"unicode/utf8"

	"shuultuur/lib/ascii"
)

// shortRun is the shortest run of text in binary data, in bytes.
const shortRun = 4

// VisitRuns visits the runs of text in an unknown format (MessagePack, a proprietary format)
// as one text.
func VisitRuns(p []byte, place uint64, visit func(place uint64, s []byte)) {
	var out []byte
	start := 0
	end := func(i int) {
		if i-start >= shortRun {
			out = append(append(out, p[start:i]...), ' ')
		}
	}
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		if r < ' ' && !ascii.IsSpace(byte(r)) || r == 0x7F || r == utf8.RuneError && n == 1 {
			end(i)
			start = i + n
		}
		i += n
	}
	if end(len(p)); len(out) > 0 {
		visit(place, out)
	}
}

// LongestPart exceeds the length of a word, or of a part of one at the end or beginning of a
// message.
const LongestPart = 64

// LettersBehind returns the letters at the end of p.
func LettersBehind(p []byte) []byte {
	i := len(p)
	for i > 0 && i > len(p)-LongestPart && (ascii.IsAlnum(p[i-1]) || p[i-1] >= utf8.RuneSelf) {
		i--
	}
	return p[i:]
}

// LettersAhead returns the letters at the beginning of p.
func LettersAhead(p []byte) []byte {
	i := 0
	for i < len(p) && i < LongestPart && (ascii.IsAlnum(p[i]) || p[i] >= utf8.RuneSelf) {
		i++
	}
	return p[:i]
}

// IsText reports whether p is text in UTF-8.
func IsText(p []byte) bool {
	for _, c := range p {
		if c < ' ' && !ascii.IsSpace(c) {
			return false
		}
	}
	return len(p) > 0 && utf8.Valid(p)
}
