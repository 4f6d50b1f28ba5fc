//go:build unix

package content_test

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"fmt"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/content/limit"
	"shuultuur/content/prose"
	"shuultuur/test/race"
	"shuultuur/test/reading"
)

// A growing input consists of n pieces that a reader may read again and again, or never pass.
type growing struct {
	name, typ string
	of        func(n int) string
}

// within returns a page with a document in a data: URL.
func within(typ, document string) string {
	return "<a href='data:" + typ + "," + strings.NewReplacer("%", "%25", "'", "%27").Replace(document) + "'>x</a>"
}

// parameters returns a document type in which each parameter entity refers n times to the one
// before it.
func parameters(n int) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE a [<!ENTITY % p0 '<x>'>")
	for i := range 7 {
		fmt.Fprintf(&b, "<!ENTITY %% p%d '%s'>", i+1, strings.Repeat(fmt.Sprintf("&#37;p%d;", i), n))
	}
	b.WriteString("%p7;]><a>quayle</a>")
	return b.String()
}

// entitiesIn returns a document type with entities that refer n times to the one before them.
func entitiesIn(n int, first string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE a [<!ENTITY e0 '%s'>", first)
	for i := range 7 {
		fmt.Fprintf(&b, "<!ENTITY e%d '%s'>", i+1, strings.Repeat(fmt.Sprintf("&e%d;", i), n))
	}
	b.WriteString("]><a>quayle &e7;</a>")
	return b.String()
}

func deflated(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	fmt.Fprint(z, s)
	z.Close()
	return b.String()
}

// pdfOf returns a document of these objects, the first of which has the number 1.
func pdfOf(objects ...string) string {
	var b strings.Builder
	b.WriteString("%PDF-1.4\n")
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj%s endobj\n", i+1, o)
	}
	return b.String()
}

func pdfStream(dict, s string, pack bool) string {
	if pack {
		dict, s = dict+"/Filter/FlateDecode", deflated(s)
	}
	return fmt.Sprintf("<<%s/Length %d>>stream\n%s\nendstream", dict, len(s), s)
}

// formsInPDF returns a document whose forms each show the next one n times, at the end a font.
func formsInPDF(n int, pack bool) string {
	objects := []string{
		"<</Type/Page/Contents 2 0 R/Resources<</XObject<</X 3 0 R>>>>>>",
		pdfStream("", "BT (quayle) Tj ET "+strings.Repeat("/X Do ", n), pack),
	}
	for i := range 6 {
		objects = append(objects, pdfStream(fmt.Sprintf("/Subtype/Form/Resources<</XObject<</X %d 0 R>>/Font<</F<</A(%s)>>>>>>", i+4, strings.Repeat("x", n)), strings.Repeat("/F 1 Tf (a) Tj /X Do ", n), pack))
	}
	return pdfOf(append(objects, pdfStream("/Subtype/Form", "(b) Tj", pack))...)
}

