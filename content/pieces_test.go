package content

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding"

	"shuultuur/content/charset"
	"shuultuur/test/race"
)

// textBy returns the text of a body that arrives in pieces of n bytes, which are forgotten
// meanwhile.
func textBy(h *Head, p string, n int) string {
	var b Body
	b.Reset(h, Limits{})
	defer b.Release()
	b.Text()
	for len(p) > n {
		b.Append([]byte(p[:n]))
		b.Text()
		p = p[n:]
	}
	b.Append([]byte(p))
	b.Finish()
	text, _ := b.Text()
	return string(text)
}

func TestStringsOfJSONAreReadAsProgramsJoinThem(t *testing.T) {
	race.Without(t)
	coded := base64.StdEncoding.EncodeToString([]byte("<p>po<b>r</b>n"))
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("innocent words ", 900) + "porn"))
	for _, c := range []struct {
		in   string
		want bool
	}{
		{`[{"a":"this is po"},{"a":"rn, you know"}]`, true},
		{`{"choices":[{"text":" so po"}]}` + "\n" + `{"choices":[{"text":"rn"}]}`, true},
		{`[" it"," is"," p","o","rn"]`, true},
		{`["p","o","rn"," it is"]`, true},
		{`[["a b po",1],["rn",2]]`, true},
		{`[{"a":"this is po","b":1},{"b":2,"a":"rn"}]`, true},
		{`[{"a":"this is p\u006f"},{"a":"\u0072n"}]`, true},
		{`[{"a":"this is po"},{"b":"rn"}]`, false},
		{`[{"a":"this is po "},{"a":"rn"}]`, false},
		{`["po","rn"]`, false},
		{`["the po","Rn is"]`, false},
		{`{"content":"` + coded + `"}`, true},
		{`{"content":"` + strings.ReplaceAll(coded, "/", `\/`) + `"}`, true},
		{`{"content":"` + long + `"}`, true},
		{`{"content":"` + long[:700] + `\n` + long[700:] + `"}`, true},
		{`{"` + long + `":1}`, false},
	} {
		h := Describe("application/json", "")
		whole := textBy(h, c.in, len(c.in))
		if got := strings.Contains(whole, " porn "); got != c.want {
			t.Errorf("the text of %.80s is %.200q, want the word in it: %v", c.in, whole, c.want)
		}
		for n := 1; n < min(len(c.in), 60); n += 1 + n/9 {
			if got := textBy(h, c.in, n); got != whole {
				t.Errorf("%.40s in pieces of %d: the text is %.60q, want %.60q", c.in, n, got, whole)
			}
		}
	}
}

func TestBase64IsReadWhereABodyIsNothingElse(t *testing.T) {
	for _, text := range []string{"so this is porn", strings.Repeat("many innocent words ", 5000) + "porn", "<p>po<b>r</b>n and more of it"} {
		in := base64.StdEncoding.EncodeToString([]byte(text))
		whole := textBy(Describe("text/plain", ""), in, len(in))
		if !strings.Contains(whole, " porn ") {
			t.Errorf("the text of %.40s is %.200q", text, whole)
		}
		for _, n := range []int{7, 1000, 4096, 5000} {
			if got := textBy(Describe("text/plain", ""), in, n); got != whole {
				t.Errorf("the text of %.40s in pieces of %d differs", text, n)
			}
		}
	}
	if got := textBy(Describe("text/plain", ""), "supercalifragilistic expialidocious", 100); got != " supercalifragilistic expialidocious " {
		t.Errorf("the text is %q", got)
	}
}

