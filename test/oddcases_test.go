package test

import (
	"fmt"
	"strings"
	"testing"
)

func oddCases(t *testing.T) []renderCase {
	var all []renderCase
	for _, part := range []func(t *testing.T) []renderCase{oddHeads, oddCodings, oddCharsets} {
		all = append(all, part(t)...)
	}
	return all
}

// oddHeads returns cases of fields and status lines that browsers interpret in unexpected ways.
func oddHeads(*testing.T) (all []renderCase) {
	body := "<p>porn</p>"
	for _, head := range []string{
		":status 200\nContent-Type: text/html", ":status 200 \nContent-Type: text/html", ":status 200 \xff\xfe\nContent-Type: text/html",
		":status 0200 OK\nContent-Type: text/html", ":status 2000 OK\nContent-Type: text/html", ":status 99 OK\nContent-Type: text/html", ":status 700 OK\nContent-Type: text/html", ":status 000 OK\nContent-Type: text/html",
		":status 204 No\nContent-Type: text/html", ":status 205 No\nContent-Type: text/html", ":status 304 No\nContent-Type: text/html", ":status 101 Switching\nContent-Type: text/html", ":status 100 Continue\n\nHTTP/1.1 200 OK\nContent-Type: text/html",
		":status 407 x\nContent-Type: text/html\nProxy-Authenticate: Basic realm=x", ":status 421 x\nContent-Type: text/html", ":status 408 x\nContent-Type: text/html", ":status 425 x\nContent-Type: text/html", ":status 426 x\nContent-Type: text/html\nUpgrade: h2c", ":status 511 x\nContent-Type: text/html",
		"Content-Type: text/html\nRefresh: 0;url=data:text/html,porn", "Content-Type: text/html\nContent-Disposition: attachment; filename=x", "Content-Type: text/html\nContent-Disposition: inline; filename*=utf-8''x.html",
		"Content-Type: text/html\nContent-Disposition: ;", "Content-Type: text/html\nContent-Disposition: \"attachment\"", "Content-Type: text/html\nContent-Disposition: inline, attachment", "Content-Type: text/html\nContent-Disposition:", "Content-Type: text/html\nContent-Disposition: xattachment",
		"Content-Type: text/html\nSpeculation-Rules: x", "Content-Type: text/html\nAvailable-Dictionary: x", "Content-Type: text/html\nUse-As-Dictionary: match=\"*\"", "Content-Type: text/html\nClear-Site-Data: \"cache\"",
		"Content-Type: text/html\nAccept-Ranges: bytes\nAge: -1", "Content-Type: text/html\nConnection: content-type", "Content-Type: text/html\nConnection: content-encoding", "Content-Type: text/html\nTrailer: Content-Type",
		"Content-Type: text/html\nContent-Length: 11\nTransfer-Encoding: chunked,", "Content-Type: text/html\nContent-Length: 0x0b", "Content-Type: text/html\nContent-Length: 11 ", "Content-Type: text/html\nContent-Length:", "Content-Type: text/html\nContent-Length: -1", "Content-Type: text/html\nContent-Length: 5", "Content-Type: text/html\nContent-Length: 011", "Content-Type: text/html\nContent-Length: 11;", "Content-Type: text/html\nContent-Length: 99999999999999999999",
		"Content-Type: text/html; charset=utf-8; x=y; z", "Content-Type:text/html;charset", "Content-Type: text/html;charset=;", "Content-Type: text/html\t;x", "Content-Type: text/html ; x", "Content-Type:  \t text/html", "Content-Type: text/html;;charset=utf-8;", "CONTENT-TYPE: TEXT/HTML; CHARSET=UTF-8", "Content-type: text/html\r",
		"Content-Type: application/xhtml+xml", "Content-Type: text/html;profile=\"x", "Content-Type: text/html; charset=\"utf-8", "Content-Type: TeXt/PlAiN\nX-Content-Type-Options: nosniff", "Content-Type: text/plain;charset=utf-8", "Content-Type: text/plain; charset=ISO-8859-1", "Content-Type: text/plain; charset=iso-8859-1",
		"Content-Type: application/unknown; charset=utf-8", "Content-Type: unknown/unknown;x=y", "Content-Type: */*; charset=utf-8", "Content-Type: application/octet-stream\nX-Content-Type-Options: nosniff", "Content-Type: application/octet-stream\nContent-Disposition: inline", "Content-Type: binary/octet-stream", "Content-Type: application/force-download", "Content-Type: application/x-msdownload",
		"Content-Type: text/html\nContent-Type: application/octet-stream", "Content-Type: application/octet-stream\nContent-Type: text/html", "Content-Type: application/octet-stream, text/html", "Content-Type: text/html, application/octet-stream", "Content-Type: text/html\nContent-Type:", "Content-Type:\nContent-Type: text/html", "Content-Type: text/html;a=b,text/plain", "Content-Type: text/plain, text/html;charset=utf-8", "Content-Type: image/png;x=y\nContent-Type: text/html;x=y",
		"Content-Type: text/html\nX-Content-Type-Options: nosniff", "Content-Type: image/png\nX-Content-Type-Options: nosniff", "Content-Type: text/\nX-Content-Type-Options: nosniff", "Content-Type: text/x-html", "Content-Type: text/htm", "Content-Type: text/html5", "Content-Type: htext/html", "Content-Type: application/html", "Content-Type: application/text", "Content-Type: plain/text", "Content-Type: text/plain-x", "Content-Type: text/plain.html", "Content-Type: text/enriched", "Content-Type: text/sgml", "Content-Type: text/asp", "Content-Type: text/x-server-parsed-html", "Content-Type: text/tab-separated-values", "Content-Type: text/x-c", "Content-Type: text/x-java-source", "Content-Type: text/x-python", "Content-Type: text/x-diff", "Content-Type: text/x-sh", "Content-Type: text/turtle", "Content-Type: text/mathml", "Content-Type: text/prs.lines.tag", "Content-Type: message/http", "Content-Type: message/delivery-status", "Content-Type: message/disposition-notification", "Content-Type: application/x-javascript; charset=utf-8", "Content-Type: application/json5", "Content-Type: application/x-web-app-manifest+json", "Content-Type: application/vnd.api+json", "Content-Type: application/geo+json", "Content-Type: application/signed-exchange;v=b3", "Content-Type: application/webbundle", "Content-Type: multipart/related", "Content-Type: multipart/form-data; boundary=x", "Content-Type: multipart/byteranges; boundary=x", "Content-Type: application/x-x509-user-cert", "Content-Type: application/x-shockwave-flash", "Content-Type: application/mathml+xml", "Content-Type: application/rdf+xml", "Content-Type: application/vnd.mozilla.xul+xml", "Content-Type: text/rdf", "Content-Type: text/xul",
		"X-Content-Type-Options: nosniff\nContent-Type: */*", "Link: </x>; rel=preload\nContent-Type: text/html", "Content-Type: text/html\nContent-Range: bytes */11", ":status 206 x\nContent-Type: text/html\nContent-Range: bytes 0-99/100", ":status 206 x\nContent-Type: text/html\nContent-Range: x", ":status 206 x\nContent-Type: text/html\nContent-Range: bytes 0-10/*",
		":status 416 x\nContent-Type: text/html\nContent-Range: bytes */5", "Content-Type: text/html\nLocation: /x", ":status 303 x\nContent-Type: text/html\nLocation:   ", ":status 302 x\nContent-Type: text/html\nLocation: javascript:0", ":status 302 x\nContent-Type: text/html\nLocation: data:text/html,porn", ":status 302 x\nContent-Type: text/html\nLocation: about:blank", ":status 300 x\nContent-Type: text/html\nLocation: /other", ":status 304 x\nContent-Type: text/html\nETag: x", ":status 302 x\nContent-Type: text/html\nLocation: //", ":status 302 x\nContent-Type: text/html\nLocation: http://[", ":status 302 x\nContent-Type: text/html\nLocation: a\nLocation: b",
	} {
		all = append(all, renderCase{name: fmt.Sprintf("head %q", head), head: head, body: []byte(body), word: "porn"})
	}
	for _, raw := range []string{
		"<p>porn</p>", "HTTP/1.0 200 OK\r\n\r\n<p>porn</p>", "HTTP/1.1 200 OK\n\n<p>porn</p>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\n\n<p>porn</p>", "HTTP/1.1 200 OK\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.2 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/2.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/0.9 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "http/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.1  200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "ICY 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "xxHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX: 1\r\n\t2\r\n\r\n<p>porn</p>", "HTTP/1.1\t200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.1 200OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/11 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.1 OK\r\nContent-Type: text/html\r\n\r\n<p>porn</p>", "HTTP/1.1\r\nContent-Type: text/html\r\n\r\n<p>porn</p>",
		"HTTP/1.1 103 Early\r\nLink: </x>; rel=preload; as=style\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>porn</p>", "HTTP/1.1 100 Continue\r\nContent-Type: image/png\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>porn</p>", "HTTP/1.1 102 x\r\n\r\nHTTP/1.1 102 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>porn</p>", "HTTP/1.1 199 x\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>porn</p>",
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n0b\r\n<p>porn</p>\r\n0\r\nContent-Type: image/png\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nb;\"\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n0xb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n+b\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n<p>porn</p>0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n<p>porn</p>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n<p>porn</p>\r\nzz\r\n", "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: gzip, chunked\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nContent-Encoding: identity\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding:\r\n\r\n<p>porn</p>", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding:chunked\r\nTransfer-Encoding:chunked\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: xchunked\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: \"chunked\"\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding\x00: chunked\r\n\r\nb\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000000b\r\n<p>porn</p>\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nB\r\n<p>porn</p>\n0\n\n",
	} {
		all = append(all, renderCase{name: fmt.Sprintf("raw %q", raw), head: rawHead, body: []byte(raw), word: "porn"})
	}
	return all
}

