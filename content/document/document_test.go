package document_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

const (
	docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	pptx = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	odt  = "application/vnd.oasis.opendocument.text"
	epub = "application/epub+zip"
)

const mail = "From: =?utf-8?q?Caf=C3=A9?= <a@b.example>\r\nSubject: =?koi8-r?B?8NLJ18XU?=\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"x y\"\r\n\r\npreamble\r\n" +
	"--x y\r\nContent-Type: multipart/alternative; boundary=z\r\n\r\n--z\r\nContent-Type: text/plain; charset=windows-1251\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=CF=F0=E8=E2=\r\n=E5=F2 po=72n\r\n" +
	"--z\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+cG88Yj\r\n5ybjwvYj4=\r\n--z--\r\n" +
	"--x y\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"evil plan.txt\"\r\n\r\nplain words\r\n--x y--\r\nepilogue\r\n"

func TestTextOfDocuments(t *testing.T) {
	for _, c := range []struct{ name, typ, in, want string }{
		{"docx", docx, reading.Archive(t, "[Content_Types].xml", "<x>no</x>", "word/styles.xml", "<w:style w:name='no'/>",
			"word/document.xml", "<?xml version='1.0'?><w:document xmlns:w='x'><w:body><w:p><w:r><w:rPr><w:b/></w:rPr><w:t>po</w:t></w:r><w:r><w:t>rn &#233;</w:t></w:r></w:p><w:p><w:r><w:t>next</w:t><w:tab/><w:t>tab</w:t></w:r></w:p></w:body></w:document>",
			"word/footnotes.xml", "<w:footnotes><w:t>note</w:t></w:footnotes>"), " porn é next tab note "},
		{"xlsx", xlsx, reading.Archive(t, "xl/sharedStrings.xml", "<sst><si><t>one</t></si><si><r><t>tw</t></r><r><t>o</t></r></si></sst>"), " one two "},
		{"pptx", pptx, reading.Archive(t, "ppt/slides/slide1.xml", "<p:sld><a:p><a:r><a:t>slide</a:t></a:r></a:p><a:p><a:t>two</a:t></a:p></p:sld>"), " slide two "},
		{"odt", odt, reading.Archive(t, "content.xml", "<office:document><text:p>po<text:span>rn</text:span><text:s/>x</text:p><text:h>head</text:h></office:document>", "meta.xml", "<m><dc:title>title</dc:title></m>"), " porn x head title "},
		{"epub", epub, reading.Archive(t, "OEBPS/one.xhtml", "<html xmlns='http://www.w3.org/1999/xhtml'><p>po<i>rn</i></p><p>x</p></html>", "OEBPS/two.html", "<p>y"), " porn x y "},
		{"docx as octets", "application/octet-stream", reading.Archive(t, "word/document.xml", "<w:p><w:t>inside</w:t></w:p>"), " inside "},
		{"mail", "message/rfc822", mail, " café a b example привет привет porn porn evil plan txt plain words "},
		{"form", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\nhow to\r\n--b\r\nContent-Disposition: form-data; name=f; filename=\"a.html\"\r\nContent-Type: text/html\r\n\r\n<p>po<b>rn</b>\r\n--b--", " prompt how to f a html porn "},
		{"replaced", "multipart/x-mixed-replace;boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n<p>one</p>\r\n--b\nContent-Type: image/png\n\nzzz\n--b\n\ntwo\n", " one two "},
		{"ranges", "multipart/byteranges; boundary=b", "\r\n--b\r\nContent-Type: text/html\r\nContent-Range: bytes 0-5/100\r\n\r\n<p>one\r\n--b--", " one "},
		{"no boundary", "multipart/mixed", "just text", " just text "},
		{"pdf", "application/pdf", reading.PDF("BT /F1 12 Tf 10 10 Td (po) Tj (rn) Tj 0 -14 Td [(se)-20(x)-300(toy)] TJ T* (\\310\\311\\312 \\(a\\)) Tj <414243> Tj ET"), " porn sex toy éа中 a abc the title "},
		{"pdf moved", "application/pdf", reading.PDF("BT /F1 10 Tf 1 0 0 1 0 0 Tm (po) Tj 1 0 0 1 10 0 Tm (rn) Tj 1 0 0 1 60 0 Tm (x) Tj ET"), " porn x the title "},
		{"pdf as text", "text/plain", reading.PDF("BT (\x01porn) Tj ET"), " porn the title "},
	} {
		if got := reading.Text(t, c.typ, c.in); got != c.want {
			t.Errorf("%s: the text is %q, want %q", c.name, got, c.want)
		}
		r := rand.New(rand.NewPCG(3, 4))
		for range 20 {
			if got, err := reading.In(t, content.Describe(c.typ, ""), []byte(c.in), content.Limits{}, r); got != c.want || err != nil {
				t.Errorf("%s in pieces: the text is %q, %v", c.name, got, err)
				break
			}
		}
	}
}