// growingInputs has the grammar of each reader.
func growingInputs(t *testing.T) []growing {
	repeat := func(s string) func(int) string {
		return func(n int) string { return strings.Repeat(s, n) }
	}
	between := func(begin, s, end string) func(int) string {
		return func(n int) string { return begin + strings.Repeat(s, n) + end }
	}
	const word = "quaylequaylequaylequaylequayle"
	all := []growing{
		{"tags in JSON", "application/json", between(`{"a":"`+word, "<b>", `"}`)},
		{"escaped tags in JSON", "application/json", between(`{"a":"`+word, `\u003cb\u003e`, `"}`)},
		{"tags in ndjson", "application/x-ndjson", between(`"`+word, "<b>", `"`)},
		{"tags in JSON, not labelled", "", between(`{"a":"`+word, "<b>", `"}`)},
		{"tags in markdown", "text/markdown", between(word, "<b>", "")},
		{"tags in subtitles", "text/vtt", between("WEBVTT\n\n"+word, "<b>", "")},
		{"tags in a script", "text/javascript", between(`a="`+word, "<b>", `"`)},
		{"tags in JSON of a page", "text/html", between(`<script type=application/json>"`+word, "<b>", `"</script>`)},
		{"nested parameters", "application/xml", parameters},
		{"nested parameters in SVG", "image/svg+xml", parameters},
		{"nested parameters in XHTML", "application/xhtml+xml", parameters},
		{"nested parameters within a page", "text/html", func(n int) string { return within("application/xml", parameters(n)) }},
		{"nested entities", "application/xml", func(n int) string { return entitiesIn(n, "x") }},
		{"empty nested entities", "application/xml", func(n int) string { return entitiesIn(n, "") }},
		{"nested entities with markup", "application/xml", func(n int) string { return entitiesIn(n, "<b>x</b>") }},
		{"long names in entities", "application/xml", func(n int) string {
			return "<!DOCTYPE a [<!ENTITY b '&" + strings.Repeat("x", 8*n) + ";'><!ENTITY c '" + strings.Repeat("&b;", n) + "'>]><a>&c;</a>"
		}},
		{"documents in entities of documents", "application/xml", func(n int) string {
			inner := "<!DOCTYPE a [<!ENTITY e \"" + strings.Repeat("x", 1000) + "\"><!ENTITY f \"" + strings.Repeat("&#38;e;", n) + "\">]><a>&#38;f;</a>"
			inner = strings.NewReplacer("&", "&#38;", "'", "&#39;").Replace(inner)
			var b strings.Builder
			b.WriteString("<!DOCTYPE a [<!ENTITY v '" + inner + "'>")
			for i := range min(n, 250) {
				fmt.Fprintf(&b, "<!ENTITY e%d '&v;<b/>'>", i)
			}
			return b.String() + "]><a/>"
		}},
		{"percent signs in a document type", "application/xml", between("<!DOCTYPE a [", "%", "]><a>quayle</a>")},
		{"declarations without an end", "application/xml", between("<!DOCTYPE a [", "<!ENTITY a '", "]><a>quayle</a>")},
		{"attribute lists without an end", "application/xml", between("<!DOCTYPE a [", "<!ATTLIST", "]><a>quayle</a>")},
		{"references without an end", "application/xml", between("<a>", "&a", "</a>")},
		{"inline images without an end", "application/pdf", func(n int) string {
			return pdfOf("<</Type/Page/Contents 2 0 R>>", pdfStream("", strings.Repeat("BI ", n), false))
		}},
		{"streams without an end", "application/pdf", between("%PDF-1.4\n", "7 0 obj<<>>stream", "")},
		{"strings without an end in PDF", "application/pdf", between("%PDF-1.4\n", "7 0 obj(", "")},
		{"comments in PDF", "application/pdf", between("%PDF-1.4\n", "7 0 obj 5 % ", "")},
		{"arrays in PDF", "application/pdf", between("%PDF-1.4\n7 0 obj", "[", "")},
		{"dictionaries in PDF", "application/pdf", between("%PDF-1.4\n7 0 obj", "<</A", "")},
		{"forms in PDF", "application/pdf", func(n int) string { return formsInPDF(n, false) }},
		{"packed forms in PDF", "application/pdf", func(n int) string { return formsInPDF(n, true) }},
		{"fonts in PDF", "application/pdf", func(n int) string {
			return pdfOf("<</Type/Page/Contents 2 0 R/Resources<</Font<</F<</ToUnicode 3 0 R/A("+strings.Repeat("x", n)+")>>>>>>>>",
				pdfStream("", strings.Repeat("/F 1 Tf(a)Tj ", n), true), pdfStream("", "<0000> <FFFF> <0041> endbfrange", false))
		}},
		{"fonts with one table in PDF", "application/pdf", func(n int) string {
			var fonts strings.Builder
			for i := range n {
				fmt.Fprintf(&fonts, "/F%d<</ToUnicode 3 0 R>>", i)
			}
			var uses strings.Builder
			for i := range n {
				fmt.Fprintf(&uses, "/F%d 1 Tf(a)Tj ", i)
			}
			return pdfOf("<</Type/Page/Contents 2 0 R/Resources<</Font<<"+fonts.String()+">>>>>>", pdfStream("", uses.String(), true), pdfStream("", "<0000> <FFFF> <0041> endbfrange", false))
		}},
		{"codes for long texts in PDF", "application/pdf", func(n int) string {
			return pdfOf("<</Type/Page/Contents 2 0 R/Resources<</Font<</F 4 0 R>>>>>>", pdfStream("", "/F 1 Tf("+strings.Repeat("A", n)+")Tj", true),
				pdfStream("", "1 beginbfchar <41> <"+strings.Repeat("0042", n)+"> endbfchar", true), "<</ToUnicode 3 0 R>>")
		}},
		{"annotations in PDF", "application/pdf", func(n int) string {
			return pdfOf("<</Type/Page/Annots["+strings.Repeat("2 0 R ", n)+"]>>", "<</AP<</N 3 0 R>>>>", pdfStream("/Subtype/Form/A("+strings.Repeat("x", n)+")", "("+strings.Repeat("y", n)+")Tj", true))
		}},
		{"pages with one content in PDF", "application/pdf", func(n int) string {
			return pdfOf("["+strings.Repeat("2 0 R ", n)+"]", pdfStream("", "(a)Tj", true), strings.Repeat("endobj 9 0 obj<</Type/Page/Contents 1 0 R>>", 1)+repeated(n, func(i int) string { return fmt.Sprintf("endobj %d 0 obj<</Type/Page/Contents 1 0 R>>", i+10) }))
		}},
		{"one title for all objects of PDF", "application/pdf", func(n int) string {
			return pdfOf("("+strings.Repeat("x", 8*n)+")", repeated(n, func(i int) string { return fmt.Sprintf("endobj %d 0 obj<</Title 1 0 R>>", i+10) }))
		}},
		{"places in PDF", "application/pdf", func(n int) string {
			return "%PDF-1.4\n(" + strings.Repeat("x", 8*n) + "\nxref 0 " + fmt.Sprint(n) + " " + repeated(n, func(i int) string { return "0000000009 00000 n " }) + "trailer<<>>startxref " + fmt.Sprint(11+8*n)
		}},
		{"trailers in PDF", "application/pdf", between("%PDF-1.4\n", "trailer(", "")},
		{"passwords in PDF", "application/pdf", func(n int) string {
			return repeated(n, func(i int) string {
				return fmt.Sprintf("%d 0 obj<</Encrypt<</Filter/Standard/V 5/R 6/U(%s)/UE(%s)>>>>stream\nendstream ", i+1, strings.Repeat("u", 48), strings.Repeat("e", 32))
			})
		}},
		{"overrides", "text/html", repeat("e\u202ex\u202c ")},
		{"overrides without an end", "text/html", between("<p>", "e\u202e", "")},
		{"one override", "text/html", between("\u202e", "ab", "")},
		{"marks", "text/html", between("e", "\u0301", "")},
		{"marks of several kinds", "text/html", between("e", "\u0316\u0300\u0344", "")},
		{"elements that turn text", "text/html", repeat("<bdo dir=rtl>a</bdo>")},
		{"elements in a word", "text/html", between("<style>.h{display:none}</style>a", "<i class=h>b</i>é", "")},
		{"documents in a page", "text/html", repeat("<a href='data:,x'>")},
		{"frames in a page", "text/html", repeat("<iframe srcdoc=x>")},
		{"style sheets in a page", "text/html", repeat("<style>a{}</style>")},
		{"names in style sheets", "text/html", func(n int) string {
			return "<style>" + repeated(n, func(i int) string { return fmt.Sprintf(".a%d{display:none}", i) }) + "</style>" + repeated(n, func(i int) string { return fmt.Sprintf("<i class=a%d>b</i>", i) })
		}},
		{"brackets in a sheet", "text/css", repeat("a{")},
		{"strings in a sheet", "text/css", repeat("a{content:'b'}")},
		{"sheets in sheets", "text/css", func(n int) string { return nestedSheets(min(n, 400)) }},
		{"strings in a script", "text/javascript", repeat("'a'+")},
		{"lists in a script", "text/javascript", repeat("['a'].join('');")},
		{"templates in a script", "text/javascript", repeat("`${")},
		{"shadow roots", "text/html", repeat("<div><template shadowrootmode=open><slot>a")},
		{"slots", "text/html", between("<div><template shadowrootmode=open>", "<slot name=a></slot>x", "</template>")},
		{"tables", "text/html", repeat("<table cellspacing=0 cellpadding=0><td>a")},
		{"comments", "text/html", repeat("<!--")},
		{"ends of comments", "text/html", between("<!--", "-->-", "")},
		{"quotes in tags", "text/html", repeat("<a b=\"")},
		{"CDATA", "text/html", between("<svg>", "<![CDATA[a]]", "")},
		{"scripts in scripts", "text/html", between("<script>", "<!--<script>", "")},
		{"references", "text/html", repeat("&amp")},
		{"long references", "text/html", repeat("&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")},
		{"references in markdown", "text/markdown", repeat("&lt;a&gt;")},
		{"brackets in JSON", "application/json", repeat(`["a",{"b":`)},
		{"backslashes in JSON", "application/json", between(`"`, `\\`, "")},
		{"backslashes and quotes in JSON", "application/json", between(`"`, `\\\"`, "")},
		{"numbers in JSON", "application/json", between("[", "112,", "]")},
		{"base64 in JSON", "application/json", repeat(`"aW5ub2NlbnQgaW5ub2NlbnQg",`)},
		{"long base64 in JSON", "application/json", between(`"`, "aW5ub2NlbnQg", `"`)},
		{"base64", "text/plain", repeat("aW5ub2NlbnQg")},
		{"forms", "application/x-www-form-urlencoded", repeat("a=%e2%82&")},
		{"boundaries", "multipart/form-data; boundary=b", repeat("--b\r\n")},
		{"parts", "multipart/form-data; boundary=b", repeat("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n")},
		{"almost boundaries", "multipart/form-data; boundary=bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", between("\r\n", "\n--bbbbbbbbbbbbbbbbbbbbbbbbbbbbb", "")},
		{"fields of mail", "message/rfc822", repeat("Subject: =?utf-8?q?a?=\r\n")},
		{"folded fields of mail", "message/rfc822", between("Subject: a", "\r\n b", "")},
		{"files in mail", "message/rfc822", between("Subject: x\n\n", "begin 644 a\n#86%A\n`\nend\n", "")},
		{"messages in mail", "message/rfc822", repeat("Content-Type: message/rfc822\n\n")},
		{"groups in RTF", "application/rtf", between(`{\rtf1 `, `{\uc1 a`, "")},
		{"control words in RTF", "application/rtf", between(`{\rtf1 `, `\u97 ?`, "")},
		{"arrays in CBOR", "application/cbor", repeat("\x9f\x61a")},
		{"chunks in CBOR", "application/cbor", between("\x7f", "\x61a", "\xff")},
		{"strings in CBOR", "application/cbor", between("\x9f", "\x43abc", "\xff")},
		{"strings in strings of CBOR", "application/cbor", func(n int) string {
			var b strings.Builder
			for left := n; left > 0; left-- {
				size := 5*left - 3
				fmt.Fprintf(&b, "\x5a%c", 0)
				b.Write([]byte{byte(size >> 16), byte(size >> 8), byte(size)})
			}
			return b.String() + "\x61a"
		}},
		{"files in tar", "application/x-tar", func(n int) string { return tarWithMany(t, n, "x") }},
		{"parts of an office document", docx, func(n int) string { return zipWithMany(t, n, "x") }},
		{"a long part of an office document", docx, func(n int) string {
			return reading.ZIP(t, zip.Store, "", "", "word/document.xml", strings.Repeat("<w:p>a</w:p>", n))
		}},
		{"files in ZIP", "application/zip", func(n int) string {
			var files []string
			for i := range n {
				files = append(files, fmt.Sprint(i, ".svg"), "<svg/>")
			}
			return reading.Archive(t, files...)
		}},
		{"members of gzip", "application/gzip", func(n int) string { return strings.Repeat(string(reading.Gzip("x")), n) }},
		{"UTF-7 and others", "text/html; charset=iso-2022-jp", repeat("\x1b$B$\"\x1b(B")},
		{"multibyte", "text/html; charset=gb18030", repeat("\x81\x30\x81\x30")},
		{"invalid UTF-8", "text/html; charset=utf-8", repeat("\xe2\x82")},
	}
	return all
}

