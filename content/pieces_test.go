package content_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/race"
)

// textBy returns the text of a body that arrives in pieces of n bytes, which are forgotten
// meanwhile.
func textBy(h *content.Head, p string, n int) string {
	var b content.Body
	b.Reset(h, content.Limits{})
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
		h := content.Describe("application/json", "")
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
		whole := textBy(content.Describe("text/plain", ""), in, len(in))
		if !strings.Contains(whole, " porn ") {
			t.Errorf("the text of %.40s is %.200q", text, whole)
		}
		for _, n := range []int{7, 1000, 4096, 5000} {
			if got := textBy(content.Describe("text/plain", ""), in, n); got != whole {
				t.Errorf("the text of %.40s in pieces of %d differs", text, n)
			}
		}
	}
	if got := textBy(content.Describe("text/plain", ""), "supercalifragilistic expialidocious", 100); got != " supercalifragilistic expialidocious " {
		t.Errorf("the text is %q", got)
	}
}

func TestBytesOfUnknownFormatsAreReadWhereTheyHoldWords(t *testing.T) {
	noise := strings.Repeat("\x00\x81\x12\xfe\x03\xc7", 100)
	for _, c := range []struct {
		typ, in string
		use     content.Use
		want    bool
	}{
		{"application/octet-stream", "\x01\x00\x05hello porn\x00\xff", content.Program, true},
		{"application/x-thing", "\x01\x00\x05hello porn\x00\xff", content.Unsaid, true},
		{"video/mp4", "hello porn", content.Program, true},
		{"image/png", "hello porn", content.Unsaid, true},
		{"image/png", "hello porn", content.Embedded, false},
		{"application/octet-stream", "hello porn", content.Embedded, false},
		{"application/octet-stream", noise + " porn " + noise + noise, content.Program, false},
		{"text/javascript", "hello porn", content.Program, true},
		{"text/javascript", "hello porn", content.Unsaid, true},
		{"text/javascript", "var porn = {}; f(porn);", content.Unsaid, false},
		{"text/javascript", "/* a comment of some length about porn */", content.Unsaid, false},
		{"video/mp4", "\x00\x00\x00\x18ftypmp42" + "hello porn", content.Program, false},
	} {
		h := content.Describe(c.typ, "")
		h.SetUse(c.use)
		var b content.Body
		b.Reset(h, content.Limits{})
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
		use     content.Use
		want    bool
	}{
		{"text/plain", `{"a":"\u0070orn"}`, content.Program, true},
		{"text/html", " [\"\\u0070orn\"]", content.Unsaid, true},
		{"text/plain", `"\u0070orn"`, content.Program, true},
		{"text/javascript", `{"a":"\u0070orn"}`, content.Unsaid, true},
		{"text/javascript", `cb({"a":"\u0070orn"})`, content.Unsaid, true},
		{"text/javascript", `/**/ typeof cb === 'function' && cb(["\u0070orn"]);`, content.Unsaid, true},
		{"text/javascript", `window.cb1&&window["cb1"]("\u0070orn")`, content.Unsaid, true},
		{"text/javascript", `(function(){"porn"})()`, content.Unsaid, false},
		{"text/javascript", `define("porn",["a"],function(){})`, content.Unsaid, false},
		{"text/javascript", `webpackJsonp([1],{2:"porn"})`, content.Unsaid, false},
		{"application/json", `[112,111,114,110]`, content.Program, true},
		{"application/json", `{"a":[ 104, 101,108, 108,111,32, 112,111,114,110 ],"b":[1,2]}`, content.Program, true},
		{"application/json", `{"0":112,"1":111,"2":114,"3":110}`, content.Program, true},
		{"application/json", `[112,111,"x",114,110]`, content.Program, false},
		{"application/json", `[112,111.5,114,110]`, content.Program, false},
		{"application/json", `[112,111,114,110,1,2,3,4]`, content.Program, false},
		{"application/json", `[112,-111,114,110]`, content.Program, false},
		{"text/plain", `{"a":"\u0070orn"}`, content.Document, false},
		{"text/plain", `{a plain text of \u0070orn}`, content.Program, false},
		{"text/plain", "a=b&c=%70orn", content.Program, true},
		{"text/plain", "a=b and c=%70orn", content.Program, false},
		{"text/plain", "po<b>rn</b>", content.Program, true},
		{"text/plain", "po<b>rn</b>", content.Document, false},
		{"text/plain", "po&#114;n", content.Program, true},
		{"text/csv", "a,porn", content.Program, true},
		{"text/html", "<p>{\"po<b>rn</b>\"}", content.Program, true},
	} {
		h := content.Describe(c.typ, "")
		h.SetUse(c.use)
		if got := textBy(h, c.in, len(c.in)); strings.Contains(got, " porn ") != c.want {
			t.Errorf("the text of %s %q, use %d, is %q, want the word in it: %v", c.typ, c.in, c.use, got, c.want)
		}
	}
}
