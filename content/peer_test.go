package content

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"shuultuur/test/race"
)

// peerText extracts the text of a page like Text, with the tokeniser of golang.org/x/net/html.
// That one does not know svg (it reads a style in it as raw text) and CDATA sections.
func peerText(page []byte) string {
	var out, aside bytes.Buffer
	line := func() {
		out.WriteByte(' ')
		out.Write(aside.Bytes())
		aside.Reset()
		out.WriteByte(' ')
	}
	var raw *tag
	which := ""
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			line()
			return " " + strings.TrimSpace(string(Normalise(nil, out.Bytes()))) + " "
		case html.TextToken:
			if raw != nil {
				aside.WriteString(" " + peerRaw(raw, which, z.Raw()) + " ")
			} else {
				out.Write(bytes.ReplaceAll(z.Text(), []byte{0}, nil))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			e := tags.named(strings.ToLower(tok.Data))
			if len(tok.Data) > 16 {
				e = &tag{}
			}
			peerAttributes(&aside, tok, e.kind)
			raw, which = nil, ""
			switch e.kind {
			case tagRawText, tagStyle, tagScript:
				raw = e
				for _, a := range tok.Attr {
					if a.Key == "type" {
						which = strings.ToLower(a.Val)
					}
				}
			}
			peerBreak(&out, e.kind, line)
		case html.EndTagToken:
			name, _ := z.TagName()
			e := tags.named(strings.ToLower(string(name)))
			if len(name) > 16 {
				e = &tag{}
			}
			raw = nil
			peerBreak(&out, e.kind, line)
		}
	}
}

// peerRaw returns the text in the content of an element without markup.
func peerRaw(e *tag, which string, content []byte) string {
	var x scanner
	x.reset(false)
	x.nWhich = copy(x.which[:], which)
	x.rawBegin(e)
	x.rawPart(content)
	x.rawEnd()
	x.line()
	return string(x.out.b)
}

func peerBreak(out *bytes.Buffer, kind tagKind, line func()) {
	switch kind {
	case tagWord, tagInput, tagForeign:
		out.WriteByte(' ')
	case tagBlock, tagRCDATA, tagXMP, tagPlaintext:
		line()
	}
}

func peerAttributes(aside *bytes.Buffer, tok html.Token, kind tagKind) {
	which, maybe, after := "", "", ""
	seen := false
	had := map[attrKind]bool{attrNone: true}
	for _, a := range tok.Attr {
		k := attribute(kind, []byte(a.Key))
		if had[k] && k != attrMore && k != attrURL {
			continue
		}
		had[k] = true
		switch {
		case k >= attrURL:
			if u := []byte(a.Val); k.mayCount(u) {
				var x scanner
				x.reset(false)
				x.tag = tags.named(tok.Data)
				switch k {
				case attrSrcdoc:
					x.nest(htmlUTF8, u)
				case attrURL:
					x.url(u)
				case attrSheet:
					x.declarations(u)
				case attrSet:
					for f := range bytes.FieldsSeq(u) {
						x.dataURL(f)
					}
				}
				x.line()
				aside.Write(x.out.b)
			}
		case k == attrMaybe:
			maybe, seen = a.Val, true
		case k.isText() && seen:
			after += " " + a.Val + " "
		case k.isText():
			fmt.Fprintf(aside, " %s ", a.Val)
		default:
			which = strings.ToLower(a.Val)
		}
	}
	if seen && wanted(kind, []byte(which)) {
		fmt.Fprintf(aside, " %s ", maybe)
	}
	aside.WriteString(after)
}

// compare reports where two texts begin to differ.
func compare(t *testing.T, name, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	t.Errorf("%s: texts part at byte %d\n got …%.120q\nwant …%.120q", name, i, got[from:], want[from:])
}

// apart puts a blank before tags after which words may continue, because such words are
// written again.
func apart(p []byte) []byte {
	for _, e := range tags {
		if e.kind == tagWord || e.kind == tagForeign || e.kind == tagRCDATA || e.place != anywhere {
			p = bytes.ReplaceAll(p, []byte("<"+e.name), []byte(" <"+e.name))
		}
		switch e.kind {
		case tagWord, tagForeign, tagBlock, tagRCDATA, tagXMP, tagPlaintext:
			p = bytes.ReplaceAll(p, []byte("</"+e.name), []byte(" </"+e.name))
		}
	}
	return p
}

func TestTextAgreesWithAnotherTokeniserOnRealPages(t *testing.T) {
	race.Without(t)
	names, bodies := pages(t)
	for i, p := range bodies {
		if names[i] == "cnet-svg-classes.html" {
			continue // styles in svg
		}
		p = bytes.ReplaceAll(p, []byte("attr("), []byte("rtta(")) // styles that show attributes
		for _, name := range []string{"class", "id", "hidden", "display", "position", "float", "font", "width", "height", "content", "direction", "unicode-bidi"} {
			p = bytes.ReplaceAll(p, []byte(" "+name), []byte(" x"+name[1:])) // words affected by style are written again
			p = bytes.ReplaceAll(p, []byte(name+":"), []byte("x"+name[1:]+":"))
		}
		p = apart(p)
		compare(t, names[i], textOf(t, "text/html; charset=utf-8", string(p)), peerText(p))
	}
}

// snippets are troublesome pieces of markup, which are joined at random.
var snippets = []string{
	"a", "B ", " c", "<", ">", "</", "/>", "<!", "<!--", "-->", "--!>", "-", "!", "<?", "=", "'", "\"", " ", "\n",
	"<b>", "</b>", "<p>", "</p>", "<br/>", "<div width=1>", "<script>", "</script>", "<style>", "</style ", "<title>", "</title>",
	"<textarea>", "</textarea>", "<noscript>", "</noscript>", "<xmp>", "</xmp>", "<meta name=description content='m n'>",
	"<input type=submit value=", " <img alt=\"x y\"", "<a title='", "<a href=\"", "alt=", "title=q", "<x-y>", "<plaintex", "&amp;", "&eacute;", "&eacute",
	"&#101;", "&#x", "&#", "&", ";", "&notit;", "é", "ß", "e\u0301", "\u00ad", "東", "<h1", "</h1\t", "<!doctype html>", "<blockquote>", "</scr", "ipt>", "</3>",
}

func randomPage(r *rand.Rand) []byte {
	var buf bytes.Buffer
	for range 1 + r.IntN(30) {
		buf.WriteString(snippets[r.IntN(len(snippets))])
	}
	return buf.Bytes()
}

func TestTextAgreesWithAnotherTokeniserOnMadeUpPages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		p := apart(randomPage(r))
		got, want := textOf(t, "text/html; charset=utf-8", string(p)), peerText(p)
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			compare(t, fmt.Sprintf("%q", p), got, want)
			if t.Failed() {
				return
			}
		}
	}
}
