package prose

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"shuultuur/test/race"
)

// FuzzNormalise: lists and pages are folded once each. Folding must not change folded text, or
// a list written from folded text would not match.
func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"Straße ẞ", "ﬁn ﬃ", "o‘zbek O'ZBEK", "ϓ ϔ ΐ ᾳ", "ｶﾞｷﾟ", "ﻻ ﷺ", "İ ı I i̇", "각 한", "Å Ω", "①²½", "𝔘𝔫𝔦", "ё й и\u0306", "a\u0315\u0300\u05ae\u0301b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		once := Normalise(nil, p)
		if !utf8.Valid(once) {
			t.Fatalf("Normalise(%q) = %q, which is not UTF-8", p, once)
		}
		if twice := Normalise(nil, once); !bytes.Equal(once, twice) {
			t.Fatalf("Normalise(%q) = %q, and normalised again %q", p, once, twice)
		}
	})
}

func TestNormaliseIsIdempotentForEveryLetterAndMarks(t *testing.T) {
	race.Without(t)
	r := rand.New(rand.NewPCG(1, 8))
	marks := []rune("\u0300\u0301\u0303\u0306\u0307\u0308\u030a\u0323\u0327\u0328\u0345\u0653\u0654\u0655\u064b\u05bc\u3099\u309a\u093c\u0e33")
	wrong := 0
	for c := rune(1); c <= utf8.MaxRune && wrong < 20; c++ {
		if c == 0x20000 {
			c = 0xe0000
		}
		s := []rune{c}
		if r.IntN(2) == 0 {
			s = append(s, marks[r.IntN(len(marks))], marks[r.IntN(len(marks))])
		}
		for _, text := range []string{string(c), string(s), "a" + string(s)} {
			once := Normalise(nil, []byte(text))
			if twice := Normalise(nil, once); !bytes.Equal(once, twice) {
				t.Errorf("Normalise(%q) (%U) = %q, and normalised again %q", text, []rune(text), once, twice)
				wrong++
			}
		}
	}
}

// FuzzTerms: every phrase of a list is converted to words that pages can contain, and these
// words are converted to themselves.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"{o‘yin} klub", "a{b}c}{", "''{'}'", "{qimor", "o'zbek'cha", "{\u0307x} 'ß' {ﬁ}", "{} { }"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, phrase []byte, all bool) {
		for _, term := range Terms(phrase, all) {
			word := term.Word
			if word == "" || !utf8.ValidString(word) || strings.ContainsAny(word, " {}") || word[0] == '\'' || word[len(word)-1] == '\'' || all && !term.Stem {
				t.Fatalf("Terms(%q) returned the impossible word %q, by stem %v", phrase, word, term.Stem)
			}
			if again := Terms([]byte(word), term.Stem); len(again) != 1 || again[0] != term {
				t.Fatalf("Terms(%q) returned the word %q, and for that %v", phrase, word, again)
			}
		}
	})
}

// TestVectorsFoldAsSingleBytesDo compares the vector instructions with the table, for each
// table, length and last byte.
func TestVectorsFoldAsSingleBytesDo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const likely = "aZzAMq@[`{09/:  \n,.-<>&%\\\x00\x01\x1f!\x7f\x80\xc3\xff"
	for i, table := range []*Table{ShownText, ValueText, RawText, PlainText, JSONText, CueText, FormText} {
		for range 20000 {
			p := make([]byte, r.IntN(80))
			for i := range p {
				switch p[i] = 'a' + byte(r.IntN(26)); r.IntN(8) {
				case 0:
					p[i] = likely[r.IntN(len(likely))]
				case 1, 2:
					p[i] = ' '
				}
			}
			begin := []string{" ", " x", " \xc3\xa9"}[r.IntN(3)]
			want, n := []byte(begin), 0
			for ; n < len(p) && table.to[p[n]] != 0; n++ {
				if c := table.to[p[n]]; c != ' ' || want[len(want)-1] != ' ' {
					want = append(want, c)
				}
			}
			f := Flow{B: append(make([]byte, 0, len(begin)+len(p)+r.IntN(20)), begin...)}
			if used := f.fast(p, 0, table); used != n || string(f.B) != string(want) {
				t.Fatalf("table %d, %q after %q: %q of %d bytes, want %q of %d", i, p, begin, f.B, used, want, n)
			}
		}
	}
}
