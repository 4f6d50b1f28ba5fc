package content_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"shuultuur/content"
	"shuultuur/content/prose"
	"shuultuur/lib/charset"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

func FuzzText(f *testing.F) {
	for _, c := range reading.Shown {
		f.Add("text/html", []byte(c.In), uint64(1))
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		f.Add("text/html; charset=utf-8", reading.RandomPage(r), r.Uint64())
	}
	f.Add("application/json", []byte(`"\u00e9\ud83d\ude00\n"`), uint64(2))
	f.Add("application/json", []byte(`[{"a":"the po"},{"a":"rn is"},{"b":"`+strings.Repeat("aW5ub2NlbnQg", 60)+`"}]`), uint64(3))
	f.Add("text/plain", bytes.Repeat([]byte("aW5ub2NlbnQg"), 600), uint64(4))
	f.Add("application/x-www-form-urlencoded", []byte("a=%c3%a9&b=%e2é%"), uint64(3))
	f.Add("text/xml", []byte("<a><![CDATA[x]]y]]></a><script>z</script>"), uint64(4))
	f.Add("text/html; charset=shift_jis", []byte("\x93\xfa\x96\x7b<p>\x8c\xea"), uint64(5))
	f.Add("text/plain; charset=utf-16le", []byte("a\x00\x3d\xd8\x00\xde"), uint64(6))
	f.Add("", []byte("<html><svg><style><p>x</svg>"), uint64(7))
	f.Add("application/zip", []byte(reading.Archive(f, "a.txt", "plain", "b.zip", reading.Archive(f, "c", "d"))), uint64(8))
	f.Add("application/zip", []byte(reading.Stored(f, 0, 0, "a.txt", "plain", "b", "c")), uint64(9))
	f.Add("application/x-tar", []byte(reading.Tar(f, "a.txt", "plain", "b.html", "<p>x")), uint64(10))
	f.Add("application/gzip", []byte(reading.Gzip(reading.Tar(f, "a.txt", "plain"))), uint64(11))
	f.Add("application/xhtml+xml", []byte("<!DOCTYPE a [<?x ' ?><!ATTLIST a b CDATA 'x'><!ENTITY c '<b>po</b>&#38;rn'>]><a xmlns='y'><style>&c;<![CDATA[a::b{content:'x'}]]></style><script>z</script>&c;</a>"), uint64(12))
	f.Add("text/html", []byte("<ul style=\"list-style:'x\\\r\ny'\">po<template>x</template>rn<style>@import url(data:text/css,a{content:%27x%27});</style><iframe src=\"javascript:'x'\">"), uint64(13))
	f.Add("message/rfc822", []byte("Subject: x\n\nbegin 644 a.txt\n$<&]R;@  \n`\nend\n"), uint64(16))
	f.Add("text/xml", []byte(`<a xmlns:x="http://www.w3.org/1999/XSL/Transform">po<x:value-of select="concat('r','n')"/><x:if test="1">y</x:if></a>`), uint64(17))
	for i, page := range reading.StyledWords() {
		f.Add("text/html; charset=utf-8", []byte(page), uint64(100+i))
	}
	for i, c := range hiddenWords(f) {
		f.Add(c.Typ, []byte(c.In), uint64(i))
	}
	f.Fuzz(func(t *testing.T, header string, p []byte, seed uint64) {
		var b content.Body
		h := content.Describe(header, "")
		b.Reset(h, content.Limits{})
		b.Append(p)
		b.Finish()
		whole, err := b.Text()
		if err != nil {
			t.Fatal(err)
		}
		want, several := string(whole), h.Invalid()
		b.Release()
		if several { // followers get all of them
			return
		}
		reading.CheckNormal(t, want)
		got, err := reading.In(t, content.Describe(header, ""), p, content.Limits{}, rand.New(rand.NewPCG(seed, 0)))
		if got != want || err != nil {
			t.Fatalf("in pieces the text is %q, %v; in one piece %q", got, err, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	page := webpage.SamplePage()[:3000]
	for _, c := range codings {
		f.Add(c.header, webpage.EncodeAll(f, c.how, page), uint64(len(c.header)))
	}
	f.Fuzz(func(t *testing.T, header string, p []byte, seed uint64) {
		lim := content.Limits{Decoded: 1 << 20}
		var b, c content.Body
		b.Reset(content.Describe("text/html", header), lim)
		b.Append(p)
		b.Finish()
		want, err := b.Decoded()
		if int64(len(want)) > lim.Decoded {
			t.Fatalf("%d bytes were decoded, the limit is %d", len(want), lim.Decoded)
		}
		c.Reset(content.Describe("text/html", header), lim)
		r := rand.New(rand.NewPCG(seed, 0))
		for len(p) > 0 {
			n := 1 + r.IntN(len(p))
			c.Append(p[:n])
			p = p[n:]
			c.Text()
			c.Decoded()
			c.Forget()
		}
		c.Finish()
		got, err2 := c.Decoded()
		// The text before an error depends on the progress of a decoder.
		if err != nil {
			n := min(len(got), len(want))
			got, want = got[:n], want[:n]
		}
		if !bytes.Equal(got, want) || (err == nil) != (err2 == nil) {
			t.Fatalf("in pieces %d bytes were decoded, %v; in one piece %d bytes, %v", len(got), err2, len(want), err)
		}
		text, _ := c.Text()
		reading.CheckNormal(t, string(text))
		b.Release()
		c.Release()
	})
}

func FuzzToUTF8(f *testing.F) {
	f.Add("koi8-r", []byte("\xf0\xd2"))
	f.Add("gb18030", []byte("\x81\x30\x81"))
	f.Fuzz(func(t *testing.T, label string, p []byte) {
		q, err := charset.ToUTF8(p, label)
		if err == nil && !utf8.Valid(q) {
			t.Fatalf("ToUTF8 returned %q, which is not UTF-8", q)
		}
		n := prose.Normalise(nil, q)
		if bytes.Contains(n, []byte("  ")) || !utf8.Valid(n) {
			t.Fatalf("Normalise returned two blanks in a row or no UTF-8: %q", n)
		}
	})
}