func TestTextOfARealPDF(t *testing.T) {
	p, err := os.ReadFile("testdata/page.pdf")
	if err != nil {
		t.Fatal(err)
	}
	got := reading.Text(t, "application/pdf", string(p))
	for _, want := range []string{" the quick brown fox ", " forbidden ", " запрещенных игр ", " zweite zeile ", " casino "} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q: %q", want, got)
		}
	}
}

// ledger counts memory that is taken from it.
type ledger struct{ free, taken int64 }

func (l *ledger) Acquire(n int64) bool {
	if n > l.free-l.taken {
		return false
	}
	l.taken += n
	return true
}

func (l *ledger) Release(n int64) { l.taken -= n }

// TestLongDocumentsAreReadAsTheSettingsSay: a document that is read from its end is read to the limit,
// and what is longer than usual is counted.
func TestLongDocumentsAreReadAsTheSettingsSay(t *testing.T) {
	page, err := os.ReadFile("testdata/page.pdf")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Replace(string(page), "%PDF-", strings.Repeat("% padding of a scanned page\n", 20<<20/28)+"%PDF-", 1)
	if !strings.HasPrefix(string(page), "%PDF-") {
		t.Fatal("the document does not begin as PDF does")
	}
	long = string(page) + "\n" + long[:20<<20] + "\n" + string(page)
	for _, c := range []struct {
		ends, free int64
		want       content.Reason
	}{
		{0, 0, content.TooLarge}, {24 << 20, 64 << 20, content.AllRead}, {18 << 20, 64 << 20, content.TooLarge}, {24 << 20, 1 << 20, content.NoCapacity},
	} {
		l := &ledger{free: c.free}
		var b content.Body
		b.Reset(content.Describe("application/pdf", ""), content.Limits{Ends: c.ends, Text: l})
		for at := 0; at < len(long); at += 1 << 20 {
			b.Append([]byte(long[at:min(at+1<<20, len(long))]))
			_ = b.Read(t.Context())
		}
		b.Finish()
		_ = b.Read(t.Context())
		if got := b.Unread(); got != c.want {
			t.Errorf("%d MiB with a limit of %d MiB and %d MiB free: unread %q, want %q", len(long)>>20, c.ends>>20, c.free>>20, got, c.want)
		}
		if text, _ := b.Text(); c.want == content.AllRead && !strings.Contains(string(text), " casino ") {
			t.Error("a long document was not read")
		}
		b.Release()
		if l.taken != 0 {
			t.Errorf("%d bytes are still counted after a document of %d MiB", l.taken, len(long)>>20)
		}
	}
}

