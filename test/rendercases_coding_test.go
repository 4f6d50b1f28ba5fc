package test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// statusCases returns answers other than 200: browsers show the body of most,
// and of a redirect without target.
func statusCases(*testing.T) (all []renderCase) {
	body := []byte("<p>porn</p>")
	for _, status := range []string{
		"203 x", "206 Partial Content", "226 x", "299 x", "300 x", "301 x", "302 Found", "303 x", "305 x", "307 x", "308 x", "399 x",
		"400 x", "403 x", "404 Not Found", "405 x", "410 x", "416 x", "418 x", "429 x", "451 x", "499 x", "500 x", "502 x", "503 x", "599 x", "600 x", "999 x",
	} {
		all = append(all, renderCase{name: "status " + status, head: ":status " + status + "\n" + htmlHead, body: body, word: "porn"})
	}
	for _, c := range []struct{ status, head string }{
		{"206 x", htmlHead + "\nContent-Range: bytes 0-10/11"}, {"206 x", htmlHead + "\nContent-Range: bytes 0-10/99"}, {"206 x", htmlHead + "\nContent-Range: bytes 5-15/99"},
		{"206 x", "Content-Range: bytes 0-10/11"}, {"200 OK", htmlHead + "\nContent-Range: bytes 5-15/99"}, {"206 x", "Content-Type: text/plain\nContent-Range: none"},
		{"302 x", htmlHead + "\nLocation:"}, {"302 x", htmlHead + "\nLocation: #x"}, {"302 x", htmlHead + "\nLocation: http://"}, {"201 x", htmlHead + "\nLocation: /other"},
		{"401 x", htmlHead + "\nWWW-Authenticate: Foo"}, {"407 x", htmlHead}, {"200", htmlHead}, {"200 OK", htmlHead + "\nContent-Disposition: inline"},
		{"200 OK", htmlHead + "\nContent-Disposition: inline; filename=x.zip"}, {"200 OK", htmlHead + "\nContent-Disposition: foo"}, {"200 OK", htmlHead + "\nContent-Disposition: filename=x.exe"},
		{"200 OK", htmlHead + "\nContent-Length: 11"}, {"200 OK", htmlHead + "\nContent-Length: 11\nContent-Length: 11"}, {"200 OK", htmlHead + "\nContent-Length: 11, 11"},
		{"200 OK", htmlHead + "\nContent-Length: 99"}, {"200 OK", htmlHead + "\nContent-Length: x"}, {"200 OK", htmlHead + "\nContent-Length: +11"},
		{"200 OK", htmlHead + "\nX-Frame-Options: foo"}, {"200 OK", htmlHead + "\nContent-Security-Policy: sandbox"}, {"200 OK", htmlHead + "\nContent-Security-Policy: default-src 'none'"},
		{"200 OK", htmlHead + "\nTransfer-Encoding: identity"}, {"200 OK", htmlHead + "\nTransfer-Encoding: foo"}, {"200 OK", htmlHead + "\nTransfer-Encoding: gzip"},
		{"200 OK", htmlHead + "\nContent-Language: xx\nContent-MD5: x\nContent-Location: /x.png"}, {"200 OK", htmlHead + "\nContent-Encoding"}, {"200 OK", "Content-Type"}, {"200 OK", ": x\n" + htmlHead},
		{"200 OK", "Content-Type: text/html\nContent-Type"}, {"200 OK", "Content-Type\t: text/html"}, {"200 OK", "Content-Type:\x00text/html"}, {"200 OK", "Content-Type: text/html\x00"},
		{"200 OK", "Content-Type: text/html\x00image/png"}, {"200 OK", "X: 1\r\r\nContent-Type: text/html"}, {"200 OK", "\tContent-Type: image/png\nX: y"},
	} {
		all = append(all, renderCase{name: fmt.Sprintf("status %s %q", c.status, c.head), head: ":status " + c.status + "\n" + c.head, body: body, word: "porn"})
	}
	for _, c := range []struct{ head, body string }{
		{"chunked", "b\r\n<p>porn</p>\r\n0\r\n\r\n"}, {"Chunked", "b;x=y\r\n<p>porn</p>\r\n0\r\nX: y\r\n\r\n"}, {"chunked", "5\r\n<p>po\r\n6\r\nrn</p>\r\n0\r\n\r\n"},
		{"chunked", "b\n<p>porn</p>\n0\n\n"}, {"chunked", "b \r\n<p>porn</p>\r\n0\r\n\r\n"}, {"chunked", "000b\r\n<p>porn</p>\r\n"}, {"chunked, chunked", "b\r\n<p>porn</p>\r\n0\r\n\r\n"}, {"chunked\nContent-Length: 3", "b\r\n<p>porn</p>\r\n0\r\n\r\n"},
		{" chunked", "b\r\n<p>porn</p>\r\n0\r\n\r\n"}, {"identity, chunked", "b\r\n<p>porn</p>\r\n0\r\n\r\n"}, {"chunked;x", "b\r\n<p>porn</p>\r\n0\r\n\r\n"}, {"x\nTransfer-Encoding: chunked", "b\r\n<p>porn</p>\r\n0\r\n\r\n"},
	} {
		all = append(all, renderCase{name: fmt.Sprintf("transfer %q %q", c.head, c.body), head: htmlHead + "\nTransfer-Encoding: " + c.head, body: []byte(c.body), word: "porn"})
	}
	return all
}