// nestedSheets returns a style sheet in n others.
func nestedSheets(n int) string {
	s := "a{content:'b'}"
	for range n {
		s = "a{b:url(data:text/css," + strings.NewReplacer("%", "%25", ")", "%29", "'", "%27", " ", "%20").Replace(s) + ")}"
		if len(s) > 1<<16 {
			break
		}
	}
	return s
}

// A meter is a follower that measures the text it gets.
type meter struct{ text int }

func (m *meter) Follow(*content.Body) content.Follower { m.text = 0; return m }
func (m *meter) Close()                                {}
func (m *meter) Read(text []byte, fresh int)           { m.text += len(text) - fresh }

// readGrowing reads a body in pieces and returns the length of its text and the processor time.
func readGrowing(t *testing.T, typ string, p []byte, piece int) (text int, took time.Duration) {
	var b content.Body
	var m meter
	b.Reset(content.Describe(typ, ""), content.Limits{Scripts: true})
	defer b.Release()
	b.Follow(&m)
	from := reading.ProcessorTime()
	b.Bound(func() bool { return reading.ProcessorTime()-from > 10*time.Second })
	for len(p) > 0 {
		n := min(piece, len(p))
		b.Append(p[:n])
		p = p[n:]
		if piece < 1<<20 {
			_ = b.Read(t.Context())
		}
	}
	b.Finish()
	_ = b.Read(t.Context())
	took = reading.ProcessorTime() - from
	if b.Unread() == content.TookTooLong {
		t.Errorf("reading %d bytes in pieces of %d took %s", b.Len(), piece, took)
	}
	return m.text, took
}

