package content_test

import (
	"bytes"
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"shuultuur/content"
	"shuultuur/lib/charset"
	"shuultuur/test/reading"
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
			var b content.Body
			b.Reset(content.Describe(c.header, ""), content.Limits{})
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
			var b content.Body
			b.Reset(content.Describe("text/plain; charset="+label, ""), content.Limits{})
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
		if got := reading.Text(t, "text/html; charset=koi8-r", body); got != " яя " {
			t.Errorf("the text of %q is %q, want that of its byte order mark", body, got)
		}
		got, err := charset.ToUTF8([]byte(body), "koi8-r")
		if err != nil || string(got) != "Яя" {
			t.Errorf("ToUTF8(%q) = %q, %v", body, got, err)
		}
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
		if got := reading.Text(t, "text/plain; charset=utf-8", in); got != want {
			t.Errorf("the text of %q is %q, want %q", in, got, want)
		}
	}
}
