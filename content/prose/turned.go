package prose

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// This file handles text that is shown backwards: letters turned by a right-to-left override
// (UAX 9) or by the element bdo. Where it ends depends on the layout of the page, so both
// readings are written, as in the source and as shown.

// mostBackward is the longest text that is turned at once.
const mostBackward = 1 << 10

const (
	bidiRLO = 0x202E
	bidiPDF = 0x202C
	bidiPDI = 0x2069
)

// bidi handles an invisible character for the direction of text.
func (f *Flow) bidi(r rune) {
	switch {
	case r >= 0x202A && r <= bidiRLO && r != bidiPDF, r >= 0x2066 && r < bidiPDI:
		switch {
		case f.turned > 0:
			f.turnedDeep++
		case r == bidiRLO:
			f.BeginReversed()
		}
	case r == bidiPDF || r == bidiPDI:
		if f.turnedDeep--; f.turnedDeep < 0 {
			f.TurnBack()
		}
	}
}

// BeginReversed begins text that is shown backwards.
func (f *Flow) BeginReversed() {
	if f.Joins {
		f.compose()
	}
	f.turned, f.turnedDeep = len(f.B), 0
}

// TurnBack ends such text.
func (f *Flow) TurnBack() {
	f.backward()
	f.turned, f.turnedDeep = 0, 0
}

// backward appends the text since the turn as it is shown, with the word that it ends.
func (f *Flow) backward() {
	if f.turned == 0 {
		return
	}
	if f.Joins {
		f.compose()
	}
	at := CharFrom(f.B, max(f.turned, len(f.B)-2*mostBackward))
	turned := bytes.Clone(f.B[at:])
	word := bytes.Clone(LastWord(f.B[:at]))
	if f.turned = 0; len(turned) > 0 {
		if r, _ := utf8.DecodeRune(turned); len(word) > 0 && f.folds.composes(r) {
			// The mark may be shown above the letter before the turn.
			first, _, _ := bytes.Cut(turned, []byte(" "))
			f.another(word, first)
		}
		f.another(word, reversed(turned))
	}
	f.turned = len(f.B)
}

// another ends the word and begins to repeat it in another reading.
func (f *Flow) another(begin, rest []byte) {
	f.Blank()
	from := len(f.B)
	f.B = append(f.B, bytes.TrimPrefix(append(begin, rest...), []byte(" "))...)
	f.stress = true // a mark may have another letter before it
	f.composeFrom(from)
}

// reversed returns the characters of p in reverse order, each with the marks on it. Marks at the
// beginning of a word stay together.
func reversed(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for end := len(p); end > 0; {
		at := end
		for isMark := true; isMark && at > 0; {
			r, n := utf8.DecodeLastRune(p[:at])
			if r == ' ' && at < end {
				break
			}
			at -= n
			isMark = r >= 0x300 && unicode.Is(unicode.M, r)
		}
		out = append(out, p[at:end]...)
		end = at
	}
	return out
}

// CharFrom returns the position of the first character of p from i on.
func CharFrom[T []byte | string](p T, i int) int {
	for i = max(0, min(i, len(p))); i < len(p) && !utf8.RuneStart(p[i]); i++ {
	}
	return i
}

// Cut removes the text from a position on.
func (f *Flow) Cut(at int) { f.Remove(at, len(f.B)) }

// Remove removes text before the end of which no position but that of a turn is remembered.
func (f *Flow) Remove(from, to int) {
	f.B = append(f.B[:from], f.B[to:]...)
	f.Joins, f.Fixed = false, min(f.Fixed, from)
	switch {
	case f.turned > to:
		f.turned -= to - from
	case f.turned > from:
		f.turned, f.turnedDeep = 0, 0
	}
}

// OnRemoved says that n bytes at the beginning of the text were removed.
func (f *Flow) OnRemoved(n int) {
	f.Fixed = max(0, f.Fixed-n)
	f.gone += n
	for i := range f.further {
		if r := &f.further[i]; r.at > 0 {
			r.at = max(1, r.at-n)
		}
	}
	if f.turned > 0 {
		f.turned = max(1, f.turned-n)
	}
	if f.broken.at > 0 {
		f.broken.at = max(1, f.broken.at-n)
	}
	if p := &f.parting; p.to > 0 {
		p.to, p.word = max(0, p.to-n), max(1, p.word-n)
	}
}