// Reading any body takes time, and gives text, in proportion to its length. Its grammar may
// refer to parts of it any number of times, or never end.
func TestReadingIsLinear(t *testing.T) {
	race.Without(t)
	const (
		atFirst  = 12 << 10
		mostText = 40               // bytes of text for each byte
		constant = 3 << 20          // and besides
		mostTime = time.Microsecond // for each byte
		atLeast  = 400 * time.Millisecond
	)
	for _, g := range growingInputs(t) {
		t.Run(g.name, func(t *testing.T) {
			n := 4
			for len(g.of(n)) < atFirst && n < 1<<16 {
				n *= 2
			}
			for _, piece := range []int{1 << 30, 1460, 7} {
				var times [3]time.Duration
				for i := range times {
					p := []byte(g.of(n << i))
					var text int
					text, times[i] = readGrowing(t, g.typ, p, piece)
					if text > mostText*len(p)+constant {
						t.Errorf("%d bytes in pieces of %d give %d bytes of text", len(p), piece, text)
					}
					if most := atLeast + mostTime*time.Duration(len(p)); times[i] > most {
						t.Errorf("%d bytes in pieces of %d take %s, more than %s", len(p), piece, times[i], most)
					}
				}
				if times[2] > 10*times[0]+50*time.Millisecond {
					t.Errorf("in pieces of %d, growing by 2 and 4, the input takes %s", piece, times)
				}
			}
		})
	}
}