func TestDocumentsThatAreNotRead(t *testing.T) {
	locked := []byte(reading.Archive(t, "word/document.xml", "<w:t>x</w:t>"))
	for i := range len(locked) - 4 { // the encryption flag in both headers
		switch string(locked[i : i+4]) {
		case "PK\x03\x04":
			locked[i+6] |= 1
		case "PK\x01\x02":
			locked[i+8] |= 1
		}
	}
	for _, c := range []struct {
		name, typ, in string
		lim           content.Limits
		want          content.Reason
	}{
		{"archive with a password", docx, string(locked), content.Limits{}, content.Encrypted},
		{"encrypted office file", docx, reading.Archive(t, "EncryptedPackage", "x"), content.Limits{}, content.Encrypted},
		{"book with rights management", epub, reading.Archive(t, "META-INF/encryption.xml", "x"), content.Limits{}, content.Encrypted},
		{"archive of programs", "application/zip", reading.Archive(t, "a.exe", "x"), content.Limits{}, content.AllRead},
		{"half an archive", docx, reading.Archive(t, "word/document.xml", "<w:t>x</w:t>")[:60], content.Limits{}, content.Cut},
		{"large archive", docx, reading.Archive(t, "word/document.xml", strings.Repeat("<w:t>x</w:t>", 1000)), content.Limits{Decoded: 2000}, content.TooLarge},
		{"larger than what is kept, and no archive", docx, strings.Repeat("PK\x03\x04", 1000), content.Limits{Whole: 1000}, content.Cut},
		{"pdf with a password", "application/pdf", strings.Replace(reading.PDF(""), "/Root", "/Encrypt 7 0 R/Root", 1), content.Limits{}, content.Encrypted},
		{"plain pdf", "application/pdf", reading.PDF(""), content.Limits{}, content.AllRead},
		{"unknown coding", "text/html", "", content.Limits{}, content.AllRead},
	} {
		var b content.Body
		b.Reset(content.Describe(c.typ, ""), c.lim)
		b.Append([]byte(c.in))
		b.Finish()
		_, _ = b.Text()
		if n, of, why := b.Inspected(); why != c.want || of != int64(len(c.in)) || why == content.AllRead && n != of {
			t.Errorf("%s: inspected %d of %d bytes, reason %q, want %q", c.name, n, of, why, c.want)
		}
		b.Release()
	}
}

func FuzzDocument(f *testing.F) {
	for _, c := range []struct{ typ, in string }{
		{docx, reading.Archive(f, "word/document.xml", "<w:p><w:t>x</w:t></w:p>")}, {"message/rfc822", mail}, {"application/pdf", reading.PDF("BT /F1 12 Tf (x) Tj [(a)-300(b)] TJ ET")},
		{"multipart/form-data; boundary=b", "--b\r\n\r\nx\r\n--b--"}, {"text/css", "a::b{content:'x' \"\\70 y\" attr(z)}/* ' */"}, {"text/xml", "<!DOCTYPE a [<!ENTITY x '&y;&y;'><!ENTITY y 'z'>]><a b='c'>&x;</a>"},
		{"application/pdf", "1 0 obj<</Type/ObjStm/N 2/First 8>>stream\n1 0 2 0 <</Type/Page>>\nendstream"}, {"text/javascript", "var a='\\x70\\u0070`${x}`"},
	} {
		f.Add(c.typ, []byte(c.in), uint64(1))
	}
	f.Add("", []byte(rar5Of(0, "a.txt", "plain", "b.html", "<p>x")), uint64(14))
	f.Add("", []byte(rar4Of(0x30, 0x200, "x\x00\x04\x54\x3F\x40\x41z", "plain")), uint64(15))
	f.Fuzz(func(t *testing.T, typ string, p []byte, seed uint64) {
		lim := content.Limits{Decoded: 1 << 20, Whole: 1 << 20, Scripts: true}
		var b content.Body
		var c reading.Collector
		h := content.Describe(typ, "")
		if h.Invalid() {
			return // read in two ways
		}
		b.Reset(h, lim)
		b.Follow(&c)
		b.Append(p)
		b.Finish()
		if err := b.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		several := h.Invalid()
		b.Release()
		if several {
			return
		}
		want := string(c.All)
		reading.CheckNormal(t, want)
		if got, err := reading.In(t, h, p, lim, rand.New(rand.NewPCG(seed, 0))); got != want || err != nil {
			t.Fatalf("in pieces the text is %q, %v; in one piece %q", got, err, want)
		}
	})
}