// moreCodingCases returns codings that are truncated, mixed, empty or nested.
func moreCodingCases(*testing.T) (all []renderCase) {
	page := []byte("<p>porn</p>" + strings.Repeat("<!-- filling -->", 3))
	add := func(head string, body []byte) {
		all = append(all, renderCase{name: fmt.Sprintf("coding %q of %.8x (%d)", head, body, len(body)), head: head, body: body, word: "porn"})
	}
	coded := func(v string, body []byte) { add(htmlHead+"\nContent-Encoding: "+v, body) }
	join := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	gz, zs, br := gzipped(page), zstded(page), brotlied(page)
	empty := gzipped(nil)
	coded("gzip", join(empty, gz))
	coded("gzip", join(gzipped([]byte("<p>po")), gzipped([]byte("rn</p>"))))
	coded("gzip", join([]byte{0}, gz))
	coded("gzip", join([]byte("\r\n"), gz))
	coded("gzip", join(gz, make([]byte, 64), gz))
	coded("gzip", page)
	coded("gzip, gzip", gz)
	coded("gzip, gzip", page)
	coded("br, br", brotlied(br))
	coded("zstd, zstd", zstded(zs))
	coded("zstd, gzip", gzipped(zs))
	coded("deflate, deflate", zlibbed(zlibbed(page)))
	coded("deflate, br, gzip, zstd", zstded(gzipped(brotlied(zlibbed(page)))))
	coded("gzip\nContent-Encoding: br", brotlied(gz))
	coded("br\nContent-Encoding: gzip", brotlied(gz))
	coded("gzip\nContent-Encoding: identity", gz)
	coded("\nContent-Encoding: gzip\nContent-Encoding:", gz)
	coded("gzip , , gzip", gzipped(gz))
	coded("gzip\t", gz)
	coded("\"\", gzip", gz)
	coded("gzip\x0b", gz)
	coded("gz", gz)
	coded("x-br", br)
	coded("brotli", br)
	coded("zst", zs)
	coded("x-zstd", zs)
	coded("pack200-gzip", gz)
	coded("deflate-raw", deflated(page))
	coded("deflate", join(zlibbed(nil), zlibbed(page)))
	coded("deflate", join([]byte{0x78, 0xBB, 0, 0, 0, 1}, deflated(page)))
	coded("deflate", join([]byte{0x58, 0x09}, deflated(page)))
	coded("deflate", join([]byte{0x78, 0x01}, deflated(page)))
	coded("zstd", zs[:len(zs)-1])
	coded("zstd", join([]byte("\x51\x2A\x4D\x18\x00\x00\x00\x00"), zs))
	coded("zstd", join(zs, []byte("\x50\x2A\x4D\x18\x04\x00\x00\x00abcd"), zs))
	coded("gzip", append(gz[:3:3], append([]byte{0x08}, gz[4:]...)...))
	big := append(append([]byte("<p>"), []byte(strings.Repeat("<i></i>", 400<<10/7))...), page...)
	for _, v := range []struct {
		name string
		body []byte
	}{{"gzip", gzipped(big)}, {"br", brotlied(big)}, {"zstd", zstded(big)}, {"deflate", zlibbed(big)}} {
		coded(v.name, v.body)
		coded(v.name, v.body[:len(v.body)-3])
	}
	for _, typ := range []string{"text/plain", "application/json", "image/svg+xml", "application/xml", "*/*", "application/octet-stream", "application/gzip", "application/x-gzip"} {
		body := page
		if typ == "image/svg+xml" {
			body = []byte("<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>")
		} else if typ == "application/xml" {
			body = []byte("<a>porn</a>")
		}
		add("Content-Type: "+typ+"\nContent-Encoding: gzip", gzipped(body))
		add("Content-Type: "+typ+"\nContent-Encoding: x-gzip, br", brotlied(gzipped(body)))
	}
	return all
}