// mostSteps is the work for a body of n bytes: PDF has the greatest ratio, and each reader a constant.
func mostSteps(n int) int { return 300*n + 16<<20 }

// countedSteps reads a body of n pieces between a beginning and an end, and returns its length, its
// text and the work, in bytes or steps of about the same length.
func countedSteps(t *testing.T, typ string, begin, piece, end []byte, n int) (size, text, steps int) {
	p := append(append(bytes.Clone(begin), bytes.Repeat(piece, n)...), end...)
	var b content.Body
	var m meter
	b.Reset(content.Describe(typ, ""), content.Limits{Scripts: true})
	defer b.Release()
	b.Follow(&m)
	asked := 0
	b.Bound(func() bool { asked++; return asked > mostSteps(len(p))/limit.AskedAfter })
	b.Append(p)
	b.Finish()
	_ = b.Read(t.Context())
	return len(p), m.text, asked * limit.AskedAfter
}

// Whatever the grammar of a body, the work and the text are bounded by its length.
func FuzzReadersEnd(f *testing.F) {
	for _, typ := range []string{"text/html", "application/xml", "application/json", "text/javascript", "text/css", "text/markdown", "application/pdf", "application/rtf", "application/cbor", "message/rfc822", "multipart/mixed; boundary=b", "application/zip", docx, "application/x-www-form-urlencoded", "text/plain"} {
		for _, c := range [][3]string{
			{"<!DOCTYPE a [<!ENTITY % p '%p;'>", "%p;", "]><a>"}, {`{"a":"word`, "<b>", `"}`}, {"%PDF-1.4\n7 0 obj", "<</A[", "endobj"}, {"\u202e", "e\u0301\u202c", ""},
			{"<style>", "a{content:'b'}", "</style><a>"}, {"", "&lt;a", ""}, {"", "`${'a'+", ""}, {"--b\r\n", "\r\n--b\r\nA: b\r\n\r\n", "--b--"}, {`{\rtf1 `, `{\u97 a`, "}"}, {"\x9f", "\x43abc", "\xff"}, {"PK\x03\x04", "PK\x07\x08", "PK\x01\x02"},
		} {
			f.Add(typ, []byte(c[0]), []byte(c[1]), []byte(c[2]), uint16(2000))
		}
	}
	f.Fuzz(func(t *testing.T, typ string, begin, piece, end []byte, n uint16) {
		if len(begin)+len(end) > 4<<10 {
			return
		}
		size, text, steps := countedSteps(t, typ, begin, piece, end, min(int(n), 64<<10/max(1, len(piece))))
		if steps > mostSteps(size) || text > 60*size+8<<20 {
			t.Errorf("%s: %d bytes cause %d steps and %d bytes of text", typ, size, steps, text)
		}
	})
}

