package prose

import (
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func TestNormaliseKeepsBlanksAtTheEnds(t *testing.T) {
	for in, want := range map[string]string{
		"":              "",
		"sex":           "sex",
		" sex ":         " sex ",
		"  Sex-Shop ":   " sex shop ",
		"--":            " ",
		"a &amp; <b>":   "a amp b ",
		"ÉCOLE e\u0301": "école é",
		"x\xff":         "x ",
		"\u00ad":        "",
	} {
		if got := string(Normalise([]byte("k"), []byte(in))); got != "k"+want {
			t.Errorf("Normalise(%q) = %q, want %q", in, got[1:], want)
		}
	}
}

func TestSpellingsOfOneWordAreAlike(t *testing.T) {
	for name, spellings := range map[string][]string{
		"Uzbek apostrophes":  {"o'zbek", "o\u02bbzbek", "o\u02bczbek", "o\u2018zbek", "O\u2019ZBEK", "o`zbek", "o\u02bfzbek", "o\u02c8zbek", "o\uff40zbek"},
		"tatweel and vowels": {"محمد", "مُحَمَّد", "محـــمد", "ﻣﺤﻤﺪ"},
		"alef":               {"احمد", "أحمد", "إحمد", "آحمد", "ا\u0654حمد"},
		"lam and alef":       {"لا", "ﻻ", "لأ", "ﻷ"},
		"Greek":              {"ΚΑΖΙΝΟΣ", "καζίνος", "καζι\u0301νος", "καζίνοσ", "καζῖνος"},
		"sharp s":            {"STRASSE", "Straße", "STRAẞE"},
		"yo":                 {"елка", "ёлка", "Ёлка", "е\u0308лка"},
		"stress":             {"казино", "кази\u0301но", "казин\u0301о\u0301", "каз\u045dно", "КАЗИ\u0300НО"},
		"short i":            {"бой", "бои\u0306", "бои\u0301\u0306", "БОЙ\u0301"},
		"Turkish İ":          {"istanbul", "İSTANBUL", "i\u0307stanbul", "I\u0307stanbul", "ıstanbul"},
		"Hebrew points":      {"שלום", "שָׁלוֹם", "\ufb2aלום", "ש\u05c1לום"},
		"katakana":           {"ガバ", "ｶﾞﾊﾞ"},
		"ligatures":          {"office file", "oﬃce ﬁle"},
		"superscripts":       {"sex", "ˢᵉˣ", "ｓｅｘ", "ⓢⓔⓧ"},
		"signs for letters":  {"kg", "㎏"},
	} {
		want := string(Normalise(nil, []byte(spellings[0])))
		for _, s := range spellings[1:] {
			if got := string(Normalise(nil, []byte(s))); got != want {
				t.Errorf("%s: %q is folded to %q, but %q to %q", name, spellings[0], want, s, got)
			}
		}
	}
}

func TestNormaliseAgreesWithNFKC(t *testing.T) {
	for r := rune(0x80); r < 0x10000; r++ {
		if r >= 0xd800 && r < 0xe000 || r == 0x2120 || r == 0x2122 || isApostrophe(r) || folds().fold(r) == -1 {
			continue
		}
		s := "x" + string(r) + "x"
		got, want := string(Normalise(nil, []byte(s))), string(Normalise(nil, norm.NFKC.Bytes([]byte(s))))
		if got != want {
			t.Errorf("%U is folded to %q, but its compatible form to %q", r, got, want)
		}
	}
}

func TestFoldTableFollowsUnicode(t *testing.T) {
	f := folds()
	size := len(f.page) + len(f.offset)*512 + len(f.compose)*8
	if size > 64<<10 {
		t.Errorf("table of %d bytes, want at most %d", size, 64<<10)
	}
	t.Logf("the table has %d bytes in %d pages", size, len(f.offset))
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		got := f.fold(r)
		if unicode.In(r, unicode.L, unicode.Nd) && got == ' ' && !isApostrophe(r) && r != 0x374 {
			t.Errorf("%U is a letter or digit and folds to a blank", r)
		}
		if got > 0 && f.fold(got) != got {
			t.Errorf("%U folds to %U, and that to %U", r, got, f.fold(got))
		}
		if l := unicode.ToLower(r); l != r && f.fold(l) != got {
			t.Errorf("%U folds to %U, its lower case %U to %U", r, got, l, f.fold(l))
		}
		if got == r && r < 0x10000 && !f.composes(r) && !norm.NFC.IsNormalString(string(r)) {
			t.Errorf("%U is not in normal form and is not folded", r)
		}
	}
}