// formsIn makes a document whose page shows a word in n nested forms.
func formsIn(n int) string {
	var b strings.Builder
	b.WriteString("%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R/Resources<</XObject<</F 10 0 R>>>>>>endobj\n2 0 obj<<>>stream\n/F Do\nendstream endobj\n")
	for i := range n {
		shown := "/F Do"
		if i == n-1 {
			shown = "BT (porn) Tj ET"
		}
		fmt.Fprintf(&b, "%d 0 obj<</Subtype/Form/Resources<</XObject<</F %d 0 R>>>>>>stream\n%s\nendstream endobj\n", 10+i, 11+i, shown)
	}
	return b.String()
}

// tabled makes a document with a cross-reference table of its objects, and other objects after
// them that are not in the table.
func tabled(document, unnamed string) string {
	var b strings.Builder
	b.WriteString(document + unnamed)
	at := b.Len()
	b.WriteString("xref\n0 1\n0000000000 65535 f \n")
	for n := 1; ; n++ {
		i := strings.Index(document, fmt.Sprintf("\n%d 0 obj", n))
		if i < 0 {
			break
		}
		fmt.Fprintf(&b, "%d 1\n%010d 00000 n \n", n, i+1)
	}
	fmt.Fprintf(&b, "trailer\n<</Size 3/Root 9 0 R>>\nstartxref\n%d\n%%%%EOF\n", at)
	return b.String()
}

