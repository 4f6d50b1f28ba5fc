package media

import (
	"testing"

	"shuultuur/lib/language"
)

func TestTheLastValidTypeCounts(t *testing.T) {
	for _, c := range []struct{ value, typ, charset, boundary string }{
		{"Text/HTML; charset=UTF-8", "text/html", "UTF-8", ""},
		{`text/html; charset="a\"b" ; charset=c`, "text/html", `a"b`, ""},
		{"text/html; charset=x, text/html", "text/html", "x", ""},
		{"text/html; charset=x, text/plain", "text/plain", "", ""},
		{"text/html, nonsense", "text/html", "", ""},
		{"text/html, */*", "text/html", "", ""},
		{`multipart/mixed; boundary="a,b"`, "multipart/mixed", "", "a,b"},
		{"text/html; charset; x=y", "text/html", "", ""},
		{"", "", "", ""},
	} {
		h := Describe(c.value, "")
		if h.Type() != c.typ || string(h.Charset()) != c.charset || string(h.Boundary()) != c.boundary {
			t.Errorf("%q: type %q, charset %q, boundary %q; want %q, %q, %q", c.value, h.Type(), h.Charset(), h.Boundary(), c.typ, c.charset, c.boundary)
		}
	}
	if h := Describe("text/html, a b/c", ""); !h.Invalid() {
		t.Error("a type that is none counts as valid")
	}
}

func TestFieldsDescribeABody(t *testing.T) {
	var h Head
	for _, f := range [][2]string{
		{"Content-Type", "application/json"}, {"Content-Range", "bytes 0-1/2"}, {"Content-Encoding", "gzip"},
		{"Content-Language", "de-AT, en"}, {"X-Content-Type-Options", "nosniff, x"}, {"Content-Length", "5"},
	} {
		h.Add([]byte(f[0]), []byte(f[1]))
	}
	if h.Type() != "application/json" || !h.Partial() || !h.Coded() || !h.Deflated() || !h.DecodedByBrowsers() || h.Language() != language.Parse("de", language.None) {
		t.Errorf("the fields give type %q, range %v, codings %v, language %v", h.Type(), h.Partial(), h.Codings().All(), h.Language())
	}
}

func TestUseDecidesWhatMayBeText(t *testing.T) {
	for _, c := range []struct {
		typ                       string
		use                       Use
		readable, maybe, is, line bool
	}{
		{"image/png", Embedded, false, false, false, false},
		{"image/png", Program, true, true, false, false},
		{"text/javascript", Embedded, false, false, false, false},
		{"text/javascript", Document, true, false, false, false},
		{"text/html", Embedded, true, false, false, false},
		{"", Unsaid, true, false, false, false},
		{"image/png", Sheet, true, false, false, false},
		{"text/event-stream", Embedded, true, false, true, false},
		{"application/grpc-web+proto", Program, true, true, true, false},
		{"application/x-ndjson", Program, true, false, false, true},
	} {
		h := Describe(c.typ, "")
		h.SetUse(c.use)
		if h.Readable() != c.readable || h.MaybeText() != c.maybe || h.IsStream() != c.is || h.Lines() != c.line {
			t.Errorf("%q, use %d: readable %v, maybe text %v, stream %v, lines %v", c.typ, h.Use(), h.Readable(), h.MaybeText(), h.IsStream(), h.Lines())
		}
	}
	h := Describe("image/png", "")
	h.SetUse(Program)
	if h.KeepAll(); !h.Kept() || h.MaybeText() {
		t.Error("a body that is kept counts as one that need not be awaited")
	}
}

func TestFirstBytesAndFieldsDecide(t *testing.T) {
	for _, c := range []struct {
		typ  string
		use  Use
		head string
		want Format
	}{
		{"", Embedded, "<!doctype html>", HTML},
		{"text/html", Embedded, "GIF89a", HTML},
		{"text/plain", Embedded, "\x1f\x8b\x08\x00", Members},
		{"text/css", Document, "a{}", Plain},
		{"text/css", Embedded, "a{}", CSS},
		{"text/html", Sheet, "a{}", CSS},
		{"application/xml", Sheet, `<xsl:transform xmlns:xsl="http://` + XSLT + `">`, XML},
		{"text/javascript", Unsaid, "let a = b(c);", None},
		{"text/javascript", Unsaid, `call({"a":"b"})`, Script},
		{"application/rtf", Embedded, "plain", Plain},
		{"multipart/mixed", Embedded, "--b\r\n\r\nx", MIME},
		{"multipart/mixed", Embedded, "plain", Plain},
		{"multipart/mixed", Embedded, "Subject: x\r\n y\r\nContent-Type: text/plain\r\n\r\n", MIME},
		{"application/pdf", Program, "plain words", Plain},
		{"image/png", Program, `{"a":"b"}`, JSON},
	} {
		h := Describe(c.typ, "")
		h.SetUse(c.use)
		if _, got := h.Judge([]byte(c.head), false); got != c.want {
			t.Errorf("%q, use %d, %q: format %d, want %d", c.typ, c.use, c.head, got, c.want)
		}
	}
}