// oddCodings returns cases of codings with unusual members.
func oddCodings(*testing.T) (all []renderCase) {
	page := []byte("<p>porn</p>" + strings.Repeat("<!-- filling -->", 3))
	add := func(head string, body []byte) {
		all = append(all, renderCase{name: fmt.Sprintf("coding %q of %.12x (%d)", head, body, len(body)), head: head, body: body, word: "porn"})
	}
	coded := func(v string, body []byte) { add(htmlHead+"\nContent-Encoding: "+v, body) }
	gz, zs, br, zl, raw := gzipped(page), zstded(page), brotlied(page), zlibbed(page), deflated(page)
	cat := func(parts ...[]byte) (b []byte) {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	}
	for _, v := range []string{"gzip", "br", "zstd", "deflate"} {
		coded(v, nil)
		coded(v, page)
		coded(v, cat([]byte(" "), gz))
		coded(v, cat(page, gz))
		coded(v, cat([]byte("<p>porn"), zl))
	}
	coded("br", gz)
	coded("br", zs)
	coded("zstd", gz)
	coded("zstd", br)
	coded("gzip", br)
	coded("gzip", zs)
	coded("gzip", raw)
	coded("deflate", br)
	coded("deflate", zs)
	coded("deflate", cat(raw, []byte("trailing <p>porn")))
	coded("deflate", raw[:len(raw)-1])
	coded("deflate", cat(zl, zl))
	coded("deflate", cat(raw, raw))
	coded("deflate", zl[:len(zl)-6])
	coded("br", br[:len(br)-1])
	coded("br", cat(br, br))
	coded("br", cat(br, page))
	coded("zstd", cat(zs, page))
	coded("zstd", zs[:len(zs)-5])
	coded("zstd", cat([]byte("\x5f\x2a\x4d\x18\x02\x00\x00\x00xx"), zs))
	coded("zstd", cat([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"), zs))
	coded("gzip", cat(gz[:len(gz)-8], []byte("\x00\x00\x00\x00\x00\x00\x00\x00"), page))
	coded("gzip", cat(gz, page))
	coded("gzip", cat(gz, gz[:10]))
	coded("gzip", cat(gzipped(nil), gzipped(nil), gz))
	coded("gzip", gzipMember(4, "\x00\x00", page))
	coded("gzip", gzipMember(8, strings.Repeat("n", 70_000)+"\x00", page))
	coded("gzip", gzipMember(16, strings.Repeat("c", 300)+"\x00", page))
	coded("gzip", gzipMember(4, "\xff\xff"+strings.Repeat("e", 65535), page))
	coded("gzip", gzipMember(32, "", page))
	coded("gzip", gzipMember(64, "", page))
	coded("gzip, deflate", gz)
	coded("deflate, gzip", gz)
	coded("gzip, br", gz)
	coded("br, gzip", gz)
	coded("gzip, gzip", gzipped(page))
	coded("identity, identity", page)
	coded("identity;q=1", page)
	coded("gzip; q=0.5", gz)
	coded("gzip q=1", gz)
	coded("gzip\x00", gz)
	coded("\x00gzip", gz)
	coded("gzip\x0c", gz)
	coded("gzip\xa0", gz)
	coded("gz ip", gz)
	coded("'gzip'", gz)
	coded("gzip,\x00", gz)
	coded("GZip, BR", brotlied(gz))
	coded("x-gzip, x-gzip", gzipped(gz))
	coded("X-GZIP", gz)
	coded("gzip, none", gz)
	coded("none, gzip", gz)
	coded("identity, br", br)
	coded("br, identity", br)
	coded("zstd, identity", zs)
	coded("deflate, identity", zl)
	coded("identity,deflate", raw)
	coded("bzip2", page)
	coded("lzma", page)
	coded("sdch", page)
	coded("gzip, sdch", gz)
	coded("sdch, gzip", gz)
	coded("null", gz)
	coded("text", gz)
	coded("amz-1.0", page)
	coded("base64", page)
	coded("aes128gcm", page)
	coded("snappy", page)
	coded("lz4", page)
	add("Content-Encoding: gzip", gz)
	add("Content-Encoding: br\nContent-Type: text/plain", brotlied([]byte("porn")))
	add("Content-Encoding: gzip\nContent-Type: application/gzip", gz)
	add("Content-Encoding: gzip\nContent-Type: application/x-gzip", gz)
	add("Content-Encoding: x-gzip\nContent-Type: application/x-gzip", gz)
	add("Content-Encoding: gzip\nContent-Type: application/octet-stream", gz)
	add("Content-Encoding: gzip\nContent-Type: application/x-compressed", gz)
	add("Content-Encoding : gzip\nContent-Type: text/html", gz)
	add("content-encoding:gzip\nContent-Type: text/html", gz)
	add("Content-Encoding:\n gzip\nContent-Type: text/html", gz)
	add("Content-Encoding: gz\n ip\nContent-Type: text/html", gz)
	add("Content-Encoding: gzip,\n br\nContent-Type: text/html", brotlied(gz))
	add("Content-Encoding\nContent-Type: text/html", page)
	add("X-Content-Encoding: gzip\nContent-Type: text/html", gz)
	add("Transfer-Encoding: gzip\nContent-Type: text/html", gz)
	add("Transfer-Encoding: deflate\nContent-Type: text/html", zl)
	add("Transfer-Encoding: br\nContent-Type: text/html", br)
	add("Content-Encoding: gzip\nContent-Length: "+fmt.Sprint(len(gz))+"\nContent-Type: text/html", gz)
	add("Content-Encoding: gzip\nContent-Length: "+fmt.Sprint(len(gz)-9)+"\nContent-Type: text/html", gz)
	add("Content-Encoding: gzip\nContent-Type: text/html; charset=utf-16le", gzipped(utf16of("<p>porn</p>")))
	add("Content-Encoding: gzip\nContent-Type: text/html", gzipped(append([]byte("\xff\xfe"), utf16of("<p>porn</p>")...)))
	// Large enough to arrive in several pieces.
	filling := []byte(strings.Repeat("<!-- "+lorem[:200]+" -->", 3000))
	for _, c := range []struct {
		name string
		f    func([]byte) []byte
	}{{"gzip", gzipped}, {"br", brotlied}, {"zstd", zstded}, {"deflate", zlibbed}, {"deflate", deflated}} {
		coded(c.name, c.f(cat(filling, page)))
		p := c.f(cat(filling, page, filling))
		coded(c.name, p[:len(p)-2])
	}
	return all
}

// oddCharsets returns cases in which marks, fields and markup name different
// charsets.
func oddCharsets(t *testing.T) (all []renderCase) {
	word := "Ябл"
	add := func(name, head string, body []byte, word string) {
		all = append(all, renderCase{name: "charset " + name, head: head, body: body, word: word})
	}
	cp := func(s string) []byte { return encoded(t, "windows-1251", s) }
	koi := func(s string) []byte { return encoded(t, "koi8-r", s) }
	le, be := func(s string) []byte { return encoded(t, "utf-16le", s) }, func(s string) []byte { return encoded(t, "utf-16be", s) }
	add("mark in the field's UTF-16", htmlHead+"; charset=utf-16be", append([]byte("\xff\xfe"), le("<p>"+word)...), word)
	add("mark of UTF-8 and meta", htmlHead, []byte("\xef\xbb\xbf<meta charset=koi8-r><p>"+word), word)
	add("mark behind a blank", htmlHead, []byte(" \xef\xbb\xbf<p>"+word), word)
	add("two marks", htmlHead, []byte("\xef\xbb\xbf\xef\xbb\xbf<p>"+word), word)
	add("mark and XML declaration", "Content-Type: application/xhtml+xml", []byte("\xef\xbb\xbf<?xml version='1.0' encoding='koi8-r'?><p xmlns='http://www.w3.org/1999/xhtml'>"+word+"</p>"), word)
	add("field and XML declaration", "Content-Type: application/xhtml+xml; charset=windows-1251", append([]byte("<?xml version='1.0' encoding='koi8-r'?>"), cp("<p xmlns='http://www.w3.org/1999/xhtml'>"+word+"</p>")...), word)
	add("XML declaration in koi8-r", "Content-Type: application/xhtml+xml", append([]byte("<?xml version='1.0' encoding='koi8-r'?>"), koi("<p xmlns='http://www.w3.org/1999/xhtml'>"+word+"</p>")...), word)
	add("XML declaration of another case", "Content-Type: text/xml", append([]byte("<?xml version=\"1.0\"\tencoding = \"WINDOWS-1251\" ?>"), cp("<a>"+word+"</a>")...), word)
	add("UTF-16 without a mark, XML", "Content-Type: text/xml", le("<a>"+word+"</a>"), word)
	add("UTF-16 without a mark, SVG", "Content-Type: image/svg+xml", le("<?xml version='1.0'?><svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>"), "porn")
	add("UTF-16 by meta", htmlHead, []byte("<meta charset=utf-16le><p>"+word), word)
	add("UTF-16 by field, with a mark of UTF-8", htmlHead+"; charset=utf-16", []byte("\xef\xbb\xbf<p>"+word), word)
	add("UTF-16be by field", "Content-Type: text/plain; charset=utf-16be", be("x "+word+" "), word)
	add("UTF-16 with odd bytes", htmlHead+"; charset=utf-16le", append(le("<p>x "+word+" "), 'x'), word)
	add("UTF-16 with a lone surrogate", htmlHead+"; charset=utf-16le", append(append(le("<p>"), 0, 0xd8), le(word+" ")...), word)
	add("UTF-32 with a mark", htmlHead, []byte("\xff\xfe\x00\x00p\x00\x00\x00o\x00\x00\x00r\x00\x00\x00n\x00\x00\x00"), "porn")
	add("UTF-32BE with a mark", htmlHead, []byte("\x00\x00\xfe\xff\x00\x00\x00p\x00\x00\x00o\x00\x00\x00r\x00\x00\x00n"), "porn")
	add("UTF-7 with a mark", htmlHead, []byte("+/v8-<p>porn"), "porn")
	add("meta with two names", htmlHead, append([]byte("<meta http-equiv=content-type content='text/html; charset=koi8-r; charset=windows-1251'><p>"), koi(word)...), word)
	add("meta within SVG", htmlHead, append([]byte("<svg><meta charset=windows-1251></svg><p>x "), cp(word)...), word)
	add("meta in an attribute first", htmlHead, append([]byte("<p title='<meta charset=koi8-r>'><meta charset=windows-1251>x "), cp(word)...), word)
	add("meta within select", htmlHead, append([]byte("<select><meta charset=windows-1251></select><p>x "), cp(word)...), word)
	add("meta http-equiv of another case", htmlHead, append([]byte("<META HTTP-EQUIV='Content-Type' CONTENT='TEXT/HTML;CHARSET=WINDOWS-1251'>x "), cp(word)...), word)
	add("meta content without type", htmlHead, append([]byte("<meta http-equiv=content-type content='charset=windows-1251'>x "), cp(word)...), word)
	add("meta content with blanks", htmlHead, append([]byte("<meta http-equiv=content-type content='text/html;charset = \t\"windows-1251\"'>x "), cp(word)...), word)
	add("meta with references", htmlHead, append([]byte("<meta charset='windows&#45;1251'>x "), cp(word)...), word)
	add("meta after text", htmlHead, append([]byte("x y z <b>q</b> <meta charset=windows-1251>x "), cp(word)...), word)
	add("meta in a comment that is none", htmlHead, append([]byte("<!x><meta charset=windows-1251>x "), cp(word)...), word)
	add("meta with a newline", htmlHead, append([]byte("<meta\ncharset\n=\nwindows-1251\n>x "), cp(word)...), word)
	add("meta with a slash", htmlHead, append([]byte("<meta charset=windows-1251/>x "), cp(word)...), word)
	add("meta twice", htmlHead, append([]byte("<meta charset=windows-1251><meta charset=koi8-r>x "), cp(word)...), word)
	add("meta of UTF-16 in cp1251", htmlHead+"; charset=windows-1251", append([]byte("<meta charset=utf-16>x "), cp(word)...), word)
	add("field with quotes inside", htmlHead+`; charset="windows-1251""`, append([]byte("x "), cp(word)...), word)
	add("field with a comment", htmlHead+"; charset=windows-1251 (cyrillic)", append([]byte("x "), cp(word)...), word)
	add("field twice with others", "Content-Type: text/html; charset=windows-1251\nContent-Type: text/html; x=y", append([]byte("x "), cp(word)...), word)
	add("field of another type before", "Content-Type: image/png; charset=koi8-r\nContent-Type: text/html; charset=windows-1251", append([]byte("x "), cp(word)...), word)
	add("field of another type behind", "Content-Type: text/html; charset=windows-1251\nContent-Type: */*", append([]byte("x "), cp(word)...), word)
	add("json in cp1251", "Content-Type: application/json; charset=windows-1251", append(append([]byte(`{"a":"x `), cp(word)...), `"}`...), word)
	add("json with a mark of UTF-16", "Content-Type: application/json", append([]byte("\xff\xfe"), le(`{"a":"x `+word+`"}`)...), word)
	add("plain with a mark of UTF-16BE", "Content-Type: text/plain", append([]byte("\xfe\xff"), be("x "+word+" ")...), word)
	add("plain in cp1251 of a language", "Content-Type: text/plain; charset=windows-1251", append([]byte("x "), cp(word)...), word)
	add("css", "Content-Type: text/css; charset=windows-1251", append([]byte("/* x "), cp(word+" */")...), word)
	add("css of @charset", "Content-Type: text/css", append([]byte("@charset \"windows-1251\"; /* x "), cp(word+" */")...), word)
	add("frame in a data URL that inherits", htmlHead+"; charset=windows-1251", append(append([]byte("<iframe src='data:text/html,x "), cp(word)...), "'></iframe>"...), word)
	add("srcdoc with meta", htmlHead+"; charset=windows-1251", append(append([]byte("<iframe srcdoc='<meta charset=koi8-r>x "), cp(word)...), "'></iframe>"...), word)
	add("percents in a data URL", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset=windows-1251,x %DF%E1%EB'></iframe>"), word)
	add("percents in a data URL of UTF-16", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset=utf-16le,p%00o%00r%00n%00'></iframe>"), "porn")
	add("percents in a data URL with a mark", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html,%FE%FF%00p%00o%00r%00n'></iframe>"), "porn")
	add("data URL with quoted charset", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset=\"windows-1251\",x %DF%E1%EB'></iframe>"), word)
	add("data URL with two charsets", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html;charset=windows-1251;charset=koi8-r,x %DF%E1%EB'></iframe>"), word)
	add("data URL with meta", htmlHead+"; charset=utf-8", []byte("<iframe src='data:text/html,<meta charset=windows-1251>x %DF%E1%EB'></iframe>"), word)
	add("link with charset", htmlHead+"; charset=utf-8", []byte("<link rel=stylesheet charset=windows-1251 href='data:text/css,p::before{content:\"x %DF%E1%EB\"}'><p>"), word)
	add("css in a data URL with charset", htmlHead+"; charset=utf-8", []byte("<link rel=stylesheet href='data:text/css;charset=windows-1251,p::before{content:\"x %DF%E1%EB\"}'><p>"), word)
	return all
}
