package content

import (
	"bytes"
	"slices"
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
func (f *flow) bidi(r rune) {
	switch {
	case r >= 0x202A && r <= bidiRLO && r != bidiPDF, r >= 0x2066 && r < bidiPDI:
		switch {
		case f.turned > 0:
			f.turnedDeep++
		case r == bidiRLO:
			f.beginReversed()
		}
	case r == bidiPDF || r == bidiPDI:
		if f.turnedDeep--; f.turnedDeep < 0 {
			f.turnBack()
		}
	}
}

// beginReversed begins text that is shown backwards.
func (f *flow) beginReversed() {
	if f.joins {
		f.compose()
	}
	f.turned, f.turnedDeep = len(f.b), 0
}

// turnBack ends such text.
func (f *flow) turnBack() {
	f.backward()
	f.turned, f.turnedDeep = 0, 0
}

// backward appends the text since the turn as it is shown, with the word that it ends.
func (f *flow) backward() {
	if f.turned == 0 {
		return
	}
	if f.joins {
		f.compose()
	}
	at := min(f.turned, len(f.b))
	if most := 2 * mostBackward; len(f.b)-at > most {
		for at = len(f.b) - most; f.b[at]&0xC0 == 0x80; {
			at++
		}
	}
	word := lastWord(f.b[:at])
	shown := slices.Concat(word, f.b[at:])
	p := shown[len(word):]
	slices.Reverse(p)
	for i := 0; i < len(p); i++ {
		if p[i] >= utf8.RuneSelf {
			n := i
			for p[n]&0xC0 == 0x80 {
				n++
			}
			slices.Reverse(p[i : n+1])
			i = n
		}
	}
	if f.turned = 0; len(p) > 0 {
		f.blank()
		f.b = append(f.b, bytes.TrimPrefix(shown, []byte(" "))...)
	}
	f.turned = len(f.b)
}

// override begins or ends an element that may turn its text.
func (x *page) override() {
	x.out.flush()
	switch {
	case x.end && x.turns > 0:
		if x.turns--; x.turns == 0 {
			x.out.turnBack()
		}
	case !x.end && (x.turns > 0 || string(x.which[:x.nWhich]) == "rtl"):
		if x.turns++; x.turns == 1 {
			x.out.beginReversed()
		}
	}
}

// onRemoved says that n bytes before the end of the text were removed.
func (f *flow) onRemoved(n int) {
	f.fixed = max(0, f.fixed-n)
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
