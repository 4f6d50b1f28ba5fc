package content

import (
	"bytes"
	"testing"

	"golang.org/x/text/encoding/htmlindex"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func TestCharsets(t *testing.T) {
	for _, c := range []struct{ name, header, head, label, text, want string }{
		{"koi8-r in the header", "text/html; charset=KOI8-R", "", "koi8-r", "Привет, МИР", " привет мир "},
		{"windows-1251 in meta", "text/html", `<meta charset="windows-1251">`, "windows-1251", "Привет", " привет "},
		{"gb2312 in http-equiv", "text/html", `<meta http-equiv=Content-Type content="text/html; charset=gb2312">`, "gb18030", "中文，网页", " 中文 网页 "},
		{"content without http-equiv", "text/html", `<meta content="text/html; charset=koi8-r">`, "utf-8", "Привет", " привет "},
		{"gb18030", "text/html;charset=gb18030", "", "gb18030", "中文€ Монгол", " 中文 монгол "},
		{"euc-jp", "text/html; charset=\"euc-jp\"", "", "euc-jp", "日本語のテキスト", " 日本語のテキスト "},
		{"shift_jis", "text/html", `<!-- x --><meta charset=shift_jis>`, "shift_jis", "日本語", " 日本語 "},
		{"big5", "text/html", `<a href="x"><meta charset=big5>`, "big5", "繁體中文", " 繁體中文 "},
		{"euc-kr", "text/html; charset=euc-kr", "", "euc-kr", "한국어", " 한국어 "},
		{"iso-2022-jp", "text/html; charset=iso-2022-jp", "", "iso-2022-jp", "日本語 abc", " 日本語 abc "},
		{"utf-16le in the header", "text/html; charset=utf-16le", "", "utf-16le", "Ab Яя 𝓼", " ab яя s "},
		{"utf-16 in meta means utf-8", "text/html", `<meta charset=utf-16le>`, "utf-8", "Яя", " яя "},
		{"mongolian cyrillic, utf-8", "text/html", "", "utf-8", "Өдрийн МЭНД, Үг", " өдрийн мэнд үг "},
		{"nothing said: utf-8", "text/html", "", "utf-8", "café", " café "},
		{"nothing said: windows-1252", "text/html", "", "windows-1252", "café “Š”", " café š "},
		{"label in comment does not count", "text/html", `<!-- <meta charset=koi8-r> -->`, "utf-8", "Яя", " яя "},
		{"label in xml declaration", "text/xml", `<?xml version="1.0" encoding="koi8-r"?>`, "koi8-r", "Яя", " яя "},
		{"unknown label", "text/html; charset=foo", "", "utf-8", "Яя", " яя "},
	} {
		e, err := htmlindex.Get(c.label)
		if err != nil {
			t.Fatal(err)
		}
		enc, err := e.NewEncoder().Bytes([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		body := append([]byte(c.head), enc...)
		for _, size := range []int{len(body), 1, 3} {
			var b Body
			b.Reset(Describe(c.header, ""), Limits{})
			for rest := body; len(rest) > 0; {
				n := min(size, len(rest))
				b.Append(rest[:n])
				rest = rest[n:]
			}
			b.Finish()
			if got, err := b.Text(); err != nil || string(got) != c.want {
				t.Errorf("%s, %d bytes at a time: the text is %q, %v; want %q", c.name, size, got, err, c.want)
			}
			b.Release()
		}
	}
}

func TestLongTextInManyByteCharset(t *testing.T) {
	var text bytes.Buffer
	for i := range 4000 {
		text.WriteString("日本語")
		text.WriteByte(byte('a' + i%26))
	}
	want := " " + text.String() + " "
	for _, label := range []string{"euc-jp", "shift_jis", "gb18030", "utf-16be", "iso-2022-jp"} {
		e, _ := htmlindex.Get(label)
		p, err := e.NewEncoder().Bytes(text.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{len(p), 1021, 7} {
			var b Body
			b.Reset(Describe("text/plain; charset="+label, ""), Limits{})
			for rest := p; len(rest) > 0; {
				n := min(size, len(rest))
				b.Append(rest[:n])
				rest = rest[n:]
			}
			b.Finish()
			if got, err := b.Text(); err != nil || string(got) != want {
				t.Errorf("%s in pieces of %d: the text differs, or the error is %v", label, size, err)
			}
			b.Release()
		}
	}
}

func TestByteOrderMarkCountsMost(t *testing.T) {
	for _, body := range []string{"\xEF\xBB\xBFЯя", "\xFE\xFF\x04\x2F\x04\x4F", "\xFF\xFE\x2F\x04\x4F\x04"} {
		if got := textOf(t, "text/html; charset=koi8-r", body); got != " яя " {
			t.Errorf("the text of %q is %q, want that of its byte order mark", body, got)
		}
		got, err := ToUTF8([]byte(body), "koi8-r")
		if err != nil || string(got) != "Яя" {
			t.Errorf("ToUTF8(%q) = %q, %v", body, got, err)
		}
	}
}

func TestToUTF8(t *testing.T) {
	if got, err := ToUTF8([]byte("\xf0\xd2"), "koi8-r"); err != nil || string(got) != "Пр" {
		t.Errorf("ToUTF8 from koi8-r returned %q, %v", got, err)
	}
	if got, err := ToUTF8([]byte("a\xffb"), "utf-8"); err != nil || string(got) != "a\uFFFDb" {
		t.Errorf("ToUTF8 of malformed UTF-8 returned %q, %v", got, err)
	}
	if _, err := ToUTF8([]byte("a"), "no such"); err == nil {
		t.Error("ToUTF8 accepts an unknown charset")
	}
}

func TestInvalidUTF8PartsWords(t *testing.T) {
	for in, want := range map[string]string{
		"a\xffb":         " a b ",
		"a\xc3":          " a ",
		"a\xe2\x82b":     " a b ",
		"a\xed\xa0\x80b": " a b ",
		"\xf0\x9f\x98x":  " x ",
	} {
		if got := textOf(t, "text/plain; charset=utf-8", in); got != want {
			t.Errorf("the text of %q is %q, want %q", in, got, want)
		}
	}
}

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
