package content

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// A collector is a check that keeps all text.
type collector struct {
	all    []byte
	closed int
}

func (c *collector) Follow(*Body) Follower { c.all = append(c.all[:0], ' '); return c }
func (c *collector) Close()                { c.closed++ }
func (c *collector) Read(text []byte, fresh int) {
	known := text[:fresh]
	if !bytes.HasSuffix(c.all, known) || len(known) < min(behind, len(c.all)) {
		panic(fmt.Sprintf("looked back at %q, after %q", known, c.all))
	}
	c.all = append(c.all, text[fresh:]...)
}

// readIn returns the text of p appended in pieces of sizes from r, and the text that Text
// returns at the end if nothing was forgotten.
func readIn(t *testing.T, h *Head, p []byte, lim Limits, r *rand.Rand) (text string, err error) {
	var b Body
	var c collector
	b.Reset(h, lim)
	b.Follow(&c)
	for len(p) > 0 {
		n := 1 + r.IntN(min(len(p), 1+r.IntN(len(p))))
		piece := bytes.Clone(p[:n])
		b.Append(piece)
		p = p[n:]
		switch r.IntN(3) {
		case 0:
			_ = b.Read(context.Background())
		case 1:
			b.Forget()
			clear(piece)
		}
	}
	b.Finish()
	err = b.Read(context.Background())
	b.Release()
	if c.closed != 1 {
		t.Fatalf("the follower was closed %d times, want once", c.closed)
	}
	return string(c.all), err
}

// checkNormal fails unless s is normalised as Text guarantees.
func checkNormal(t *testing.T, s string) {
	if s == "" || s[0] != ' ' || s[len(s)-1] != ' ' {
		t.Fatalf("the text lacks a blank at an end: %q", s)
	}
	if bytes.Contains([]byte(s), []byte("  ")) || !utf8.ValidString(s) {
		t.Fatalf("the text has two blanks in a row or is not UTF-8: %q", s)
	}
}

func FuzzText(f *testing.F) {
	for _, c := range textCases {
		f.Add("text/html", []byte(c.in), uint64(1))
	}
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		f.Add("text/html; charset=utf-8", randomPage(r), r.Uint64())
	}
	f.Add("application/json", []byte(`"\u00e9\ud83d\ude00\n"`), uint64(2))
	f.Add("application/json", []byte(`[{"a":"the po"},{"a":"rn is"},{"b":"`+strings.Repeat("aW5ub2NlbnQg", 60)+`"}]`), uint64(3))
	f.Add("text/plain", bytes.Repeat([]byte("aW5ub2NlbnQg"), 600), uint64(4))
	f.Add("application/x-www-form-urlencoded", []byte("a=%c3%a9&b=%e2é%"), uint64(3))
	f.Add("text/xml", []byte("<a><![CDATA[x]]y]]></a><script>z</script>"), uint64(4))
	f.Add("text/html; charset=shift_jis", []byte("\x93\xfa\x96\x7b<p>\x8c\xea"), uint64(5))
	f.Add("text/plain; charset=utf-16le", []byte("a\x00\x3d\xd8\x00\xde"), uint64(6))
	f.Add("", []byte("<html><svg><style><p>x</svg>"), uint64(7))
	f.Add("application/zip", []byte(archive(f, "a.txt", "plain", "b.zip", archive(f, "c", "d"))), uint64(8))
	f.Add("application/zip", []byte(stored(f, 0, 0, "a.txt", "plain", "b", "c")), uint64(9))
	f.Add("application/x-tar", []byte(tarOf(f, "a.txt", "plain", "b.html", "<p>x")), uint64(10))
	f.Add("application/gzip", []byte(gzipOf(tarOf(f, "a.txt", "plain"))), uint64(11))
	f.Add("application/xhtml+xml", []byte("<!DOCTYPE a [<?x ' ?><!ATTLIST a b CDATA 'x'><!ENTITY c '<b>po</b>&#38;rn'>]><a xmlns='y'><style>&c;<![CDATA[a::b{content:'x'}]]></style><script>z</script>&c;</a>"), uint64(12))
	f.Add("text/html", []byte("<ul style=\"list-style:'x\\\r\ny'\">po<template>x</template>rn<style>@import url(data:text/css,a{content:%27x%27});</style><iframe src=\"javascript:'x'\">"), uint64(13))
	f.Add("", []byte(rar5Of(0, "a.txt", "plain", "b.html", "<p>x")), uint64(14))
	f.Add("", []byte(rar4Of(0x30, 0x200, "x\x00\x04\x54\x3F\x40\x41z", "plain")), uint64(15))
	f.Add("message/rfc822", []byte("Subject: x\n\nbegin 644 a.txt\n$<&]R;@  \n`\nend\n"), uint64(16))
	f.Add("text/xml", []byte(`<a xmlns:x="http://www.w3.org/1999/XSL/Transform">po<x:value-of select="concat('r','n')"/><x:if test="1">y</x:if></a>`), uint64(17))
	for i, c := range styledWords() {
		f.Add(c.typ, []byte(c.in), uint64(100+i))
	}
	for i, c := range hiddenWords(f) {
		f.Add(c.typ, []byte(c.in), uint64(i))
	}
	f.Fuzz(func(t *testing.T, header string, p []byte, seed uint64) {
		var b Body
		b.Reset(Describe(header, ""), Limits{})
		b.Append(p)
		b.Finish()
		whole, err := b.Text()
		if err != nil {
			t.Fatal(err)
		}
		want, several := string(whole), len(b.readings) > 1
		b.Release()
		if several { // followers get all of them
			return
		}
		checkNormal(t, want)
		got, err := readIn(t, Describe(header, ""), p, Limits{}, rand.New(rand.NewPCG(seed, 0)))
		if got != want || err != nil {
			t.Fatalf("in pieces the text is %q, %v; in one piece %q", got, err, want)
		}
	})
}

func FuzzDecode(f *testing.F) {
	page := samplePage()[:3000]
	for _, c := range codings {
		f.Add(c.header, encodeAll(f, c.how, page), uint64(len(c.header)))
	}
	f.Fuzz(func(t *testing.T, header string, p []byte, seed uint64) {
		lim := Limits{Decoded: 1 << 20}
		var b, c Body
		b.Reset(Describe("text/html", header), lim)
		b.Append(p)
		b.Finish()
		want, err := b.Decoded()
		if int64(len(want)) > lim.Decoded {
			t.Fatalf("%d bytes were decoded, the limit is %d", len(want), lim.Decoded)
		}
		c.Reset(Describe("text/html", header), lim)
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
		checkNormal(t, string(text))
		b.Release()
		c.Release()
	})
}

func FuzzToUTF8(f *testing.F) {
	f.Add("koi8-r", []byte("\xf0\xd2"))
	f.Add("gb18030", []byte("\x81\x30\x81"))
	f.Fuzz(func(t *testing.T, label string, p []byte) {
		q, err := ToUTF8(p, label)
		if err == nil && !utf8.Valid(q) {
			t.Fatalf("ToUTF8 returned %q, which is not UTF-8", q)
		}
		n := Normalise(nil, q)
		if bytes.Contains(n, []byte("  ")) || !utf8.Valid(n) {
			t.Fatalf("Normalise returned two blanks in a row or no UTF-8: %q", n)
		}
	})
}