func TestDocumentsAreReadOrReported(t *testing.T) {
	page := func(gap, content string) string {
		return "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R>>endobj\n2 0 obj<<>>" + gap + "stream\n" + content + "\nendstream endobj\n"
	}
	const show = "BT (porn) Tj ET"
	var many strings.Builder
	for i := range reading.Limit("mostEntities") + 1 {
		fmt.Fprintf(&many, "<!ENTITY e%d 'x'>", i)
	}
	for _, c := range []struct {
		name, typ, body string
		want            content.Reason // AllRead if the word is read
	}{
		{"forms in forms", "application/pdf", formsIn(reading.Limit("pdfForms")), content.AllRead},
		{"too many of them", "application/pdf", formsIn(reading.Limit("pdfForms") + 1), content.Intricate},
		{"a long dictionary", "application/pdf", "%PDF-1.5\n1 0 obj<</Type/ObjStm/N 1/First 4/X(" + strings.Repeat("x", 5000) + ")>>stream\n3 0 <</Type/Page/Contents 2 0 R>>\nendstream endobj\n2 0 obj<<>>stream\n" + show + "\nendstream endobj\n", content.AllRead},
		{"blanks before a stream", "application/pdf", page(strings.Repeat(" ", 40), show), content.AllRead},
		{"a comment before a stream", "application/pdf", page("%"+strings.Repeat("c", 40)+"\n", show), content.AllRead},
		{"many operands", "application/pdf", page("", "BT "+strings.Repeat("0 ", reading.Limit("pdfArgs"))+"(porn) Tj ET"), content.AllRead},
		{"a long array", "application/pdf", page("", "BT ["+strings.Repeat("0 ", reading.Limit("pdfItems")-1)+"(porn)] TJ ET"), content.AllRead},
		{"too long an array", "application/pdf", page("", "BT ["+strings.Repeat("0 ", reading.Limit("pdfItems"))+"(porn)] TJ ET"), content.Intricate},
		{"arrays too deep", "application/pdf", page("", "BT "+strings.Repeat("[", reading.Limit("pdfDepth")+1)+"(porn)"+strings.Repeat("]", reading.Limit("pdfDepth")+1)+" TJ ET"), content.Intricate},
		{"objects without their end", "application/pdf", "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R>>\n2 0 obj<<>>stream\n" + show + "\nendstream\n", content.AllRead},
		{"the word stream in a string", "application/pdf", "%PDF-1.4\n3 0 obj<</X(stream)>>endobj\n1 0 obj<</Y(endstream stream)/Type/Page/Contents 2 0 R>>endobj\n4 0 obj(stream)\n2 0 obj<<>>stream\n" + show + "\nendstream endobj\n5 0 obj(endstream)endobj\n", content.AllRead},
		{"a stream that names itself an object", "application/pdf", "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R>>endobj\n2 0 obj<<>>stream\n" + show + " 2 0 obj <<>> endobj\nendstream endobj\n", content.AllRead},
		{"a stream of a filter that nobody knows", "application/pdf", "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R>>endobj\n2 0 obj<</Filter/Unknown>>stream\n" + show + "\nendstream endobj\n", content.UnsupportedType},
		{"a second object of the same number that no table names", "application/pdf", tabled(page("", show), "2 0 obj<<>>stream\n\nendstream endobj\n"), content.AllRead},
		{"a page in a second object", "application/pdf", tabled(page("", show), "1 0 obj<</Type/Page>>endobj\n"), content.AllRead},
		{"a second object in a stream of objects that no table names", "application/pdf", tabled(page("", show), "8 0 obj<</Type/ObjStm/N 1/First 4>>stream\n1 0 <</Type/Page>>\nendstream endobj\n"), content.AllRead},
		{"two objects of a number and no table", "application/pdf", page("", show) + "2 0 obj<<>>stream\n\nendstream endobj\n", content.AllRead},
		{"objects changed by a later table", "application/pdf", page("", "") + "2 0 obj<<>>stream\n" + show + "\nendstream endobj\n", content.AllRead},
		{"a long array of a script", "text/javascript", "x=[" + strings.Repeat("'abcdefgh ',", 2000) + "'po','rn'].join('')", content.AllRead},
		{"too long an array of a script", "text/javascript", "x=[" + strings.Repeat("'abcdefgh ',", 20_000) + "'po','rn'].join('')", content.Intricate},
		{"a long array that nothing joins", "text/javascript", "x=[" + strings.Repeat("'abcdefgh ',", 20_000) + "'porn']", content.AllRead},
		{"templates in templates", "text/javascript", "x=" + strings.Repeat("`${", 60) + "`po${'rn'}`" + strings.Repeat("}`", 60), content.AllRead},
		{"too many templates in templates", "text/javascript", "x=" + strings.Repeat("`${", 70) + "`po${'rn'}`" + strings.Repeat("}`", 70), content.Intricate},
		{"RTF in deep groups", "application/rtf", `{\rtf1 ` + strings.Repeat("{", 100) + "porn" + strings.Repeat("}", 101), content.AllRead},
		{"RTF in deep groups that differ", "application/rtf", `{\rtf1 ` + strings.Repeat("{", 100) + `\uc9\u120 {po}rn` + strings.Repeat("}", 101), content.Intricate},
		{"too many entities in a book", epub, reading.Archive(t, "a.xhtml", "<!DOCTYPE a ["+many.String()+"<!ENTITY z 'porn'>]><html>&z;</html>"), content.Intricate},
	} {
		var b content.Body
		b.Reset(content.Describe(c.typ, ""), content.Limits{Scripts: true})
		b.Append([]byte(c.body))
		b.Finish()
		got, err := b.Text()
		if read := strings.Contains(string(got), "porn"); err != nil || b.Unread() != c.want || c.want == content.AllRead && !read {
			t.Errorf("%s: the text is %.90q, %v, unread %q, want %q", c.name, got, err, b.Unread(), c.want)
		}
		b.Release()
	}
}