func TestUTF16IsDistinguishedFromOtherBytes(t *testing.T) {
	encoded := func(s string, big bool) []byte {
		var b []byte
		for _, u := range utf16.Encode([]rune(s)) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		return b
	}
	for _, s := range []string{"plain words", "мамлакатимизда, шаҳарлар", "这是一个关于我们国家的故事,大家都知道", "これは日本語の文章です", "한국어로 쓴 글입니다", "مرحبا بالعالم كله", "Ελληνικά κείμενα"} {
		if got := detectUTF16(encoded(s, false)); got != charset.UTF16LE {
			t.Errorf("%s, low byte first, was recognised as %v", s, got)
		}
		if got := detectUTF16(encoded(s, true)); got != charset.UTF16BE {
			t.Errorf("%s, high byte first, was recognised as %v", s, got)
		}
		if got := detectUTF16([]byte(s)); got != encoding.Encoding(nil) {
			t.Errorf("%s in UTF-8 was recognised as %v", s, got)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := make([]byte, 32+r.IntN(2000))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if detectUTF16(p) != nil || wordy(p) {
			t.Fatalf("random bytes were recognised as UTF-16, or as words: % x", p)
		}
	}
}

func TestBytesOfUnknownFormatsAreReadWhereTheyHoldWords(t *testing.T) {
	noise := strings.Repeat("\x00\x81\x12\xfe\x03\xc7", 100)
	for _, c := range []struct {
		typ, in string
		use     Use
		want    bool
	}{
		{"application/octet-stream", "\x01\x00\x05hello porn\x00\xff", Program, true},
		{"application/x-thing", "\x01\x00\x05hello porn\x00\xff", Unsaid, true},
		{"video/mp4", "hello porn", Program, true},
		{"image/png", "hello porn", Unsaid, true},
		{"image/png", "hello porn", Embedded, false},
		{"application/octet-stream", "hello porn", Embedded, false},
		{"application/octet-stream", noise + " porn " + noise + noise, Program, false},
		{"text/javascript", "hello porn", Program, true},
		{"text/javascript", "hello porn", Unsaid, true},
		{"text/javascript", "var porn = {}; f(porn);", Unsaid, false},
		{"text/javascript", "/* a comment of some length about porn */", Unsaid, false},
		{"video/mp4", "\x00\x00\x00\x18ftypmp42" + "hello porn", Program, false},
	} {
		h := Describe(c.typ, "")
		h.SetUse(c.use)
		var b Body
		b.Reset(h, Limits{})
		b.Append([]byte(c.in))
		b.Finish()
		text := " "
		if h.Readable() {
			p, _ := b.Text()
			text = string(p)
			if b.NothingToRead() == c.want {
				t.Errorf("%s, use %d: NothingToRead returned %v", c.typ, c.use, b.NothingToRead())
			}
		}
		if got := strings.Contains(text, " porn "); got != c.want {
			t.Errorf("the text of %s %q, use %d, is %q, want the word in it: %v", c.typ, fmt.Sprintf("%.20s", c.in), c.use, text, c.want)
		}
		b.Release()
	}
}

func TestTextIsReadAsAProgramTakesIt(t *testing.T) {
	for _, c := range []struct {
		typ, in string
		use     Use
		want    bool
	}{
		{"text/plain", `{"a":"\u0070orn"}`, Program, true},
		{"text/html", " [\"\\u0070orn\"]", Unsaid, true},
		{"text/plain", `"\u0070orn"`, Program, true},
		{"text/javascript", `{"a":"\u0070orn"}`, Unsaid, true},
		{"text/javascript", `cb({"a":"\u0070orn"})`, Unsaid, true},
		{"text/javascript", `/**/ typeof cb === 'function' && cb(["\u0070orn"]);`, Unsaid, true},
		{"text/javascript", `window.cb1&&window["cb1"]("\u0070orn")`, Unsaid, true},
		{"text/javascript", `(function(){"porn"})()`, Unsaid, false},
		{"text/javascript", `define("porn",["a"],function(){})`, Unsaid, false},
		{"text/javascript", `webpackJsonp([1],{2:"porn"})`, Unsaid, false},
		{"application/json", `[112,111,114,110]`, Program, true},
		{"application/json", `{"a":[ 104, 101,108, 108,111,32, 112,111,114,110 ],"b":[1,2]}`, Program, true},
		{"application/json", `{"0":112,"1":111,"2":114,"3":110}`, Program, true},
		{"application/json", `[112,111,"x",114,110]`, Program, false},
		{"application/json", `[112,111.5,114,110]`, Program, false},
		{"application/json", `[112,111,114,110,1,2,3,4]`, Program, false},
		{"application/json", `[112,-111,114,110]`, Program, false},
		{"text/plain", `{"a":"\u0070orn"}`, Document, false},
		{"text/plain", `{a plain text of \u0070orn}`, Program, false},
		{"text/plain", "a=b&c=%70orn", Program, true},
		{"text/plain", "a=b and c=%70orn", Program, false},
		{"text/plain", "po<b>rn</b>", Program, true},
		{"text/plain", "po<b>rn</b>", Document, false},
		{"text/plain", "po&#114;n", Program, true},
		{"text/csv", "a,porn", Program, true},
		{"text/html", "<p>{\"po<b>rn</b>\"}", Program, true},
	} {
		h := Describe(c.typ, "")
		h.SetUse(c.use)
		if got := textBy(h, c.in, len(c.in)); strings.Contains(got, " porn ") != c.want {
			t.Errorf("the text of %s %q, use %d, is %q, want the word in it: %v", c.typ, c.in, c.use, got, c.want)
		}
	}
}
