package charset

import (
	"unicode/utf8"

	"golang.org/x/text/transform"
)

// A jpSet is the character set that an escape sequence of ISO-2022-JP selects.
type jpSet uint8

const (
	jpASCII jpSet = iota
	jpRoman       // ASCII with a yen sign and an overline
	jpKatakana
	jpDouble // JIS X 0208, two bytes per character
)

// iso2022JP decodes by section 13.2.1 of the standard. It keeps the selected set from piece to
// piece.
type iso2022JP struct {
	set jpSet
	// emitted is false between an escape sequence and the next character: another escape
	// sequence directly after one is an error.
	emitted bool
}

// Reset implements [transform.Transformer].
func (d *iso2022JP) Reset() { *d = iso2022JP{emitted: true} }

// Transform implements [transform.Transformer].
func (d *iso2022JP) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		next := *d
		r, n := next.one(src[nSrc:], atEOF)
		if n == 0 {
			return nDst, nSrc, transform.ErrShortSrc
		}
		if r >= 0 {
			if nDst+utf8.RuneLen(r) > len(dst) {
				return nDst, nSrc, transform.ErrShortDst
			}
			nDst += utf8.EncodeRune(dst[nDst:], r)
		}
		*d = next
		nSrc += n
	}
	return nDst, nSrc, nil
}

// one reads a character or an escape sequence; r is negative for the latter. n is 0 if p is
// incomplete.
func (d *iso2022JP) one(p []byte, atEOF bool) (r rune, n int) {
	b := p[0]
	if b == 0x1B {
		return d.escape(p, atEOF)
	}
	d.emitted = true
	switch {
	case d.set == jpRoman && b == 0x5C:
		return 0xA5, 1
	case d.set == jpRoman && b == 0x7E:
		return 0x203E, 1
	case d.set <= jpRoman && b < utf8.RuneSelf && b != 0x0E && b != 0x0F:
		return rune(b), 1
	case d.set == jpKatakana && b >= 0x21 && b <= 0x5F:
		return 0xFF61 - 0x21 + rune(b), 1
	case d.set != jpDouble || b < 0x21 || b > 0x7E:
		return utf8.RuneError, 1
	case len(p) < 2:
		if atEOF {
			return utf8.RuneError, 1
		}
		return 0, 0
	}
	trail := p[1]
	switch {
	case trail == 0x1B:
		return utf8.RuneError, 1 // the escape sequence is the error
	case trail < 0x21 || trail > 0x7E:
		return utf8.RuneError, 2
	}
	if r = tables()[tableJIS0208][(int(b)-0x21)*94+int(trail)-0x21]; r == 0 {
		r = utf8.RuneError
	}
	return r, 2
}

// escape reads an escape sequence. An unknown one is an error, and the bytes after the escape
// are text.
func (d *iso2022JP) escape(p []byte, atEOF bool) (r rune, n int) {
	if len(p) >= 2 && (p[1] == '$' || p[1] == '(') || len(p) < 2 {
		if len(p) < 3 && !atEOF {
			return 0, 0
		}
		if set, ok := jpSetOf(p); ok {
			d.set = set
			was := d.emitted
			d.emitted = false
			if was {
				return -1, 3
			}
			return utf8.RuneError, 3
		}
	}
	d.emitted = true
	return utf8.RuneError, 1
}

// jpSetOf returns the set that an escape sequence selects.
func jpSetOf(p []byte) (jpSet, bool) {
	if len(p) < 3 {
		return 0, false
	}
	switch string(p[1:3]) {
	case "(B":
		return jpASCII, true
	case "(J":
		return jpRoman, true
	case "(I":
		return jpKatakana, true
	case "$@", "$B":
		return jpDouble, true
	}
	return 0, false
}
