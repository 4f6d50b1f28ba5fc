package document_test

import (
	"archive/zip"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

// unreadOf returns the text of a body and why not all of it was read.
func unreadOf(typ, in string, lim content.Limits, piece int) (string, content.Reason) {
	var b content.Body
	b.Reset(content.Describe(typ, ""), lim)
	defer b.Release()
	for len(in) > 0 {
		n := min(piece, len(in))
		b.Append([]byte(in[:n]))
		in = in[n:]
		if _, err := b.Text(); err != nil {
			break
		}
	}
	b.Finish()
	text, _ := b.Text()
	return string(text), b.Unread()
}

// noise does not compress, as pictures do not.
func noise(n int) string {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(p)
	return string(p)
}

const enc = "<encryption xmlns='urn:oasis:names:tc:opendocument:xmlns:container' xmlns:enc='http://www.w3.org/2001/04/xmlenc#'>%s</encryption>"

func encrypted(algorithm, entry string) string {
	return fmt.Sprintf("<enc:EncryptedData><enc:EncryptionMethod Algorithm='%s'/><enc:CipherData><enc:CipherReference URI='%s'/></enc:CipherData></enc:EncryptedData>", algorithm, entry)
}

// Fonts in books are obfuscated; that hides no text.
func TestBooksAreEncryptedWhereTheirTextIs(t *testing.T) {
	const idpf, adobe, aes = "http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC", "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
	for _, c := range []struct {
		name, list string
		want       content.Reason
	}{
		{"nothing", fmt.Sprintf(enc, ""), content.AllRead},
		{"obfuscated fonts", fmt.Sprintf(enc, encrypted(idpf, "OEBPS/a.otf")+encrypted(adobe, "OEBPS/fonts/b.TTF")), content.AllRead},
		{"encrypted pictures", fmt.Sprintf(enc, encrypted(aes, "OEBPS/a.jpg")), content.AllRead},
		{"a chapter", fmt.Sprintf(enc, encrypted(idpf, "OEBPS/a.otf")+encrypted(aes, "OEBPS/one.xhtml")), content.Encrypted},
		{"a chapter with an escape in its name", fmt.Sprintf(enc, encrypted(aes, "OEBPS/one%2Exhtml")), content.Encrypted},
		{"an obfuscated chapter", fmt.Sprintf(enc, encrypted(idpf, "OEBPS/one.xhtml")), content.Encrypted},
		{"a name without a type", fmt.Sprintf(enc, encrypted(aes, "OEBPS/one")), content.Encrypted},
		{"no XML", "<<<<", content.Encrypted},
		{"a very long list", fmt.Sprintf(enc, strings.Repeat(" ", 2<<20)+encrypted(aes, "OEBPS/one.xhtml")), content.Encrypted},
	} {
		for order, files := range [][]string{
			{"META-INF/encryption.xml", c.list, "OEBPS/one.xhtml", "<p>quayle</p>", "OEBPS/a.otf", noise(100)},
			{"OEBPS/one.xhtml", "<p>quayle</p>", "OEBPS/a.otf", noise(100), "META-INF/encryption.xml", c.list},
		} {
			for _, whole := range []int64{0, 64} { // kept, and read as it comes
				text, why := unreadOf(epub, reading.Archive(t, files...), content.Limits{Whole: whole}, 1<<30)
				if why != c.want || c.want == content.AllRead && text != " quayle " {
					t.Errorf("%s, order %d, limit %d: unread %q, want %q; the text is %.80q", c.name, order, whole, why, c.want, text)
				}
			}
		}
	}
}

// What is not read does not count: pictures, and entries without text.
func TestPicturesInDocumentsDoNotCount(t *testing.T) {
	picture := noise(300 << 10)
	var many []string
	for i := range 12_000 {
		many = append(many, fmt.Sprintf("word/media/image%d.png", i), "x")
	}
	const first, last = "<w:p><w:t>quayle</w:t></w:p>", "<w:p><w:t>tern</w:t></w:p>"
	for _, c := range []struct {
		name, typ string
		method    uint16
		files     []string
	}{
		{"DOCX with stored pictures", docx, zip.Store, []string{"word/document.xml", first, "word/media/a.jpg", picture, "word/media/b.png", picture, "word/footnotes.xml", last}},
		{"DOCX with packed pictures", docx, zip.Deflate, []string{"word/document.xml", first, "word/media/a.jpg", picture, "word/media/b.png", picture, "word/footnotes.xml", last}},
		{"PPTX with a film", pptx, zip.Store, []string{"ppt/slides/slide1.xml", first, "ppt/media/a.mp4", picture + picture, "ppt/slides/slide2.xml", last}},
		{"ODP", "application/vnd.oasis.opendocument.presentation", zip.Store, []string{"Pictures/a.png", picture, "content.xml", "<text:p>quayle</text:p>", "meta.xml", "<dc:title>tern</dc:title>"}},
		{"EPUB", epub, zip.Store, []string{"OEBPS/cover.jpg", picture, "OEBPS/1.xhtml", "<p>quayle</p>", "OEBPS/2.xhtml", "<p>tern</p>"}},
		{"many pictures", docx, zip.Store, append(append([]string{"word/document.xml", first}, many...), "word/footnotes.xml", last)},
	} {
		in := reading.ZIP(t, c.method, "", "", c.files...)
		for _, lim := range []content.Limits{{}, {Whole: 100 << 10}} { // kept, and read as it comes
			for _, piece := range []int{1 << 30, 9 << 10} {
				text, why := unreadOf(c.typ, in, lim, piece)
				if why != content.AllRead || text != " quayle tern " {
					t.Errorf("%s, limits %+v, in pieces of %d: unread %q, text %.60q; want all of it", c.name, lim, piece, why, text)
				}
			}
		}
	}
}

// A document above a limit is read up to it.
func TestTheFirstPartOfALargeDocumentIsRead(t *testing.T) {
	long := "<w:p><w:t>quayle</w:t></w:p>" + strings.Repeat("<w:p><w:t>and more</w:t></w:p>", 20_000)
	for name, c := range map[string]struct {
		typ, in string
		lim     content.Limits
		want    content.Reason
	}{
		"a long part":              {docx, reading.Archive(t, "word/document.xml", long), content.Limits{Decoded: 100 << 10}, content.TooLarge},
		"a long sheet":             {xlsx, reading.Archive(t, "xl/sharedStrings.xml", "<sst><si><t>quayle</t></si></sst>", "xl/worksheets/sheet1.xml", "<s>"+strings.Repeat("<row><c><v>1</v></c></row>", 33<<20/26)+"</s>"), content.Limits{}, content.AllRead},
		"a long part, as it comes": {docx, reading.Archive(t, "word/document.xml", long), content.Limits{Decoded: 100 << 10, Whole: 1000}, content.TooLarge},
		"PDF":                      {"application/pdf", reading.PDF("BT (quayle) Tj ET") + strings.Repeat("%", 100<<10), content.Limits{Whole: 50 << 10}, content.TooLarge},
	} {
		if text, why := unreadOf(c.typ, c.in, c.lim, 1<<30); why != c.want || why != content.AllRead && !strings.HasPrefix(text, " quayle ") {
			t.Errorf("%s: unread %q, text %.60q; want %q and the beginning", name, why, text, c.want)
		}
	}
}

// Sheets are numbers for the most part, and the list of strings follows them: they leave room for it.
func TestManySheetsLeaveRoomForTheirText(t *testing.T) {
	sheet := "<sheetData>" + strings.Repeat("<row><c><v>1</v></c></row>", 2000) + "</sheetData>" // 52 kB
	for _, numbers := range []string{"xl/worksheets/sheet%d.xml", "xl/pivotCache/pivotCacheRecords%d.xml"} {
		var files []string
		for i := range 8 {
			files = append(files, fmt.Sprintf(numbers, i), sheet)
		}
		files = append(files, "xl/sharedStrings.xml", "<sst><si><t>quayle</t></si></sst>", "xl/comments1.xml", "<t>tern</t>")
		for _, whole := range []int64{0, 1 << 10} { // kept, and read as it comes
			text, why := unreadOf(xlsx, reading.ZIP(t, zip.Deflate, "", "", files...), content.Limits{Decoded: 200 << 10, Whole: whole}, 9<<10)
			if why != content.TooLarge || !strings.Contains(text, "quayle") || !strings.Contains(text, "tern") || !strings.Contains(text, "1 1") {
				t.Errorf("%s, limit %d: unread %q, text %.40q (%d bytes); want the strings and some numbers", numbers, whole, why, text, len(text))
			}
		}
	}
}

// Drawings have many formats. None of them takes room from the text after it.
func TestDrawingsInDocumentsTakeNoRoom(t *testing.T) {
	drawing := strings.Repeat("\x00\x01", 200<<10)
	for _, ext := range []string{"svm", "emf", "wmf", "bmp", "jpg", "bin", "odttf"} {
		in := reading.ZIP(t, zip.Deflate, "", "", "Pictures/1."+ext, drawing, "content.xml", "<text:p>quayle</text:p>")
		for _, whole := range []int64{0, 100} { // kept, and read as it comes
			text, why := unreadOf("application/vnd.oasis.opendocument.text", in, content.Limits{Decoded: 100 << 10, Whole: whole}, 1<<30)
			if why != content.AllRead || text != " quayle " {
				t.Errorf("%s, limit %d: unread %q, text %.40q; want all of it", ext, whole, why, text)
			}
		}
	}
}
