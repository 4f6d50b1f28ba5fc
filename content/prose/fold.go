package prose

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// spellings adds to the table letters with alternative spellings in the languages of a script.
func (t *foldTable) spellings(flat []uint16) {
	to := func(r, folded rune) { flat[r] = uint16(folded) - uint16(r) }
	for r := range rune(0x10000) {
		if isApostrophe(r) || r == 0x374 { // Unicode counts some as letters
			flat[r] = toBlank
		}
	}
	// Greek capitals are written without accents.
	for _, g := range [][2]rune{{0x386, 0x3ce}, {0x1f00, 0x1fff}} {
		for r := g[0]; r <= g[1]; r++ {
			one, _ := utf8.DecodeRuneInString(norm.NFD.String(string(r)))
			if flat[r] != toBlank && unicode.Is(unicode.Greek, one) && unicode.IsLetter(one) {
				to(r, simpleFold(one))
			}
		}
	}
	for _, r := range "\u0622\u0623\u0625\u0671" {
		to(r, 0x627) // alef
	}
	for from, plain := range map[rune]rune{'ё': 'е', 'ѐ': 'е', 'ѝ': 'и'} {
		to(from, plain)
		to(unicode.ToUpper(from), plain)
	}
	t.several = map[rune]string{'ß': "ss", 'ẞ': "ss"}
	flat['ß'], flat['ẞ'] = toSeveral, toSeveral
}

// isLoose reports whether a letter is written with or without a following mark: the stress of
// Cyrillic, and the dot that remains when a Turkish İ becomes lower case.
func isLoose(letter, mark rune) bool {
	switch mark {
	case 0x300, 0x301:
		return unicode.Is(unicode.Cyrillic, letter)
	case 0x307:
		return letter == 'i'
	}
	return false
}

// compatible adds to the table the compatibility decomposition (UAX 15) of characters:
// presentation forms, ligatures, half-width katakana, superscripts. Signs after a name
// separate it from the next word, as other signs do.
func (t *foldTable) compatible(flat []uint16) {
	for r := rune(0x80); r < 0x10000; r++ {
		if r >= 0xd800 && r < 0xe000 || r == 0x2120 || r == 0x2122 || isApostrophe(r) || flat[r] == toNothing || flat[r] == toSeveral {
			continue
		}
		s := norm.NFKC.String(string(r))
		if s == norm.NFC.String(string(r)) {
			continue
		}
		one, n := utf8.DecodeRuneInString(s)
		switch {
		case n < len(s) || one > 0xffff || flat[one] == toSeveral:
			flat[r] = toSeveral
			t.several[r] = s
		case flat[one] == toBlank || flat[one] == toNothing:
			flat[r] = flat[one]
		default:
			flat[r] = uint16(one) + flat[one] - uint16(r)
		}
		if !norm.NFC.PropertiesString(s).BoundaryBefore() {
			t.compose[r>>6] |= 1 << (r & 63)
		}
	}
}
