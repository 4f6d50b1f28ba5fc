// Package uzbek finds the stems of Uzbek words, in Latin and Cyrillic script.
//
// A word in Cyrillic is converted to the Latin letters of the alphabet of 1995, and its stem
// is in Latin letters, so that a list in one script finds words in both.
package uzbek

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"shuultuur/lib/language/inflect"
)

//go:embed uzbek.model
var model []byte

// A Stemmer finds stems of Uzbek words. It is safe for concurrent use.
type Stemmer struct{ s *inflect.Stemmer }

// New unpacks the stemmer, which takes about a megabyte.
func New() (*Stemmer, error) {
	m, err := inflect.ReadModel(bytes.NewReader(model))
	if err != nil {
		return nil, fmt.Errorf("reading the model of Uzbek: %w", err)
	}
	s, err := inflect.New(Grammar, m)
	if err != nil {
		return nil, fmt.Errorf("reading the model of Uzbek: %w", err)
	}
	return &Stemmer{s}, nil
}

// Stem appends the stem of a word in lower case to dst. It accepts every apostrophe of Uzbek.
func (s *Stemmer) Stem(dst, word []byte) []byte {
	var room [128]byte
	return s.s.Stem(dst, Latin(room[:0], word))
}

// JoinParts returns the word that the first parts form when joined by apostrophes, and the number
// of these parts. It is for text in which apostrophes have become blanks: "to", "g", "ri" is
// "to'g'ri". The number is 1 if no such word is known.
func (s *Stemmer) JoinParts(parts []string) (word string, n int) {
	word, n = parts[0], 1
	whole, signs := parts[0], 0
	for i, part := range parts[1:min(len(parts), maxJoined)] {
		before := whole
		whole += "'" + part
		if strings.HasSuffix(before, "o") || strings.HasSuffix(before, "g") { // o' and g' are letters
			if s.hasStem(whole) {
				word, n = whole, i+2
			}
			continue
		}
		// The glottal stop, as in ma'no: once in a word, near its beginning.
		if signs++; signs > 1 || len(before) > maxBeforeStop {
			break
		}
		if s.hasStem(whole) && !(s.hasStem(before) && s.hasStem(part)) {
			word, n = whole, i+2
		}
	}
	return word, n
}

const (
	maxJoined     = 4 // parts of a word
	maxBeforeStop = 4 // letters
)

func (s *Stemmer) hasStem(word string) bool {
	return s.s.InLexicon(s.Stem(nil, []byte(word)))
}

// latin has the Latin letters for each Cyrillic one from U+0430 on.
var latin = [...]string{
	"a", "b", "v", "g", "d", "e", "j", "z", "i", "y", "k", "l", "m", "n", "o", "p",
	"r", "s", "t", "u", "f", "x", "ts", "ch", "sh", "sh", "'", "i", "", "e", "yu", "ya",
}

// Latin appends a word in Latin letters, with ' for every apostrophe.
func Latin(dst, word []byte) []byte {
	for i := 0; i < len(word); {
		b := word[i]
		if b < utf8.RuneSelf {
			if b == '`' {
				b = '\''
			}
			dst = append(dst, b)
			i++
			continue
		}
		r, n := utf8.DecodeRune(word[i:])
		switch {
		case r == 'е' && (i == 0 || afterVowel(dst)):
			dst = append(dst, "ye"...)
		case 'а' <= r && r <= 'я':
			dst = append(dst, latin[r-'а']...)
		case r == 'ё':
			dst = append(dst, "yo"...)
		case r == 'ў':
			dst = append(dst, "o'"...)
		case r == 'қ':
			dst = append(dst, 'q')
		case r == 'ғ':
			dst = append(dst, "g'"...)
		case r == 'ҳ':
			dst = append(dst, 'h')
		case r == '\u2018' || r == '\u2019' || r == '\u02bb' || r == '\u02bc' || r == '\u00b4' || r == '\u2032':
			dst = append(dst, '\'')
		default:
			dst = append(dst, word[i:i+n]...)
		}
		i += n
	}
	return dst
}

// afterVowel reports whether е is read as ye here.
func afterVowel(dst []byte) bool {
	if len(dst) == 0 {
		return true
	}
	switch dst[len(dst)-1] {
	case 'a', 'e', 'i', 'o', 'u':
		return true
	}
	return len(dst) > 1 && dst[len(dst)-1] == '\'' && dst[len(dst)-2] == 'o'
}
