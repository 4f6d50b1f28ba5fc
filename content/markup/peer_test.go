package markup_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"shuultuur/content"
	"shuultuur/content/element"
	"shuultuur/content/limit"
	"shuultuur/content/markup"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/test/race"
	"shuultuur/test/reading"
	"shuultuur/test/webpage"
)

// peerSource is what a page is part of that the other tokeniser reads.
var peerSource = &markup.Source{Work: &limit.Work{Expansion: limit.MostExpansion}, Outer: peerBody{}}

// A peerBody reads documents within a page.
type peerBody struct{}

func (peerBody) Document(f *prose.Flow, h *media.Head, p []byte, scripts bool) (lost bool) {
	var b content.Body
	b.Reset(h, content.Limits{Scripts: scripts})
	b.Append(bytes.Clone(p))
	b.Finish()
	text, _ := b.Text()
	f.Flush()
	f.Blank()
	f.B = append(f.B, text[1:]...)
	b.Release()
	return false
}

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
	var raw *element.Tag
	which := ""
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			line()
			return " " + strings.TrimSpace(string(prose.Normalise(nil, out.Bytes()))) + " "
		case html.TextToken:
			if raw != nil {
				aside.WriteString(" " + markup.PeerRaw(peerSource, raw, which, z.Raw()) + " ")
			} else {
				out.Write(bytes.ReplaceAll(z.Text(), []byte{0}, nil))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			e := element.Named(strings.ToLower(tok.Data))
			if len(tok.Data) > 16 {
				e = &element.Tag{}
			}
			peerAttributes(&aside, tok, e.Kind)
			raw, which = nil, ""
			switch e.Kind {
			case element.RawText, element.Style, element.Script:
				raw = e
				for _, a := range tok.Attr {
					if a.Key == "type" {
						which = strings.ToLower(a.Val)
					}
				}
			}
			peerBreak(&out, e.Kind, line)
		case html.EndTagToken:
			name, _ := z.TagName()
			e := element.Named(strings.ToLower(string(name)))
			if len(name) > 16 {
				e = &element.Tag{}
			}
			raw = nil
			peerBreak(&out, e.Kind, line)
		}
	}
}

func peerBreak(out *bytes.Buffer, kind element.Kind, line func()) {
	switch kind {
	case element.Word, element.Input, element.Foreign:
		out.WriteByte(' ')
	case element.Block, element.RCDATA, element.XMP, element.Plaintext:
		line()
	}
}

func peerAttributes(aside *bytes.Buffer, tok html.Token, kind element.Kind) {
	which, maybe, after := "", "", ""
	seen := false
	had := map[element.AttrKind]bool{element.AttrNone: true}
	for _, a := range tok.Attr {
		k := element.Attribute(kind, []byte(a.Key))
		if had[k] && k != element.AttrMore && k != element.AttrURL {
			continue
		}
		had[k] = true
		switch {
		case k >= element.AttrURL:
			aside.Write(markup.PeerValue(peerSource, tok.Data, k, []byte(a.Val)))
		case k == element.AttrMaybe:
			maybe, seen = a.Val, true
		case k.IsText() && seen:
			after += " " + a.Val + " "
		case k.IsText():
			fmt.Fprintf(aside, " %s ", a.Val)
		default:
			which = strings.ToLower(a.Val)
		}
	}
	if seen && element.Wanted(kind, []byte(which)) {
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
	for _, e := range element.Tags {
		if e.Kind == element.Word || e.Kind == element.Foreign || e.Kind == element.RCDATA || e.Place != element.Anywhere {
			p = bytes.ReplaceAll(p, []byte("<"+e.Name), []byte(" <"+e.Name))
		}
		switch e.Kind {
		case element.Word, element.Foreign, element.Block, element.RCDATA, element.XMP, element.Plaintext:
			p = bytes.ReplaceAll(p, []byte("</"+e.Name), []byte(" </"+e.Name))
		}
	}
	return p
}

func TestTextAgreesWithAnotherTokeniserOnRealPages(t *testing.T) {
	race.Without(t)
	names, bodies := webpage.Pages(t)
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
		compare(t, names[i], reading.Text(t, "text/html; charset=utf-8", string(p)), peerText(p))
	}
}

func TestTextAgreesWithAnotherTokeniserOnMadeUpPages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		p := apart(reading.RandomPage(r))
		got, want := reading.Text(t, "text/html; charset=utf-8", string(p)), peerText(p)
		if strings.TrimSpace(got) != strings.TrimSpace(want) {
			compare(t, fmt.Sprintf("%q", p), got, want)
			if t.Failed() {
				return
			}
		}
	}
}