// The work for each grammar is bounded, too.
func TestStepsAreBounded(t *testing.T) {
	race.Without(t)
	for _, g := range growingInputs(t) {
		n := 4
		for len(g.of(n)) < 16<<10 && n < 1<<14 {
			n *= 2
		}
		for ; n > 0; n /= 16 {
			if size, text, steps := countedSteps(t, g.typ, nil, []byte(g.of(n)), nil, 1); steps > mostSteps(size) || text > 60*size+8<<20 {
				t.Errorf("%s: %d bytes cause %d steps and %d bytes of text", g.name, size, steps, text)
			}
		}
	}
}

// A tag in JSON repeats the word before it, so text may grow faster than what is read.
func TestTagsInJSONEndAtAnyLength(t *testing.T) {
	for n := 1; n <= prose.LongestWord; n++ {
		word := strings.Repeat("q", n)
		text, _ := readGrowing(t, "application/json", []byte(`{"a":"`+word+strings.Repeat("<b>", 4680)+`"}`), 1<<30)
		if want := 4680 * (n + 3); text < want || text > want+100 {
			t.Errorf("a word of %d letters and 4,680 tags give %d bytes of text, want about %d", n, text, want)
		}
	}
}

// Lists that are too deep must not use up the stack.
func TestDeepListsInPDFEnd(t *testing.T) {
	race.Without(t)
	for _, open := range []string{"[", "<</A"} {
		var b content.Body
		b.Reset(content.Describe("application/pdf", ""), content.Limits{})
		b.Append([]byte("%PDF-1.4\n7 0 obj" + strings.Repeat(open, 15<<20/len(open))))
		b.Finish()
		if _, err := b.Text(); err != nil || b.Unread() != content.Intricate {
			t.Errorf("15 MB of %q: unread %q, error %v; want %q", open, b.Unread(), err, content.Intricate)
		}
		b.Release()
	}
}