// moreCharsetCases returns cases with misleading names of charsets, and misleading bytes.
func moreCharsetCases(t *testing.T) (all []renderCase) {
	add := func(name, head string, body []byte, word string) {
		all = append(all, renderCase{name: "charset " + name, head: head, body: body, word: word})
	}
	word := "Ябл"
	for _, label := range []string{"windows-1251", "koi8-r", "koi8-u", "ibm866", "iso-8859-5", "x-mac-cyrillic", "x-mac-ukrainian", "gb18030", "shift_jis", "euc-jp", "iso-2022-jp", "utf-16le", "utf-16be"} {
		p := encoded(t, label, "<p>x "+word+" </p>")
		for _, line := range []string{htmlHead + "; charset=" + label, htmlHead + "; charset=" + strings.ToUpper(label), "Content-Type: text/plain; charset=" + label, "Content-Type: application/json; charset=" + label, "Content-Type: text/css; charset=" + label} {
			add(label+" "+line, line, p, word)
		}
		if !strings.HasPrefix(label, "utf-16") {
			add(label+" by meta", htmlHead, append([]byte("<meta charset="+label+">"), p...), word)
			add(label+" in a data URL", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset="+label+","+url.PathEscape(string(p))+"'></iframe>"), word)
		}
		add(label+" in a data URL in base64", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset="+label+";base64,"+base64.StdEncoding.EncodeToString(p)+"'></iframe>"), word)
	}
	for _, alias := range []string{"cp1251", "x-cp1251", "CP1251", " windows-1251 ", "win1251", "windows1251", "windows_1251", "1251"} {
		add("alias "+alias, htmlHead+"; charset="+alias, encoded(t, "windows-1251", "<p>x "+word), word)
	}
	for _, c := range []struct{ label, page, word string }{
		{"utf-8", "<p>po\ufeffrn", "po rn"}, {"utf-8", "<p>po\u180ern", "porn"}, {"utf-8", "<p>po\u061crn", "porn"}, {"utf-8", "<p>po\u2063rn", "porn"}, {"utf-8", "<p>po\ufe0frn", "porn"}, {"utf-8", "<p>po\U000E0020rn", "porn"},
		{"utf-8", "<p>po\U0001D173rn", "porn"}, {"utf-8", "<p>po\u115frn", "porn"}, {"utf-8", "<p>po\u3164rn", "porn"}, {"utf-8", "<p>po\u17b4rn", "porn"}, {"utf-8", "<p>po\u206arn", "porn"}, {"utf-8", "<p>po\u2028rn porn", "porn"}, {"utf-8", "<p>po\u0085rn porn", "porn"},
		{"utf-8", "<p>po\x01rn porn", "porn"}, {"utf-8", "<p>po\x7frn porn", "porn"}, {"utf-8", "<p>\xed\xa0\x80porn", "porn"}, {"utf-8", "<p>\xf4\x90\x80\x80porn", "porn"}, {"utf-8", "<p>\xc1\xb0orn porn", "porn"},
		{"utf-16", "<\x00p\x00>\x00p\x00o\x00r\x00n\x00", "porn"}, {"utf-16", "\xfe\xff\x00p\x00o\x00r\x00n", "porn"}, {"utf-16le", "\xef\xbb\xbfporn", "porn"}, {"utf-16le", "p\x00o\x00\x00\xd8r\x00n\x00p\x00o\x00r\x00n\x00", "porn"}, {"utf-16le", "p\x00o\x00r\x00n\x00x", "porn"},
		{"iso-2022-jp", "<p>\x1b(Iporn\x1b(B", "porn"}, {"iso-2022-jp", "<p>\x1b$B!!\x1b(Jporn", "porn"}, {"iso-2022-jp", "<p>po\x1b$(Drn\x1b(B porn", "porn"}, {"iso-2022-jp", "<p>po\x0ern", "porn"}, {"iso-2022-jp", "<p>\x1bporn", "porn"}, {"iso-2022-jp", "<p>po\x1b$@\x1b(Brn porn", "porn"},
		{"shift_jis", "<p>\x85\x9fporn", "porn"}, {"shift_jis", "<p>\xef\xfcporn", "porn"}, {"shift_jis", "<p>\x80porn", "porn"}, {"shift_jis", "<p>\xa0porn", "porn"}, {"gbk", "<p>\x80porn", "porn"}, {"big5", "<p>\x80porn", "porn"}, {"big5", "<p>\x88\x62porn", "porn"}, {"euc-kr", "<p>\xc9porn", "porn"},
		{"gb18030", "<p>\x84\x31\xa4\x37porn", "porn"}, {"gb18030", "<p>\x81\x30\x8aporn", "porn"}, {"gb18030", "<p>\xa2\xe3porn", "porn"}, {"iso-8859-8-i", "<p>porn", "porn"}, {"csiso2022kr", "<p>porn", "porn"}, {"x-user-defined", "<p>\xf0porn", "porn"},
		{"utf-8", "<p>ⲣorn porn", "porn"}, {"macintosh", "<p>\xcaporn", "porn"}, {"windows-1252", "<p>\x81porn\x8d", "porn"}, {"ascii", "<p>\xadporn", "porn"}, {"utf8", "<p>Пример", "Пример"}, {"unicode-1-1-utf-8", "<p>Пример", "Пример"}, {"utf_8", "<p>porn", "porn"}, {"utf-8\x0c", "<p>Пример", "Пример"},
		{"utf-32le", "<\x00\x00\x00p\x00\x00\x00>\x00\x00\x00p\x00\x00\x00o\x00\x00\x00r\x00\x00\x00n\x00\x00\x00", "porn"}, {"cesu-8", "<p>porn", "porn"}, {"bocu-1", "<p>porn", "porn"}, {"scsu", "<p>porn", "porn"}, {"utf-7-imap", "<p>porn", "porn"}, {"ibm037", "\x97\x96\x99\x95", "porn"},
	} {
		add(fmt.Sprintf("%s %q", c.label, c.page), htmlHead+"; charset="+c.label, []byte(c.page), c.word)
	}
	return all
}

// moreMarkupCases returns further places in markup that have text.
func moreMarkupCases(*testing.T) (all []renderCase) {
	b64 := base64.StdEncoding.EncodeToString([]byte("<p>porn</p>"))
	css64 := base64.StdEncoding.EncodeToString([]byte("p::before{content:'porn'}"))
	svg64 := base64.StdEncoding.EncodeToString([]byte("<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>"))
	for _, page := range []string{
		// Documents in URLs.
		"<iframe src='data:text/html;base64;charset=utf-8," + b64 + "'></iframe>", "<iframe src='data:;base64," + b64 + "'></iframe>", "<iframe src='data:text/html;BASE64," + b64 + "'></iframe>", "<iframe src='data:text/html; base64 ," + b64 + "'></iframe>",
		"<iframe src='data:text/html;base64," + strings.ReplaceAll(b64, "=", "%3D") + "'></iframe>", "<iframe src='data:text/html;base64," + b64[:4] + " \n" + b64[4:] + "'></iframe>", "<iframe src='data:text/html;base64,%" + fmt.Sprintf("%02x", b64[0]) + b64[1:] + "'></iframe>", "<iframe src='data:text/html;charset=utf-8;x=y;base64," + b64 + "'></iframe>",
		"<iframe src='data://text/html,porn'></iframe>", "<iframe src='data:/text/html,porn'></iframe>", "<iframe src='data:text/html,po<b>rn</b>#zzz'></iframe>", "<iframe src='data:text/html,%3Cp%3Eporn'></iframe>", "<iframe src='data:text/html,po%0Arn porn'></iframe>", "<iframe src='data:text/html;,porn'></iframe>",
		"<iframe src='data:text/html ,porn'></iframe>", "<iframe src='data: text/html,porn'></iframe>", "<iframe src='data:TEXT/plain,porn'></iframe>", "<iframe src='data:foo,porn'></iframe>", "<iframe src='data:text,porn'></iframe>", "<iframe src='data:application/json,porn'></iframe>", "<iframe src='data:text/xml,<a>porn</a>'></iframe>",
		"<iframe src='data:image/svg+xml;base64," + svg64 + "'></iframe>", "<object type='text/html' data='data:text/html;base64," + b64 + "'></object>", "<embed type=image/svg+xml src='data:image/svg+xml;base64," + svg64 + "'>", "<object data='data:image/svg+xml;base64," + svg64 + "'></object>", "<object data=/none><object data='data:text/html,porn'></object></object>",
		"<iframe src=\"data:text/html,<iframe src='data:text/html,porn'></iframe>\"></iframe>", "<iframe src='data:text/html,<iframe srcdoc=porn></iframe>'></iframe>", "<iframe srcdoc=\"<iframe src='data:text/html,porn'></iframe>\"></iframe>", "<iframe src='&#x0d;data:text/html,porn'></iframe>", "<iframe src='&Tab;data:text/html,porn'></iframe>", "<iframe src='data&colon;text/html,porn'></iframe>", "<iframe src='d&#97;ta:text/html,p&#111;rn'></iframe>",
		"<iframe src=x src='data:text/html,porn'></iframe>", "<iframe src='data:text/html,porn' src=x></iframe>", "<iframe SRC=data:text/html,porn></iframe>", "<iframe/src=data:text/html,porn></iframe>", "<iframe src\n=\n'data:text/html,porn'></iframe>",
		"<iframe src=\"javascript:'porn'\"></iframe>", "<iframe src='javascript:\"<p>po\"+\"rn porn\"'></iframe>", "<iframe src=\" java\nscript:'porn'\"></iframe>", "<iframe src=\"javascript:'%70orn'\"></iframe>", "<iframe src='javascript:`porn`'></iframe>", "<object data=\"javascript:'porn'\"></object>", "<embed src=\"javascript:'porn'\">", "<iframe src=\"&#106;avascript:'p\\x6frn'\"></iframe>",
		"<iframe src=\"javascript:void(document.write('porn'),document.close())\"></iframe>", "<meta http-equiv=refresh content=\"0;url=javascript:'porn'\">", "<meta http-equiv='Refresh' content=\"0; URL='data:text/html,porn'\">", "<meta http-equiv=refresh content='0,data:text/html,porn'>", "<meta content='0;url=data:text/html,porn' http-equiv=refresh>",
		"<iframe srcdoc=porn srcdoc=x></iframe>", "<iframe srcdoc=x srcdoc=porn></iframe>", "<iframe srcdoc='' src='data:text/html,porn'></iframe>", "<iframe srcdoc='<plaintext>porn'></iframe>", "<iframe srcdoc='<style>p::before{content:&quot;porn&quot;}</style><p>'></iframe>", "<iframe srcdoc='&#x3c;p&#x3e;po&amp;shy;rn'></iframe>", "<iframe sandbox srcdoc='porn'></iframe>", "<svg><foreignObject width=90 height=90><iframe srcdoc=porn></iframe></foreignObject></svg>",
		"<iframe srcdoc='<svg><style><!--</style>porn</svg>'></iframe>", "<frameset><frame srcdoc=porn></frameset>", "<iframe srcdoc=p&#111;rn></iframe>", "<iframe\x0csrcdoc=porn></iframe>", "<noscript><iframe srcdoc=porn></iframe></noscript>", "<template><iframe srcdoc=porn></iframe></template>", "<div><template shadowrootmode=open><iframe srcdoc=porn></iframe></template></div>",
		// Style sheets.
		"<p style=\"list-style:'porn';display:list-item\">x", "<ul><li style='list-style-type:\"porn\"'>x</ul>", "<ul style=\"list-style-type:'po\\72n'\"><li>x</ul>", "<style>p::before{content:var(--x)}</style><p style=\"--x:'porn'\">x", "<style>p::before{content:attr(DATA-X)}</style><p data-x=porn>x", "<style>p::before{content:'po' attr(b)}</style><p b=rn>x porn",
		"<link rel=stylesheet href='data:text/css;base64," + css64 + "'><p>x", "<link rel='StyleSheet alternate' title=a href='data:text/css;base64," + css64 + "'><p>x", "<style>@import url(data:text/css;base64," + css64 + ");</style><p>x", "<style>@import url('data:text/css;base64," + css64 + "');</style><p>x", "<style>@import 'data:text/css;base64," + css64 + "';</style><p>x", "<style>@import url(data:text/css,p::before{content:%27porn%27});</style><p>x",
		"<style>@import 'data:text/css,@import %22data:text/css;base64," + css64 + "%22;';</style><p>x", "<svg><style><![CDATA[p::before{content:'porn'}]]></style></svg><p>x", "<svg><style>p::before{content:'p&#111;rn'}</style></svg><p>x", "<svg><style>p::before{content:&quot;porn&quot;}</style></svg><p>x", "<svg><style>p::before<!-- -->{content:'porn'}</style></svg><p>x", "<svg><style>p::before{content:'po<b>'}p::after{content:'porn'}</style></svg><p>x",
		"<style>p::before{content:'\\000070orn'}</style><p>x", "<style>p::before{content:'\\70\torn'}</style><p>x", "<style>p::before{content:'p\\6f\r\nrn'}</style><p>x", "<style>p::before{content:'p\\6F rn'}</style><p>x", "<style>p::before{c\\6fntent:'porn'}</style><p>x", "<style>p::before{content:'x'}p::after{content:'porn'/'alt'}</style><p>x", "<style>p::before{content:'x\n;}p::after{content:'porn'}</style><p>x",
		"<style>p::before{content:'po''rn'}</style><p>porn", "<style>p::before{content:'po'/**/'rn'}</style><p>x porn", "<style>p::before{content:url(x'y);}p::after{content:'porn'}</style><p>x", "<style>/*'*/p::before{content:'porn'}/*'*/</style><p>x", "<style><!--p::before{content:'porn'}--></style><p>x", "<style>@media all{p::before{content:'porn'}}</style><p>x", "<style>p{&::before{content:'porn'}}</style><p>x",
		"<style>@property --a{syntax:'*';inherits:false;initial-value:'porn'}p::before{content:var(--a)}</style><p>x", "<style>p::before{content:counter(a,b)}@counter-style b{system:cyclic;symbols:'porn'}</style><p>x", "<style>p::before{content:counters(a,'porn');counter-reset:a}</style><p>x<p><p style='counter-reset:a'>porn", "<style>p{hyphenate-character:'porn';hyphens:manual;width:1px}</style><p>a&shy;b", "<style>p::before{content:open-quote}p{quotes:'porn' 'x'}</style><p>x", "<q style=\"quotes:'porn' 'x'\">x</q>",
		"<style>@counter-style a{system:cyclic;symbols:x;prefix:'porn'}li{list-style:a}</style><ul><li>x</ul>", "<style type=text/css>p::before{content:'porn'}</style><p>x", "<style>p::before{content:'po\\\r\nrn'}</style><p>x", "<style>p::before{content:\"po\\0000ADrn\"}</style><p>x", "<div style=\"quotes:'porn' 'x'\"><q>x</q></div>", "<style>p::before{content:'<!-- porn'}</style><p>x", "<style>p::marker{content:'porn'}p{display:list-item}</style><p>x", "<style>summary::marker{content:'porn'}</style><details><summary>x</summary></details>",
		// Elements.
		"<input type=reset value=porn>", "<input type=search value=porn>", "<input type=email value=porn>", "<input type=url value=porn>", "<input type=tel value=porn>", "<input type=password placeholder=porn>", "<input type=number placeholder=porn>", "<input type=image alt=porn src=/none>", "<input type=' text' value=porn>", "<input type=foo value=porn>", "<input value=porn type=button>", "<input type=button type=hidden value=porn>", "<input type=BUTTON value=porn>", "<input value=porn value=x>", "<input type=&#98;utton value=porn>", "<input type='' value=porn>",
		"<input type=date value=porn>", "<input type=file value=porn>", "<select size=3><option>porn</select>", "<select multiple><option label=porn>x</select>", "<select><option value=porn></select>", "<select><hr><option selected>porn</select>", "<select><div>porn</div></select>", "<select><option>x<template>porn</template></select>", "<select><button><b>porn</b></button><option>x</select>", "<select><optgroup><legend>porn</legend><option>x</select>",
		"<datalist><option value=porn></datalist><input list=x>", "<textarea>\n\nporn</textarea>", "<textarea>&lt;p&gt;p&#111;rn</textarea>", "<textarea>po<!-- -->rn porn</textarea>", "<textarea><script></textarea>porn", "<svg><textarea>porn</textarea></svg>", "<title><!--</title>porn<!-- -->", "<xmp>po&#114;n</xmp>porn", "<listing>p&#111;rn</listing>", "<img alt=porn alt=x>", "<img alt=x alt=porn>", "<img alt='po\nrn porn'>", "<img alt=p&#111;rn>", "<img alt=\"p&ZeroWidthSpace;orn\">", "<img usemap=#m src=x><map name=m><area alt=porn></map>",
		"<video controls><track kind=subtitles src='data:text/vtt,porn'></video>", "<audio controls>porn</audio>", "<object type=text/plain>porn</object>", "<object data='data:image/png,x'>porn</object>", "<object data=/none type=image/png>porn</object>", "<picture>porn</picture>", "<applet>porn</applet>", "<dir><li>porn</dir>", "<hgroup>porn</hgroup>", "<search>porn</search>", "<slot>porn</slot>", "<data value=x>porn</data>", "<time>porn</time>", "<var>porn</var>", "<ins>po</ins><del>rn</del>", "<portal>porn</portal>", "<fencedframe>porn</fencedframe>", "<layer>porn</layer>", "<ilayer>porn</ilayer>", "<xml>porn</xml>", "<comment>porn</comment>", "<nextid>porn", "<selectedcontent>porn</selectedcontent>",
		"<p popover>porn", "<p hidden=until-found>porn", "<p inert>porn", "<details><summary></summary>porn</details>", "<dialog>porn</dialog>", "<p contenteditable>porn", "<ruby>p<rp>(</rp><rt>o</rt>rn</ruby>porn", "<fieldset disabled><legend>porn", "<table><caption>porn", "<table><colgroup>porn", "<table><col>porn", "<table>po<td>x</table>rn porn", "<table><script>x</script>porn", "<table><style>x</style><input type=hidden>porn", "<table><td><table>porn</table></table>",
		// Special rules of the HTML tree builder.
		"<script><!--<script></script>--></script>porn", "<script><!--<script >x</script/>porn", "<script><!--><script>x</script>porn", "<script><!--a--><script>x</script>porn", "<script></scriptx>x</script>porn", "<script></script x='</script>'>porn", "<script src=x />porn</script>porn", "<script><!--<SCRIPT></SCRIPT>--></SCRIPT>porn", "<svg><script/>porn</svg>", "<svg><script><!--</script>porn</svg>", "<svg><script><![CDATA[</script>]]></script>porn</svg>", "<svg><style/>porn</svg><p>porn",
		"<svg><style><!--</style>porn-->", "<svg><title><style></title>porn</style>", "<svg><title><style>x</style>porn</title></svg>", "<math><style><!--</style>porn", "<math><mtext><style>x</style>porn</mtext></math>", "<math><mtext><table><mglyph><style><!--</style>porn", "<form><math><mtext></form><form><mglyph><style></math>porn", "<svg><p><style><a title='</style>porn'>", "<svg></p><style><a id=\"</style>porn\">", "<math><annotation-xml encoding=text/html><style>x</style>porn</annotation-xml></math>", "<math><annotation-xml><style>porn</style></annotation-xml></math>",
		"<math><mi><svg><style>x</style></svg>porn</mi></math>", "<svg><desc><style>x</style>porn</desc></svg>", "<svg><foreignObject width=90 height=90><style>x</style>porn</foreignObject></svg>", "<svg><foreignobject width=90 height=90><xmp><b>porn</xmp></foreignobject></svg>", "<svg><font color=red>porn</font></svg>porn", "<svg><font>porn</font></svg>", "<svg><b>porn", "<svg><br>porn", "<svg><xmp><b>porn</xmp></svg>", "<svg><plaintext>porn</svg>porn", "<svg><a>porn</a></svg>", "<svg><switch><text y=20>porn</text></switch></svg>", "<svg><text y=20><textPath>porn</textPath></text></svg>", "<svg><text y=20><a>po</a>rn</text></svg>", "<svg><text y=20 style='x'>p&#111;rn</text></svg>", "<svg><defs><text id=t>porn</text></defs><use href=#t y=20></svg>", "<svg><symbol id=s><text y=20>porn</text></symbol><use href=#s></svg>",
		"<noscript><p title=\"</noscript>porn\">", "<noscript><style></noscript>porn</style>", "<noframes><p title=\"</noframes>porn\">", "<noembed></noembed>porn", "<iframe><!--</iframe>porn-->", "<noscript>po</noscript>rn porn", "<head><noscript><p>porn</noscript>", "<head><noscript><style></noscript>porn", "<template><template></template></template>porn", "<template><p>x</template>porn", "<template shadowrootmode=open>x</template>porn", "<div><template shadowrootmode=closed>porn</template></div>", "<div><template shadowrootmode=open><div><template shadowrootmode=open>porn</template></div></template></div>", "<div><template SHADOWROOTMODE=OPEN>porn</template></div>",
		"<!doctype html SYSTEM \"x>porn", "<!DOCTYPE html PUBLIC 'x>porn'>porn", "<![if !IE]>porn<![endif]>", "<!--[if IE]>porn<![endif]-->", "<?php echo 'x>porn' ?>porn", "<!--\x00-->porn", "<!-- -- -->porn", "<!--- >porn--->porn", "<!-- <!-- -->porn -->", "<!---->porn", "<!--x--!>porn", "<!-- - ->x--!>porn-->", "<!-\n-->porn", "<!->porn", "<!->x-->porn", "<!ENTITY x 'porn'>porn", "</!>porn", "</?>porn", "<//>porn", "<3>porn", "<%>porn", "<:>porn", "<_x>porn</_x>", "<p:>porn", "<p/ >porn", "<p//>porn", "<p '>porn", "<p \">porn", "<p \"x>porn", "<p a=\"b\"c>porn", "<p a='b'\"c\">porn", "<p a=`b>porn`>", "<p a=b\"c>porn\">", "<p a==\"b>porn\">", "<p a='\n>x'>porn", "<p\u00a0title='>'>porn'>", "<p\vtitle='>'>porn'>",
		"<p a\x00b='>'>porn", "<\x00p>porn", "<p\x00>porn", "p&#x;orn porn", "p&#;orn porn", "&#X70;orn", "&#112orn", "&#x70orn", "&#9999999999;porn", "&#x110000;porn", "&#x80;porn", "&nbsp;porn&nbsp;", "po&#173rn", "po&shyrn porn", "po&#xAD;rn", "po&ZeroWidthJoiner;rn porn", "&fflig;porn", "p&omicron;rn", "&pscr;&oscr;&rscr;&nscr;", "&popf;&oopf;&ropf;&nopf;", "p&hairsp;orn porn", "p&#x2062;orn", "&#x1F1F5;porn", "&#x24DF;&#x24DE;&#x24E1;&#x24DD;", "&#xFF50;&#xFF4F;&#xFF52;&#xFF4E;", "po&#13;rn porn", "po&NewLine;rn porn", "&not;porn", "&notit;porn", "&am;porn", "a&ampporn=x porn",
		"<a href=x>porn</a href=y>", "</p>porn", "</br>porn", "</frameset>porn", "</body></html><!-- x -->porn", "<body><frameset>porn", "<html><frameset><frame></frameset><noframes>porn</noframes>", "<body></html><p>porn", "<p><table><p>porn", "<b><p>po</b>rn", "<a><a>po</a>rn</a>", "<i>p</i><b>o</b><u>r</u><s>n</s>", "<p>po<img src=/none width=0>rn porn", "<span>po</span>\n<!-- x --><span>rn</span> porn", "<p>po<script>x</script>rn", "<p>po<style>x</style>rn", "<p>po<template>x</template>rn", "<p>po<input type=hidden>rn", "<p>po<link rel=x>rn", "<p>po<meta name=x>rn", "<p>po<noscript>x</noscript>rn", "<p>po<area>rn", "<p>po<a name=x></a>rn", "<p>po<map></map>rn", "<p>po<datalist><option>x</datalist>rn", "<p>po<i hidden>x</i>rn porn", "<p>po<x-y></x-y>rn", "<p>po<dialog>x</dialog>rn", "<p>po<?x?>rn", "<p>po<!x>rn", "<p>po</x>rn", "<p>po<rp>x</rp>rn", "<p>po<object></object>rn porn", "<p>po<svg width=0 height=0></svg>rn porn", "<p>po<slot></slot>rn", "<p>po<param>rn", "<p>po<source>rn", "<p>po<track>rn", "<p>po<bdi></bdi>rn", "<p>po<nobr>rn", "<p>po<big>r</big><tt>n</tt>", "<p>po<kbd>r</kbd><samp>n</samp>", "<p>po<mark>r</mark><cite>n</cite>", "<p>po<abbr>r</abbr><dfn>n</dfn>",
		"<script type=application/json>{\"a\":\"x\"}</script>porn", "<script type=text/template><p>x</p></script>porn", "<script type=speculationrules>{}</script>porn",
	} {
		all = append(all, renderCase{name: fmt.Sprintf("html %q", page), head: htmlHead + "; charset=utf-8", body: []byte("<!doctype html><body>" + page), word: "porn"})
	}
	return append(all, moreXMLCases()...)
}

// moreXMLCases returns markup by the rules of XML.
func moreXMLCases() (all []renderCase) {
	const xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><body>"
	const xhtmlType, svgType = "application/xhtml+xml", "image/svg+xml"
	const public = "<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd'>"
	const svg = "<svg xmlns='http://www.w3.org/2000/svg'>"
	sheet := func(template string) string {
		return "<?xml-stylesheet type='text/xsl' href='data:text/xsl;base64," + base64.StdEncoding.EncodeToString([]byte(
			`<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><body><p>`+template+`</p></body></html></xsl:template></xsl:stylesheet>`)) + "'?><a b='porn'>x</a>"
	}
	for _, c := range []struct{ typ, page string }{
		{xhtmlType, public + xhtml + "p&shy;orn</body></html>"}, {xhtmlType, public + xhtml + "po&#xAD;rn&nbsp;x</body></html>"}, {xhtmlType, xhtml + "<![CDATA[po]]><![CDATA[rn]]></body></html>"}, {xhtmlType, xhtml + "<![CDATA[<p>porn]]></body></html>"}, {xhtmlType, xhtml + "<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg></body></html>"},
		{xhtmlType, xhtml + "<p>porn<q></body></html>"}, {xhtmlType, xhtml + "porn"}, {xhtmlType, "porn"}, {xhtmlType, "<p>porn</p>"}, {xhtmlType, xhtml + "<iframe src='data:text/html,porn'/></body></html>"}, {xhtmlType, xhtml + "<iframe srcdoc='&lt;p>porn'/></body></html>"}, {xhtmlType, xhtml + "<img alt='porn'/></body></html>"}, {xhtmlType, xhtml + "<input value='porn'/></body></html>"},
		{xhtmlType, xhtml + "<style><![CDATA[p:before{content:'porn'}]]></style><p>x</p></body></html>"}, {xhtmlType, xhtml + "<style>p:before{content:'p&#111;rn'}</style><p>x</p></body></html>"}, {xhtmlType, xhtml + "<style>p:before{content:&quot;porn&quot;}</style><p>x</p></body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c \"'porn'\">]>" + xhtml + "<style>p:before{content:&c;}</style><p>x</p></body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c 'porn'>]>" + xhtml + "<input value='&c;'/><img alt='&c;'/></body></html>"},
		{xhtmlType, "<!DOCTYPE html [<!ENTITY c '<b>po</b>rn'>]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c '<![CDATA[porn]]>'>]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c \"<input value='porn'/>\">]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c \"<iframe srcdoc='porn'/>\">]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY a 'p'><!ENTITY b 'o'><!ENTITY c '&a;&b;rn'>]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ATTLIST input value CDATA 'porn'>]>" + xhtml + "<input/></body></html>"}, {xhtmlType, "<!DOCTYPE html [<!-- ' --><!ENTITY c 'porn'>]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<?x '?><!ENTITY c 'porn'>]>" + xhtml + "&c;</body></html>"}, {xhtmlType, "<!DOCTYPE html [<!ENTITY c SYSTEM 'data:text/plain,porn'>]>" + xhtml + "&c;</body></html>"},
		{xhtmlType, "<?xml version='1.0'?><!DOCTYPE html>" + xhtml + "porn</body></html>"}, {xhtmlType, xhtml + "<template>porn</template><div><template shadowrootmode='open'>porn</template></div></body></html>"}, {xhtmlType, xhtml + "<xmp><b>po</b>rn</xmp></body></html>"}, {xhtmlType, xhtml + "<noembed>porn</noembed></body></html>"}, {xhtmlType, xhtml + "<p>po<script>x</script>rn</p></body></html>"}, {xhtmlType, xhtml + "<P>porn</P></body></html>"}, {xhtmlType, xhtml + "<IMG alt='porn'/></body></html>"}, {xhtmlType, xhtml + "<svg:svg xmlns:svg='http://www.w3.org/2000/svg'><svg:text y='20'>porn</svg:text></svg:svg></body></html>"}, {xhtmlType, xhtml + "<x xmlns='y'>porn</x></body></html>"}, {xhtmlType, xhtml + "<script xmlns='y'>porn</script></body></html>"}, {xhtmlType, xhtml + "<style xmlns='y'>porn</style></body></html>"}, {xhtmlType, xhtml + "<y:script xmlns:y='y'>porn</y:script></body></html>"},
		{"text/xml", "<script>porn</script>"}, {"text/xml", "<style>porn</style>"}, {"text/xml", "<a><script>porn</script></a>"}, {"text/xml", "<averyveryverylongname-porn/>"}, {"text/xml", "<a averyveryverylongattributename-porn='x'/>"}, {"text/xml", "<a porn='x'/>"}, {"text/xml", "<a><![CDATA[<b>porn</b>]]></a>"}, {"text/xml", "<a><?x porn?></a>"}, {"text/xml", "<?x porn?><a/>"}, {"text/xml", "<!-- porn --><a/>"}, {"text/xml", "<a>po&#114;n</a>"}, {"text/xml", "<a>porn"}, {"text/xml", "x<a>porn</a>"}, {"text/xml", "<a>po<b/>rn porn</a>"}, {"text/xml", "<a b=\"&lt;porn\"/>"}, {"text/xml", "<x:porn xmlns:x='y'/>"}, {"text/xml", "<a xmlns='porn'/>"}, {"text/xml", "<a xmlns:porn='x'/>"}, {"text/xml", "<!DOCTYPE porn><a/>"}, {"text/xml", "<opml><outline text='porn'/></opml>"}, {"text/xml", "<a>" + strings.Repeat("<b>", 300) + "porn" + strings.Repeat("</b>", 300) + "</a>"},
		{"text/xml", "<feed xmlns='http://www.w3.org/2005/Atom'><title type='html'>&lt;b&gt;porn&lt;/b&gt;</title></feed>"}, {"text/xml", "<rss><channel><item><description><![CDATA[<p>porn</p>]]></description></item></channel></rss>"}, {"application/atom+xml", "<feed xmlns='http://www.w3.org/2005/Atom'><title>porn</title></feed>"}, {"text/xml", "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><title>porn</title></rdf:RDF>"}, {"text/xml", "<sitemapindex><loc>porn</loc></sitemapindex>"},
		{"text/xml", sheet("porn")}, {"text/xml", sheet("<xsl:text>porn</xsl:text>")}, {"text/xml", sheet(`<xsl:value-of select="'porn'"/>`)}, {"text/xml", sheet(`<xsl:value-of select="/a/@b"/>`)}, {"text/xml", sheet(`<xsl:value-of select="concat('po','rn')"/> porn`)}, {"text/xml", sheet(`<xsl:variable name="v">porn</xsl:variable><xsl:copy-of select="$v"/>`)}, {"text/xml", sheet(`<input value="{/a/@b}"/>`)}, {"text/xml", sheet(`<xsl:element name="p">porn</xsl:element>`)},
		{"text/xml", sheet(`<xsl:value-of select="concat('po','rn')"/>`)}, {"text/xml", sheet(`<xsl:value-of select="'po'"/><xsl:value-of select="'rn'"/>`)}, {"text/xml", sheet(`po<xsl:text>rn</xsl:text>`)}, {"text/xml", sheet(`<xsl:text>po</xsl:text><xsl:value-of select='"r"'/><xsl:text>n</xsl:text>`)}, {"text/xml", sheet(`po<xsl:if test="1">rn</xsl:if>`)},
		{"text/xml", "<?xml-stylesheet type='text/css' href='data:text/css,a::before{content:attr(b)}'?><a b='porn'/>"}, {"text/xml", "<?xml-stylesheet href='data:text/css,a{display:block}'?><a>po<b>rn</b></a>"}, {"text/xml", "<a><h:p xmlns:h='http://www.w3.org/1999/xhtml'>porn</h:p></a>"}, {"text/xml", "<a><h:iframe xmlns:h='http://www.w3.org/1999/xhtml' srcdoc='porn'/></a>"}, {"text/xml", "<a><h:style xmlns:h='http://www.w3.org/1999/xhtml'>a::before{content:'porn'}</h:style></a>"}, {"text/xml", "<a><h:input xmlns:h='http://www.w3.org/1999/xhtml' value='porn'/></a>"},
		{svgType, svg + "<text y='20'><![CDATA[porn]]></text></svg>"}, {svgType, svg + "<text y='20'>p&#111;rn</text></svg>"}, {svgType, "<!DOCTYPE svg [<!ENTITY c 'porn'>]>" + svg + "<text y='20'>&c;</text></svg>"}, {svgType, svg + "<style>text::before{content:'x'}</style><text y='20'>porn</text></svg>"}, {svgType, svg + "<text y='20'>po<!-- x -->rn</text></svg>"}, {svgType, svg + "<title>porn</title><desc>porn</desc></svg>"}, {svgType, svg + "<text y='20'>po<a href='x'>rn</a></text></svg>"}, {svgType, svg + "<foreignObject width='90' height='50'><iframe xmlns='http://www.w3.org/1999/xhtml' srcdoc='porn'/></foreignObject></svg>"}, {svgType, "<s:svg xmlns:s='http://www.w3.org/2000/svg'><s:text y='20'>porn</s:text></s:svg>"}, {svgType, "<svg><text>porn</text></svg>"}, {svgType, "porn"}, {svgType, svg + "<text y='20'>porn"}, {svgType, svg + "<script>x</script><text y='20'>porn</text></svg>"}, {svgType, svg + "<script/><text y='20'>porn</text></svg>"},
		{"", "<?xml version='1.0'?><a>porn</a>"}, {"", "<?xml version='1.0'?>" + xhtml + "porn</body></html>"}, {"", svg + "<text y='20'>porn</text></svg>"}, {"text/plain", svg + "<text y='20'>porn</text></svg>"}, {"application/mathml+xml", "<math xmlns='http://www.w3.org/1998/Math/MathML'><mi>porn</mi></math>"}, {"application/xml; charset=utf-8", "<a>porn</a>"}, {"application/xml-dtd", "porn"}, {"application/vnd.wap.xhtml+xml", xhtml + "porn</body></html>"}, {"text/vnd.wap.wml", "<wml><card><p>porn</p></card></wml>"}, {"multipart/related; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b--"}, {"message/rfc822", "Content-Type: text/html\r\n\r\n<p>porn</p>"}, {"multipart/x-mixed-replace; boundary=--b", "--b\r\n\r\n<p>porn</p>\r\n--b--"}, {"multipart/x-mixed-replace", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b--"}, {"multipart/x-mixed-replace; boundary=\"b\"", "\r\n--b\nContent-Type: text/html\n\n<p>porn</p>\n--b\n"}, {"multipart/x-mixed-replace; boundary=x; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b--"},
		{"application/json", "{\"a\":\"p\\u006frn porn\"}"}, {"application/json", "\xef\xbb\xbf{\"porn\":1}"}, {"application/json", ")]}'\n\n[\"porn\"]"}, {"application/x-javascript", "// porn"}, {"text/javascript", "porn"}, {"text/css", "/* porn */"}, {"text/csv", "a;porn"}, {"text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\npo<b>rn</b> porn"}, {"text/calendar", "SUMMARY:porn"}, {"text/vcard", "FN:porn"}, {"text/uri-list", "porn"}, {"text/x-log", "porn"}, {"text/x-component", "porn"}, {"application/x-httpd-php", "<p>porn"}, {"application/hal+json", "{\"a\":\"porn\"}"}, {"application/problem+xml", "<a>porn</a>"}, {"text/event-stream", "data: porn\n\n"}, {"text/cache-manifest", "porn"}, {"text/troff", "porn"}, {"text/rtf", "{\\rtf1 porn}"}, {"application/rtf", "{\\rtf1 porn}"}, {"application/x-sh", "porn"}, {"application/sql", "porn"}, {"application/yaml", "porn"}, {"application/toml", "porn"}, {"application/x-ndjson", "{\"a\":\"porn\"}"}, {"application/jsonlines", "{\"a\":\"porn\"}"}, {"application/graphql", "porn"}, {"application/typescript", "porn"}, {"application/node", "porn"}, {"application/javascript; charset=utf-8", "'porn'"}, {"text/jsx", "porn"}, {"text/ecmascript", "porn"}, {"application/x-ecmascript", "'porn'"}, {"video/mp4", "<p>porn"}, {"audio/mpeg", "<p>porn"}, {"image/gif", "<p>porn"}, {"font/woff", "<p>porn"}, {"application/zip", "<p>porn"}, {"application/x-unknown", "<p>porn"}, {"chemical/x-pdb", "<p>porn"}, {"x-world/x-vrml", "<p>porn"},
	} {
		head := ""
		if c.typ != "" {
			head = "Content-Type: " + c.typ
		}
		all = append(all, renderCase{name: fmt.Sprintf("%s %q", c.typ, c.page), head: head, body: []byte(c.page), word: "porn"})
	}
	return all
}
