package media

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestRandomBytesAreNoWords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := make([]byte, 32+r.IntN(2000))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if wordy(p) {
			t.Fatalf("random bytes were recognised as words: % x", p)
		}
	}
}

func TestTypesSayHowTextIsFound(t *testing.T) {
	for typ, want := range map[string]Format{
		"text/html": HTML, "image/svg+xml": XML, "text/xml": XML, "application/vnd.oasis.opendocument.text-flat-xml": XML,
		"application/json": JSON, "application/ld+json": JSON, "application/x-www-form-urlencoded": Form, "text/css": CSS, "text/ecmascript": Script,
		"text/rtf": RTF, "application/pdf": PDF, "application/epub+zip": Archive, "application/zip": Members, "application/cbor": CBOR,
		"message/rfc822": MIME, "multipart/mixed": MIME, "text/plain": Plain, "application/bson": Plain, "image/png": None, "application/wasm": None, "application/x": Unread,
	} {
		if got := FormatOf(typ); got != want {
			t.Errorf("%s is read in format %d, want %d", typ, got, want)
		}
	}
	for v, want := range map[string]string{"Text/HTML": "text/html", "image/png": "image/png", "unknown/unknown": "", "Application/Unknown": "", "text/X": "text/x"} {
		if got := Type([]byte(v)); got != want {
			t.Errorf("the type %s is %q, want %q", v, got, want)
		}
	}
}

func TestFirstBytesShowTheType(t *testing.T) {
	for p, want := range map[string]string{
		"\xEF\xBB\xBF <!DOCTYPE html>": "text/html", "<?xml version='1.0'?>": "text/xml", "<x": "text/plain", "%PDF-1.4": "application/pdf", "GIF89a": "image/gif",
		"BM words": "text/plain", "BM\x00\x01": "image/bmp", "RIFF\x00\x00\x00\x00WEBPVP8 ": "image/webp", "RIFF\x00\x00\x00\x00WAVEfmt ": "audio/wav", "\x00\x00\x00\x18ftypmp42": "video/mp4",
		"\x00\x01": "application/octet-stream", "words": "text/plain", "": "text/plain",
	} {
		if got := Sniff([]byte(p)); got != want {
			t.Errorf("%q looks like %s, want %s", p, got, want)
		}
	}
	for p, want := range map[string]Format{"several words here": Plain, "h\x00e\x00l\x00l\x00o\x00 \x00y\x00": Plain, "\x1F\x8B\x08\x00\x00": Members, "\x01\x02\x03\x04": None} {
		if got := Unlabelled([]byte(p)); got != want {
			t.Errorf("unlabelled, %q is read in format %d, want %d", p, got, want)
		}
	}
}

func TestProgramsTakeTextForWhatItIs(t *testing.T) {
	for _, c := range []struct {
		p    string
		how  Format
		want Format
	}{
		{`{"a":1}`, Plain, JSON}, {`while(1);[1]`, Plain, JSON}, {"\"\\u0041\"", HTML, JSON}, {"event: x\ndata: {\"a\":1}\n", Plain, JSON}, {"0:\"words\"\n", Plain, JSON},
		{"a=1%20b&c=d", Plain, Form}, {"a=1%20b", HTML, HTML}, {"<p>words", HTML, HTML}, {"words = words", Plain, Plain}, {"{a}", Plain, Plain}, {`{"a":1}`, XML, XML},
	} {
		if got := ProgramFormat(c.how, []byte(c.p)); got != c.want {
			t.Errorf("%q is read in format %d, want %d", c.p, got, c.want)
		}
	}
	for p, want := range map[string]bool{`f({"a":1})`: true, `/**/ a.b([{"c":1}])`: true, `f("words")`: true, `f(1)`: false, "function(a){": false, `"use strict"; if(a){"b"}`: false} {
		if got := IsCallback([]byte(p)); got != want {
			t.Errorf("%s is a callback: %v, want %v", p, got, want)
		}
	}
	for p, want := range map[string]bool{"// words": true, "a{b:c;}(d);": true, "words about nothing": false, `{"a":{}}`: false} {
		if got := IsCode([]byte(p)); got != want {
			t.Errorf("%s is code: %v, want %v", p, got, want)
		}
	}
	if !IsSubtitles("text/vtt", nil) || !IsSubtitles("", []byte("\xEF\xBB\xBFWEBVTT")) || IsSubtitles("text/plain", []byte("words")) {
		t.Error("subtitles are not recognised by their type or first letters")
	}
	if !IsRTF([]byte(" {\\rtf1")) || IsRTF([]byte("words")) {
		t.Error("RTF is not recognised")
	}
}

// TestBytesThatAreNoText: WHATWG MIME Sniffing section 3 names the bytes; each is found at every place
// of texts of every length, and a byte order mark makes a text of anything.
func TestBytesThatAreNoText(t *testing.T) {
	binary := map[byte]bool{0x0B: true}
	for _, r := range [][2]byte{{0x00, 0x08}, {0x0E, 0x1A}, {0x1C, 0x1F}} {
		for c := r[0]; c <= r[1]; c++ {
			binary[c] = true
		}
	}
	for c := range 256 {
		for length := 1; length <= 24; length++ {
			for at := range length {
				for _, around := range []string{"a", "\n", "\x1b", "\x80", " "} {
					p := []byte(strings.Repeat(around, length))
					p[at] = byte(c)
					if got := IsBinary(p); got != binary[byte(c)] {
						t.Fatalf("%q: %v, want %v", p, got, binary[byte(c)])
					}
				}
			}
		}
	}
	for text, want := range map[string]bool{"": false, "\xef\xbb\xbf\x00": false, "\xfe\xff\x00a": false, "a\xef\xbb\xbf\x00": true} {
		if got := IsBinary([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
