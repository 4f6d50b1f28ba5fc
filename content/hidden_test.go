package content_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// hiddenWords are bodies in which people see a word that is not written as one.
func hiddenWords(t testing.TB) []variant {
	html := "text/html; charset=utf-8"
	return []variant{
		{"json tags", "application/json", `{"a":"po<b>r</b>n"}`},
		{"json tags esc", "application/json", `{"a":"po\u003cb\u003er\u003c/b\u003en"}`},
		{"json tags slash", "application/json", `{"a":"po<b>r<\/b>n"}`},
		{"json entity", "application/json", `{"a":"p&#111;rn"}`},
		{"json script tags", html, `<script type="application/json">{"a":"po<b>r</b>n"}</script>`},
		{"vtt tags", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:10.000\npo<b>r</b>n\n"},
		{"vtt class", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:10.000\npo<c.red>rn</c>\n"},
		{"vtt timestamp", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:10.000\npo<00:00:05.000>rn\n"},
		{"vtt entity", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:10.000\np&#111;rn\n"},
		{"vtt shy", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:10.000\npo&lrm;rn\n"},
		{"srt tags", "application/x-subrip", "1\n00:00:00,000 --> 00:00:10,000\npo<i>rn</i>\n"},
		{"rlo", html, "<p>\u202enrop\u202c</p>"},
		{"rlo entity", html, "<p>&#x202e;nrop&#x202c;</p>"},
		{"rlo plain", "text/plain; charset=utf-8", "a \u202enrop\u202c b"},
		{"rlo json", "application/json", `{"a":"\u202enrop"}`},
		{"bdo", html, "<p><bdo dir=rtl>nrop</bdo></p>"},
		{"bdo quoted", html, "<p><bdo dir=\"rtl\">nrop</bdo></p>"},
		{"bdo inner", html, "<p><bdo dir=rtl>n<b>ro</b>p</bdo></p>"},
		{"zwsp", html, "po\u200brn"},
		{"zwnj", html, "po\u200crn"},
		{"zwj", html, "po\u200drn"},
		{"lrm", html, "po\u200ern"},
		{"rlm", html, "po\u200frn"},
		{"shy", html, "po\u00adrn"},
		{"shyent", html, "po&shy;rn"},
		{"zwspent", html, "po&ZeroWidthSpace;rn"},
		{"wj", html, "po\u2060rn"},
		{"bom", html, "po\ufeffrn"},
		{"lri", html, "po\u2066rn\u2069"},
		{"lre", html, "po\u202arn\u202c"},
		{"mvs", html, "po\u180ern"},
		{"tag", html, "po\U000e0061rn"},
		{"vs17", html, "po\U000e0100rn"},
		{"hangulfiller", html, "po\u3164rn"},
		{"invis times", html, "po\u2062rn"},
		{"alm", html, "po\u061crn"},
		{"nul", html, "po\x00rn"},
		{"braille blank none", html, "po\u206arn"},
		{"xlink title", html, "<svg><a xlink:title='porn' href=x><text>x</text></a></svg>"},
		{"xlink title svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'><a xlink:title='porn' xlink:href='x'><text>x</text></a></svg>"},
		{"xlink href", html, "<svg><image xlink:href=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><text>porn</text></svg>\"/></svg>"},
		{"svg title", html, "<svg><title>porn</title></svg>"},
		{"svg desc", html, "<svg><desc>x</desc><text>po<tspan>rn</tspan></text></svg>"},
		{"datalist option label", html, "<input list=a><datalist id=a><option label=porn value=1></datalist>"},
		{"datalist option value", html, "<input list=a><datalist id=a><option value=porn></datalist>"},
		{"datalist text", html, "<input list=a><datalist id=a><option>porn</option></datalist>"},
		{"xlsx sheet", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/workbook.xml", "<workbook><sheets><sheet name='porn' sheetId='1'/></sheets></workbook>")},
		{"xlsx defined", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/workbook.xml", "<workbook><definedNames><definedName name='porn'>x</definedName></definedNames></workbook>")},
		{"xlsx table col", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/workbook.xml", "<a/>", "xl/tables/table1.xml", "<table><tableColumns><tableColumn id='1' name='porn'/></tableColumns></table>")},
		{"xlsx shared split", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/sharedStrings.xml", "<sst><si><r><t>po</t></r><r><t>rn</t></r></si></sst>")},
		{"ods table name", "application/vnd.oasis.opendocument.spreadsheet", reading.ZIP(t, zip.Deflate, "", "", "content.xml", "<office:document><table:table table:name='porn'/></office:document>")},
		{"docx descr", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<w:document xmlns:w='x'><wp:docPr id='1' descr='porn'/></w:document>")},
		{"odt note", odt, reading.ZIP(t, zip.Deflate, "", "", "content.xml", "<a><text:p>po<text:s/>x</text:p><svg:title>porn</svg:title></a>")},
		{"rtf", "application/rtf", `{\rtf1\ansi porn}`},
		{"rtf split", "application/rtf", `{\rtf1\ansi po\b rn}`},
		{"rtf split group", "application/rtf", `{\rtf1\ansi po{\b rn}}`},
		{"rtf hex", "application/rtf", `{\rtf1\ansi p\'6frn}`},
		{"rtf u", "application/rtf", `{\rtf1\ansi p\u111?rn}`},
		{"rtf text", "text/rtf", `{\rtf1\ansi po\b rn}`},
		{"rtf doc", "application/msword", `{\rtf1\ansi po\b0\i rn}`},
		{"rtf line", "application/rtf", "{\\rtf1\\ansi po\r\nrn}"},
		{"rtf shy", "application/rtf", `{\rtf1\ansi po\-rn}`},
		{"mhtml nob", "multipart/related", "MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=a; type=text/html\r\n\r\n--a\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>po=\r\nrn\r\n--a--"},
		{"mhtml nob2", "multipart/related", "--a\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+cG9ybg==\r\n--a--"},
		{"json utf16 nobom", "application/json", reading.UTF16(`{"a":"porn"}`, false, false)},
		{"json utf16be nobom", "application/json", reading.UTF16(`{"a":"porn"}`, true, false)},
		{"json utf16 nobom ", "application/json", reading.UTF16(`["porn"]`, false, false)},
		{"xml utf16 nobom", "application/xml", reading.UTF16(`<a>porn</a>`, false, false)},
		{"title attr", html, "<p title=porn>x</p>"},
		{"placeholder", html, "<input placeholder=porn>"},
		{"textarea ph", html, "<textarea placeholder=porn></textarea>"},
		{"iframe title", html, "<iframe title=porn></iframe>"},
		{"abbr", html, "<abbr title=porn>x</abbr>"},
		{"aria desc", html, "<p aria-description=porn>x</p>"},
		{"summary", html, "<table summary=porn>x</table>"},
		{"details", html, "<details><summary>porn</summary></details>"},
		{"alt area", html, "<area alt=porn>"},
		{"isindex", html, "<isindex prompt=porn>"},
		{"popover", html, "<div popover>porn</div>"},
		{"frameset data", html, "<frameset><frame src='data:text/html,porn'></frameset>"},
		{"video poster", html, "<video poster=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><text>porn</text></svg>\">"},
		{"css bg svg", html, "<p style=\"background:url('data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22><text>porn</text></svg>')\">"},
		{"ncr leading zeros", html, "p&#0000000111;rn"},
		{"ncr nosemi", html, "p&#111rn"},
		{"fullwidth", html, "ｐｏｒｎ"},
		{"math bold", html, "𝐩𝐨𝐫𝐧"},
		{"circled", html, "ⓟⓞⓡⓝ"},
		{"superscript", html, "ᵖᵒʳⁿ"},
		{"squared", html, "🄿🄾🅁🄽"},
		{"neg squared", html, "🅿🅾🆁🅽"},
		{"zalgo", html, "p\u0335o\u0336r\u0337n\u0338"},
		{"keycap", html, "p\u20e3o\u20e3r\u20e3n\u20e3"},
		{"comment split", html, "po<!-- -->rn"},
		{"pi split", html, "po<?x?>rn"},
		{"endtag junk", html, "po</>rn"},
		{"endtag 2", html, "po</ x>rn"},
		{"bogus bang", html, "po<!x>rn"},
		{"custom elem", html, "po<x-y>rn</x-y>"},
		{"font", html, "po<font size=2>r</font>n"},
		{"script between", html, "po<script>xx</script>rn"},
		{"style between", html, "po<style>xx</style>rn"},
		{"template between", html, "po<template>xx</template>rn"},
		{"noscript between", html, "po<noscript>xx</noscript>rn"},
		{"empty iframe between", html, "po<iframe hidden></iframe>rn"},
		{"input hidden between", html, "po<input type=hidden>rn"},
		{"select", html, "<select><option>po&#114;n</select>"},
		{"button formaction", html, "<button>po<i>rn</i></button>"},
		{"br css", html, "<ul><li>porn</ul>"},
		{"atom html", "application/atom+xml", "<feed xmlns='http://www.w3.org/2005/Atom'><entry><content type='html'>po&lt;b&gt;rn&lt;/b&gt;</content></entry></feed>"},
		{"rss cdata", "application/rss+xml", "<rss><channel><item><description><![CDATA[po<b>rn</b>]]></description></item></channel></rss>"},
		{"rss dbl entity", "application/rss+xml", "<rss><channel><item><description>p&amp;#111;rn</description></item></channel></rss>"},
		{"yenc", "message/rfc822", "Subject: x\r\n\r\nporn"},
		{"binhex none", "message/rfc822", "Content-Type: text/enriched\r\n\r\npo<bold>rn</bold>\r\n"},
		{"graphql multi", "multipart/mixed; boundary=\"-\"", "---\r\nContent-Type: application/json\r\n\r\n{\"a\":\"porn\"}\r\n-----\r\n"},
		{"gz tar", "application/gzip", string(reading.Gzip("<html><p>porn"))},
		{"cbor", "application/cbor", "\xa1aadporn"},
		{"ld json html", html, "<script type='application/ld+json'>{\"a\":\"po&#114;n\"}</script>"},
		{"tsv", "text/tab-separated-values", "a\tporn\n"},
		{"postscript", "application/postscript", "%!PS\n(porn) show"},
		{"latin1 c1", "text/html", "p\x8frn porn"},
		{"ebcdic", "text/html; charset=ibm037", "porn"},
		{"x-user-defined", "text/html; charset=x-user-defined", "porn"},
		{"iso2022jp esc", "text/html; charset=iso-2022-jp", "po\x1b(Brn"},
		{"shift_jis fullwidth", "text/html; charset=shift_jis", "\x82\x90\x82\x8f\x82\x92\x82\x8e"},
		{"gb18030 math", "text/html; charset=gb18030", "p\x81\x30\x84\x30rn porn"},
		{"comment in a string", html, `<script type="application/json">{"a":"x<!--","b":"porn"}</script>`},
		{"script in a comment in a string", html, `<script type="application/json">{"a":"<!--<script>porn"}</script>`},
		{"mhtml of another boundary", "multipart/related; boundary=zz", "MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=a\r\n\r\n--a\r\nContent-Type: text/html\r\n\r\n<p>porn\r\n--a--"},
		{"track of any type", "text/plain", "WEBVTT\n\n00:00.000 --> 00:10.000\npo<b>r</b>n\n"},
		{"tag after a sign", "application/json", `{"a":"1 < 2, po<b>rn"}`},
		{"sign within a tag", "application/json", `{"a":"po<b title='<'>rn"}`},
		{"override of a phrase", html, "<p>xx \u202eno nrop\u202c</p>"},
		{"override within a word", html, "<p>po\u202enr\u202c</p>"},
		{"override with an embedding", html, "<p>\u202en\u202a\u202crop\u202c</p>"},
		{"override elsewhere", html, "<p><bdi>\u202e</bdi>porn</p>"},
		{"override that does not end", "text/plain; charset=utf-8", "\u202e" + strings.Repeat("words ", 1000) + "nrop " + strings.Repeat("words ", 1000)},
		{"bdo in bdo", html, "<bdo dir=rtl>n<bdo dir=rtl>ro</bdo>p</bdo>"},
		{"title of XLink", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' xmlns:l='http://www.w3.org/1999/xlink'><a l:title='porn'/></svg>"},
		{"rtf code page", "application/rtf", `{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}p\'6frn}`},
		{"rtf several for one", "application/rtf", `{\rtf1\ansi\uc2 po\u114\'3f\'3fn}`},
		{"rtf ignored within a word", "application/rtf", `{\rtf1\ansi po{\*\bkmkstart}rn}`},
		{"rtf bytes", "application/rtf", "{\\rtf1\\ansi {\\pict\\bin3 }}\\'}porn}"},
	}
}

// TestHiddenWordsAreRead: a word is read however it is split, turned or encoded, in one piece
// and byte by byte.
func TestHiddenWordsAreRead(t *testing.T) {
	for _, c := range hiddenWords(t) {
		var whole []byte
		for _, step := range []int{len(c.In), 1} {
			var b content.Body
			h := content.Describe(c.Typ, "")
			h.SetUse(content.Document)
			b.Reset(h, content.Limits{})
			for in := []byte(c.In); len(in) > 0; in = in[step:] {
				step = min(step, len(in))
				b.Append(in[:step])
				if _, err := b.Text(); err != nil {
					t.Errorf("%s: Text returned the error %v", c.Name, err)
				}
			}
			b.Finish()
			got, err := b.Text()
			switch {
			case !bytes.Contains(got, []byte("porn")):
				t.Errorf("%s in pieces of %d: the text is %.90q, %v, unread %q", c.Name, step, got, err, b.Unread())
			case whole == nil:
				whole = bytes.Clone(got)
			case !bytes.Equal(got, whole):
				t.Errorf("%s: the text is %.90q in one piece, %.90q byte by byte", c.Name, whole, got)
			}
			b.Release()
		}
	}
}

const (
	docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	odt  = "application/vnd.oasis.opendocument.text"
)

// A variant is a way in which a body shows a word.
type variant struct{ Name, Typ, In string }
