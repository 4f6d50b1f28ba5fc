package test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/htmlindex"
)

// A renderCase is a response of which a browser may show the word.
type renderCase struct {
	name string
	head string // fields, separated by "\n"; preceded by ":status 302 x" if it is not 200
	body []byte
	word string
}

func (c *renderCase) response() []byte {
	if c.head == rawHead {
		return c.body
	}
	var b bytes.Buffer
	status, head := "200 OK", c.head
	if rest, ok := strings.CutPrefix(head, ":status "); ok {
		status, head, _ = strings.Cut(rest, "\n")
	}
	b.WriteString("HTTP/1.1 " + status + "\r\n")
	for line := range strings.SplitSeq(head, "\n") {
		if line != "" {
			b.WriteString(line + "\r\n")
		}
	}
	b.WriteString("Connection: close\r\n\r\n")
	b.Write(c.body)
	return b.Bytes()
}

const htmlHead = "Content-Type: text/html"

// rawHead marks a case whose body holds all that its origin sends, the head included.
const rawHead = ":raw"

func renderCases(t *testing.T) []renderCase {
	var all []renderCase
	for _, part := range []func(t *testing.T) []renderCase{typeCases, codingCases, labelledCases, guessedCases, markupCases} {
		all = append(all, part(t)...)
	}
	return all
}

// typeCases returns cases about the media type of a body.
func typeCases(*testing.T) (all []renderCase) {
	for _, line := range []string{
		"Content-Type: text/html", "Content-Type: text/plain", "Content-Type:", "", "Content-Type: */*",
		"Content-Type: unknown/unknown", "Content-Type: application/unknown", "Content-Type: Unknown/Unknown", "Content-Type: text", "Content-Type: x",
		"Content-Type: text/html; charset=utf-8\nContent-Type: image/png",
		"Content-Type: image/png\nContent-Type: text/html", "Content-Type: image/png, text/html",
		"Content-Type: text/html, image/png", "Content-Type: text/html, */*", "Content-Type: */*, text/html",
		"Content-Type: text/html\nContent-Type: foo", "Content-Type: text/html\nContent-Type: foo/",
		"Content-Type: text/html\nContent-Type: /bar", "Content-Type: image/png\nContent-Type: */*",
		"Content-Type: text /html", "Content-Type: text/html(comment)", "Content-Type: text/html charset=utf-8",
		"Content-Type: text/html,charset=utf-8", `Content-Type: "text/html"`, "Content-Type: text/html/",
		"Content-Type: text/html\x0b", "Content-Type: text/\x0chtml", "Content-Type: text/html\x0c", "Content-Type: TEXT/HTML", "Content-Type: Text/Html;",
		"Content-Type: application/octet-stream", "Content-Type: application/xhtml+xml", "Content-Type: text/xml",
		"Content-Type: application/xml", "Content-Type: image/svg+xml", "Content-Type: foo/bar+xml", "Content-Type: text/foo",
		"Content-Type: text/css", "Content-Type: text/javascript", "Content-Type: application/javascript", "Content-Type: application/ecmascript",
		"Content-Type: application/json", "Content-Type: application/ld+json", "Content-Type: text/json", "Content-Type: application/manifest+json",
		"Content-Type: application/rss+xml", "Content-Type: text/vtt", "Content-Type: text/xsl", "Content-Type: text/event-stream",
		"Content-Type: text/richtext", "Content-Type: text/markdown", "Content-Type: ;charset=utf-8", "Content-Type: text/html;;;",
		"Content-Type: ,text/html", "Content-Type: text/html,", "Content-Type: text/html, ,", `Content-Type: text/html; x=",image/png`,
		`Content-Type: text/html; x=",", image/png`, "Content-Type: image/png;x=\",\"\nContent-Type: text/html",
		"Content-Type: content-type: text/html", "Content-Type: text/h\xe9tml", "Content-Type: image/png",
		"Content-Type: text/html\n X-Folded: 1", "Content-Type:\n text/html", "Content-Type : text/html", "content-TYPE:text/html",
		"Content-Type: application/atom+xml", "Content-Type: text/csv", "Content-Type: text/x-unknown;charset", "Content-Type: application/pdf",
		"X-Content-Type-Options: nosniff", "X-Content-Type-Options: nosniff, nosniff", "X-Content-Type-Options: NoSniff", "X-Content-Type-Options: foo",
		"X-Content-Type-Options: foo\nX-Content-Type-Options: nosniff", "Content-Type: text/plain\nX-Content-Type-Options: nosniff",
		"Content-Type: unknown/unknown\nX-Content-Type-Options: nosniff", "Content-Type: */*\nX-Content-Type-Options: nosniff",
	} {
		all = append(all, renderCase{"type " + line, line, []byte("<p>porn &lt;x&gt;</p>"), "porn"})
	}
	for _, start := range []string{
		"", "\n\n <!DOCTYPE html>", "<!-- x -->", "<html>", "<HEAD>", "<a>", "<article>", "<img>", "<xyz>", "<?xml version='1.0'?>", "<svg>",
		"\xef\xbb\xbf<html>", "text <html>", "GIF89a<html>", "%PDF-<html>", "\x00<html>", "<html>\x00", "BM<html>", "MZ<html>", "<\x00html>",
		strings.Repeat(" ", 600) + "<html>", strings.Repeat(" ", 1100) + "<html>", "PK\x03\x04<html>", "\x1f\x8b<html>", "{\"x\":1}<html>", "\x0c<p>", "\x01<p>",
	} {
		for _, line := range []string{"", "Content-Type: text/plain", "Content-Type: text/html"} {
			all = append(all, renderCase{fmt.Sprintf("start %.30q of %q", start, line), line, []byte(start + "<p>porn</p>"), "porn"})
		}
	}
	return all
}

func gzipped(p []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func zlibbed(p []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func deflated(p []byte) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func brotlied(p []byte) []byte {
	var b bytes.Buffer
	w := brotli.NewWriter(&b)
	_, _ = w.Write(p)
	_ = w.Close()
	return b.Bytes()
}

func zstded(p []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(p, nil)
}

// gzipMember returns a member with flags and the fields that they announce.
func gzipMember(flags byte, extra string, p []byte) []byte {
	b := append([]byte{0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 255}, extra...)
	b = append(b, deflated(p)...)
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(p))
	return binary.LittleEndian.AppendUint32(b, uint32(len(p)))
}

// codingCases returns cases about decoding.
func codingCases(*testing.T) (all []renderCase) {
	page := []byte("<p>porn</p>" + strings.Repeat("<!-- filling -->", 3))
	add := func(coding string, body []byte) {
		head := htmlHead
		for line := range strings.SplitSeq(coding, "\n") {
			head += "\nContent-Encoding: " + line
		}
		all = append(all, renderCase{fmt.Sprintf("coding %q of %.8x", coding, body), head, body, "porn"})
	}
	gz, zl, br, zs := gzipped(page), zlibbed(page), brotlied(page), zstded(page)
	for _, v := range []string{
		"gzip", "x-gzip", "GZIP", "gzip,", "gzip;q=1", ",gzip", "gzip, identity", "identity, gzip", "identity", "none", "utf-8", "UTF-8",
		"aws-chunked", "foo", "gzip, foo", "foo, gzip", `"gzip"`, "", "*", "8bit", "binary", "text/html", "x-deflate", "deflate", "compress", "exi",
		"gzip, aws-chunked", "aws-chunked, gzip", "chunked", "gzip(c)", "br", "zstd", "dcb", "dcz", "identity\ngzip", "\ngzip", "gzip\n",
	} {
		add(v, gz)
		add(v, page)
	}
	twice := gzipped(gz)
	add("gzip, gzip", twice)
	add("gzip\ngzip", twice)
	add("gzip, deflate", zlibbed(gz))
	add("deflate, gzip", zlibbed(gz))
	add("deflate\ngzip", gzipped(zl))
	add("br, gzip", gzipped(br))
	add("gzip, br, zstd", zstded(brotlied(gz)))
	for n := 5; n <= 11; n++ {
		p := page
		for range n {
			p = gzipped(p)
		}
		add(strings.TrimSuffix(strings.Repeat("gzip,", n), ","), p)
	}
	for _, v := range []string{"deflate", "Deflate"} {
		add(v, zl)
		add(v, deflated(page))
	}
	add("deflate", gz)
	add("deflate", zl[:len(zl)-4])
	add("deflate", append(zl[:len(zl)-4:len(zl)-4], "abcd"...))
	add("deflate", append(zl[:len(zl):len(zl)], "<p>more"...))
	add("gzip", zl)
	add("gzip", gz[:len(gz)-8])
	add("gzip", append(gz[:len(gz)-8:len(gz)-8], "12345678"...))
	add("gzip", append(gz[:len(gz):len(gz)], "garbage"...))
	add("gzip", append(gz[:len(gz):len(gz)], gzipped([]byte("<p>second"))...))
	add("gzip", append(gzipped([]byte("<p>first")), gz...))
	add("gzip", gz[:len(gz)-12])
	for _, c := range []struct {
		flags byte
		extra string
	}{{4, "\x05\x00abcde"}, {8, "name\x00"}, {16, "comment\x00"}, {2, "zz"}, {30, "\x02\x00aaname\x00comment\x00zz"}, {1, ""}, {0xE0, ""}} {
		add("gzip", gzipMember(c.flags, c.extra, page))
	}
	// Bare deflate with a stored block whose header looks like that of zlib.
	stored := append(page[:len(page):len(page)], bytes.Repeat([]byte{' '}, 0x9C-len(page))...)
	bare := append([]byte{0x78, 0x9C, 0, 0x63, 0xFF}, stored...)
	add("deflate", append(bare, 1, 0, 0, 255, 255))
	add("zstd", zs)
	add("ZSTD", zs)
	add("zstd", append(zstded([]byte("<p>first")), zs...))
	add("zstd", append([]byte("\x50\x2A\x4D\x18\x04\x00\x00\x00abcd"), zs...))
	add("zstd", append(zs[:len(zs):len(zs)], "garbage"...))
	add("br", br)
	add("Br", br)
	add("br", append(br[:len(br):len(br)], "garbage"...))
	add("br", br[:len(br)-2])
	all = append(all,
		renderCase{"gzip without type", "Content-Encoding: gzip", gz, "porn"},
		renderCase{"gzip as text", "Content-Type: text/plain\nContent-Encoding: gzip", gz, "porn"},
		renderCase{"gzip without coding", htmlHead, gz, "porn"})
	return all
}

// The words of texts in several charsets, each with its text.
var texts = []struct{ charsets, word, text string }{
	{"windows-1251 koi8-r ibm866 iso-8859-5", "запрещённых", "Это пример страницы о запрещённых азартных играх и прочих вещах, которые нельзя показывать детям в школе."},
	{"windows-1251 koi8-u", "заборонені", "Це приклад сторінки про заборонені азартні ігри та інші речі, які не можна показувати дітям у школі."},
	{"windows-1255 iso-8859-8", "הימורים", "זהו דף לדוגמה על הימורים ודברים אחרים שאסור להראות לילדים בבית הספר"},
	{"windows-1256 iso-8859-6", "القمار", "هذه صفحة مثال عن القمار وأشياء أخرى لا يجوز عرضها على الأطفال في المدرسة"},
	{"windows-1253 iso-8859-7", "τυχερά", "Αυτή είναι μια σελίδα για τυχερά παιχνίδια και άλλα πράγματα που δεν πρέπει να δείχνουμε στα παιδιά"},
	{"windows-1250 iso-8859-2", "przykładowa", "To jest przykładowa strona o grach hazardowych i innych rzeczach, których nie wolno pokazywać dzieciom w szkole żółć gęś jaźń"},
	{"windows-1250 iso-8859-2", "příklad", "Toto je příklad stránky o hazardních hrách a dalších věcech, které se nesmějí ukazovat dětem ve škole"},
	{"windows-1254", "gösterilmemesi", "Bu, kumar ve okulda çocuklara gösterilmemesi gereken diğer şeyler hakkında örnek bir sayfadır ışık ağaç şeker"},
	{"windows-1252", "élèves", "Voici une page d'exemple sur les jeux d'argent que l'on ne doit pas montrer aux élèves à l'école"},
	{"windows-874", "การพนัน", "นี่คือตัวอย่างหน้าเว็บเกี่ยวกับการพนันและสิ่งอื่นๆ ที่ไม่ควรแสดงให้เด็กดูในโรงเรียน"},
	{"gbk gb18030", "赌博", "这是一个关于赌博和其他不应该在学校给孩子们看的东西的示例页面"},
	{"big5", "賭博", "這是一個關於賭博和其他不應該在學校給孩子們看的東西的示例頁面"},
	{"shift_jis euc-jp iso-2022-jp", "ギャンブル", "これは学校で子供に見せてはいけないギャンブルなどの例のページです。カジノの情報"},
	{"euc-kr", "도박", "이것은 학교에서 아이들에게 보여주어서는 안 되는 도박 및 기타 것들에 대한 예제 페이지입니다"},
}

func encoded(t *testing.T, label, text string) []byte {
	t.Helper()
	e, err := htmlindex.Get(label)
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatalf("encoding %q in %s: %v", text, label, err)
	}
	return p
}

// guessedCases have text in a charset that nothing names.
func guessedCases(t *testing.T) (all []renderCase) {
	for _, c := range texts {
		for label := range strings.FieldsSeq(c.charsets) {
			p := encoded(t, label, c.text)
			all = append(all,
				renderCase{"unlabelled " + label, htmlHead, append([]byte("<title>page</title><p>"), p...), c.word},
				renderCase{"unlabelled after English " + label, htmlHead, append([]byte("<body><p>"+strings.Repeat("english text. ", 200)+"</p><p>"), p...), c.word},
				renderCase{"unlabelled text " + label, "Content-Type: text/plain", p, c.word},
				renderCase{"untyped " + label, "", append([]byte("<html><p>"), p...), c.word},
				renderCase{"no such charset " + label, htmlHead + "; charset=foo", append([]byte("<html><p>"), p...), c.word})
		}
	}
	return all
}

// labelledCases name the charset: windows-1251, in a text that would otherwise
// be detected as another one, and koi8-r, whose name is ignored.
func labelledCases(t *testing.T) (all []renderCase) {
	word := "Ябл"
	add := func(name, head string, body []byte) {
		all = append(all, renderCase{name, head, body, word})
	}
	right := append([]byte("<p>x "), encoded(t, "windows-1251", word)...)
	for _, p := range []string{
		"charset=windows-1251", "charset = windows-1251", `charset="windows-1251"`, "charset='windows-1251'", "Charset=WINDOWS-1251", "charset=cp1251",
		"charset=x-cp1251", "charset=windows-1251; charset=utf-8", "charset=utf-8; charset=windows-1251", "charset=foo; charset=windows-1251",
		"charset=;charset=windows-1251", "foo=bar; charset=windows-1251", `x="a;charset=utf-8"; charset=windows-1251`, "charset=windows-1251 foo",
		"charset=windows-1251,utf-8", `charset="windows-1251`, `charset=windows\-1251`, `charset="windows\-1251"`, ";charset=windows-1251",
		"\tcharset=windows-1251", "xcharset=windows-1251", "charset*=windows-1251", "charset=windows-1251(c)", "charset=\x0cwindows-1251", "charset:windows-1251",
		`charset=" windows-1251 "`, "charset=win-1251", "charset\t=windows-1251",
	} {
		add("parameter "+p, htmlHead+"; "+p, right)
	}
	for _, h := range []string{
		"Content-Type: text/html; charset=windows-1251\nContent-Type: text/html",
		"Content-Type: text/html; charset=windows-1251\nContent-Type: text/html; charset=utf-8",
		"Content-Type: text/html; charset=utf-8\nContent-Type: text/html; charset=windows-1251",
		"Content-Type: text/plain; charset=windows-1251\nContent-Type: text/html",
		"Content-Type: text/html\nContent-Type: */*; charset=windows-1251",
		"Content-Type: text/html\nContent-Type: x; charset=windows-1251",
		"Content-Type: ; charset=windows-1251", "Content-Type: charset=windows-1251",
	} {
		add("fields "+h, h, right)
	}
	for _, m := range []string{
		"<meta charset=windows-1251>", "<meta http-equiv=content-type content='text/html; charset=windows-1251'>",
		"<meta content='text/html; charset=windows-1251' http-equiv=content-type>", "<meta content='text/html; charset=windows-1251'>",
		"<META CHARSET = windows-1251 >", "<meta/charset=windows-1251>", "<meta charset=utf-16>", "<meta charset=x-user-defined>",
		"<meta charset=foo><meta charset=windows-1251>", "<meta charset=utf-8><meta charset=windows-1251>",
		"<meta http-equiv=content-type content='charset windows-1251 charset=windows-1251'>", `<meta http-equiv=content-type content='charset="windows-1251'>`,
		"<meta name=x charset=windows-1251>", "<xmeta charset=windows-1251>", "<!-- <meta charset=windows-1251> -->",
		"<script><meta charset=windows-1251></script>", "<title><meta charset=windows-1251></title>", "<style><meta charset=windows-1251></style>",
		"<noscript><meta charset=windows-1251></noscript>", "<textarea><meta charset=windows-1251></textarea>", "<a title='<meta charset=windows-1251>'>",
		"<?xml version='1.0' encoding='windows-1251'?>", "<?xml encoding=windows-1251?>", " <?xml version='1.0' encoding='windows-1251'?>",
		"<meta charset='windows-1251>", "<template><meta charset=windows-1251></template>", "<svg><meta charset=windows-1251></svg>",
		"<body><meta charset=windows-1251>", "</html><meta charset=windows-1251>", "<meta charset=&#119;indows-1251>", `<meta charset="  windows-1251  ">`,
		"<frame><meta charset=windows-1251>", "<plaintext><meta charset=windows-1251>", "<div><meta charset=windows-1251>", "<iframe><meta charset=windows-1251></iframe>",
		"<meta charset=koi8-r><meta charset=windows-1251>", "<script>'<meta charset=koi8-r>'</script><meta charset=windows-1251>",
		"<style><!-- <meta charset=koi8-r> --></style><meta charset=windows-1251>", "<!-- <meta charset=koi8-r> --><meta charset=windows-1251>",
		"<noscript><meta charset=koi8-r></noscript><meta charset=windows-1251>", "<title><meta charset=koi8-r></title><meta charset=windows-1251>",
		"<!--><meta charset=windows-1251>-->", "<meta charset=windows-1251 charset=koi8-r>",
	} {
		add("meta "+m, htmlHead, append([]byte(m), right...))
	}
	for _, n := range []int{900, 1100, 3000, 9000, 40000} {
		for _, c := range []struct{ before, filling, after string }{
			{"<html><head><!--", "x", "-->"}, {"<html><head><script>", " ", "</script>"}, {"<html><head><style>", " ", "</style>"},
			{"<html><body><p>", "x ", "</p>"}, {"", "x ", ""}, {"<head><title>", "x ", "</title>"},
		} {
			page := c.before + strings.Repeat(c.filling, n/len(c.filling)) + c.after + "<meta charset=windows-1251>"
			add(fmt.Sprintf("meta after %d of %s", n, c.before), htmlHead, append([]byte(page), right...))
			add(fmt.Sprintf("wrong meta after %d of %s", n, c.before), htmlHead+"\nX: 1", append([]byte(strings.Replace(page, "windows-1251", "koi8-r", 1)), encoded(t, "windows-1251", "<p>Дерево и ещё другое дерево "+word)...))
		}
	}
	utf16le := func(s string) []byte { return encoded(t, "utf-16le", s) }
	utf16be := func(s string) []byte { return encoded(t, "utf-16be", s) }
	page := "<p>" + word
	add("mark of utf-8", htmlHead+"; charset=windows-1251", []byte("\xef\xbb\xbf"+page))
	add("mark of utf-16le", htmlHead+"; charset=windows-1251", append([]byte("\xff\xfe"), utf16le(page)...))
	add("mark of utf-16be", htmlHead, append([]byte("\xfe\xff"), utf16be(page)...))
	add("mark of utf-16 without type", "", append([]byte("\xff\xfe"), utf16le(page)...))
	add("mark of utf-16 in text", "Content-Type: text/plain", append([]byte("\xff\xfe"), utf16le(page)...))
	add("utf-16le by name", htmlHead+"; charset=utf-16", utf16le(page))
	add("utf-16be by name", htmlHead+"; charset=utf-16be", utf16be(page))
	add("utf-16le without name", htmlHead, utf16le("<p>"+word+" porn"))
	all[len(all)-1].word = "porn"
	add("xml in windows-1251", "Content-Type: application/xml", append([]byte("<?xml version='1.0' encoding='windows-1251'?><a>"), append(encoded(t, "windows-1251", word), "</a>"...)...))
	add("xml in utf-16le", "Content-Type: application/xml", utf16le("<?xml version='1.0'?><a>"+word+"</a>"))
	add("xml in utf-16be", "Content-Type: text/xml", utf16be("<?xml version='1.0' encoding='utf-16'?><a>"+word+"</a>"))
	for _, c := range []struct{ label, page, word string }{
		{"iso-2022-jp", "<p>po\x1b(Jrn", "porn"}, {"iso-2022-jp", "<p>po\x1b(Brn", "porn"}, {"iso-2022-jp", "<p>\x1b$B\x1b(Bporn", "porn"}, {"iso-2022-jp", "\x1b(I<\x1b(B<p>porn", "porn"},
		{"shift_jis", "<p>\x81<b>porn</b>", "porn"}, {"shift_jis", "<p>\xfdporn", "porn"}, {"shift_jis", "<p>\x81\x20porn", "porn"}, {"shift_jis", "<p>p\x80orn", "orn"},
		{"gbk", "<p>\x81<b>porn</b>", "porn"}, {"gbk", "<p>\xffporn", "porn"}, {"gbk", "<p>\x81\x30porn", "porn"}, {"gb18030", "<p>\x81\x30\x81porn", "porn"}, {"gb18030", "<p>\x81\x30\x81\x30porn", "porn"},
		{"big5", "<p>\x81<b>porn</b>", "porn"}, {"big5", "<p>\xffporn", "porn"}, {"big5", "<p>\x87\x7fporn", "porn"},
		{"euc-kr", "<p>\x81<b>porn</b>", "porn"}, {"euc-kr", "<p>\xa1\x20porn", "porn"}, {"euc-jp", "<p>\x8f<b>porn</b>", "porn"}, {"euc-jp", "<p>\x8f\xa1porn", "porn"}, {"euc-jp", "<p>\x8eporn", "porn"},
		{"utf-8", "<p>\xc0porn", "porn"}, {"utf-8", "<p>\xe0\x80porn", "porn"}, {"utf-8", "<p>\xf0\x90\x80porn", "porn"}, {"utf-7", "<p>porn", "porn"}, {"utf-7", "+ADw-p+AD4-porn", "porn"},
		{"x-user-defined", "<p>porn", "porn"}, {"replacement", "<p>porn", "porn"}, {"hz-gb-2312", "<p>porn", "porn"}, {"iso-2022-kr", "<p>porn", "porn"}, {"utf-32", "<p>porn", "porn"},
		{"ebcdic-cp-us", "<p>porn", "porn"}, {"us-ascii", "<p>porn", "porn"}, {"x-sjis", "<p>porn", "porn"}, {"unicode", "<\x00p\x00>\x00p\x00o\x00r\x00n\x00", "porn"},
		{"windows-1252", "<p>p\u00adorn", "p orn"},
	} {
		all = append(all, renderCase{fmt.Sprintf("bytes %q in %s", c.page, c.label), htmlHead + "; charset=" + c.label, []byte(c.page), c.word})
	}
	return all
}

// markupCases returns cases for the places in markup that have text.
func markupCases(*testing.T) (all []renderCase) {
	b64 := base64.StdEncoding.EncodeToString([]byte("<p>porn</p>"))
	for _, page := range []string{
		"p<b>o</b>rn", "po<img>rn", "po<object></object>rn", "po<svg></svg>rn", "po<canvas width=0></canvas>rn", "po<i popover>x</i>rn", "<style>li::after{content:'rn'}</style><ul><li>po<li>x</ul>", "<style>p::after{content:'rn'}</style><p>po<div>x", "p<!-- x -->orn", "p&shy;orn", "p&#8203;orn", "p&#x200b;orn", "p\u200dorn", "p\u2060orn", "po&zwnj;rn", "&#112;&#111;&#114;&#110;", "&#x70&#x6f&#x72&#x6e;",
		"&#0000112;orn", "p&#111orn"[:7] + "orn", "ｐｏｒｎ", "PORN", "Pörn"[:1] + "orn", "<p>po<wbr>rn", "<p>p<span></span>orn", "p<font color=red>or</font>n", "<a href=x>po</a>rn",
		"<noscript>porn</noscript>", "<title>porn</title>x", "<textarea>porn</textarea>", "<textarea><p>porn</textarea>", "<xmp>porn</xmp>", "<xmp><b>porn</xmp>", "<plaintext>porn", "<listing>porn</listing>",
		"<plaintext><b>porn</b>", "<pre>porn</pre>", "<details><summary>porn</summary></details>", "<details open>porn</details>", "<button>porn</button>", "<input value=porn>", "<input type=text value=porn>",
		"<input type=submit value=porn>", "<input type=button value='porn'>", "<input placeholder=porn>", "<textarea placeholder=porn></textarea>", "<option>porn</option>", "<select><option>porn</option></select>",
		"<select><option label=porn></option></select>", "<select><optgroup label=porn><option>x</optgroup></select>", "<img alt=porn src=x>", "<img alt='porn'>", "<img src=/none alt=\"porn\">", "<area alt=porn>", "<object>porn</object>",
		"<object data=/none>porn</object>", "<video>porn</video>", "<audio>porn</audio>", "<canvas>porn</canvas>", "<iframe>porn</iframe>", "<noembed>porn</noembed>", "<noframes>porn</noframes>", "<embed>porn",
		"<svg><text y=20>porn</text></svg>", "<svg><foreignObject width=100 height=50><p>porn</p></foreignObject></svg>", "<svg><title>porn</title></svg>", "<svg><desc>porn</desc></svg>", "<svg><text y=20><![CDATA[porn]]></text></svg>",
		"<svg><text y=20>po<tspan>rn</tspan></text></svg>", "<svg><style>text{fill:red}</style><text y=20>porn</text></svg>", "<svg><style><text>porn</text></style></svg>", "<svg></p><p>porn", "<math><mi>porn</mi></math>", "<math><mtext>porn</mtext></math>",
		"<math><annotation-xml encoding='text/html'><p>porn</p></annotation-xml></math>", "<math><ms>porn</ms></math>", "<svg><script>porn</script></svg>", "<svg><desc><p>porn</desc></svg>",
		"<iframe srcdoc='porn'></iframe>", "<iframe srcdoc=porn></iframe>", "<iframe srcdoc='&lt;p&gt;porn&lt;/p&gt;'></iframe>", "<iframe srcdoc='<p>po<b>rn</b>'></iframe>", "<iframe srcdoc='&amp;#112;orn'></iframe>", "<iframe srcdoc='<iframe srcdoc=porn></iframe>'></iframe>",
		"<iframe srcdoc='<iframe srcdoc=\"&amp;lt;p&amp;gt;porn\"></iframe>'></iframe>",
		"<iframe src='data:text/html,porn'></iframe>", "<iframe src='data:text/html,<p>po%72n'></iframe>", "<iframe src='data:text/html;base64," + b64 + "'></iframe>", "<iframe src='data:text/plain,porn'></iframe>", "<iframe src='data:,porn'></iframe>",
		"<iframe src='DATA:TEXT/HTML;charset=utf-8,porn'></iframe>", "<iframe src='data:text/html;charset=utf-8;base64," + b64 + "'></iframe>", "<iframe src=' data:text/html,porn'></iframe>", "<iframe src='da\nta:text/html,po\nrn'></iframe>", "<iframe src='&#100;ata:text/html,porn'></iframe>",
		"<object data='data:text/html,porn'></object>", "<embed src='data:text/html,porn'>", "<embed type=text/html src='data:text/html,porn'>", "<iframe src='data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\"><text y=\"20\">porn</text></svg>'></iframe>",
		"<iframe src=\"data:application/xhtml+xml,<p xmlns='http://www.w3.org/1999/xhtml'>porn</p>\"></iframe>", "<meta http-equiv=refresh content='0;url=data:text/html,porn'>", "<iframe src='data:text/html;base64," + strings.TrimRight(b64, "=") + "'></iframe>",
		"<img src=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>\">", "<frameset><frame src='data:text/html,porn'></frameset>",
		"<style>p::before{content:'porn'}</style><p>", "<style>p::before{content:\"porn\"}</style><p>x", "<style>p::after{content:'\\70 orn'}</style><p>x", "<style>p::after{content:'po' 'rn'}</style><p>x", "<style>p{--a:'porn'}p::after{content:var(--a)}</style><p>x",
		"<style>li{list-style-type:'porn'}</style><ul><li>x</ul>", "<style>p::after{content:attr(data-x)}</style><p data-x=porn>x", "<style>p::after{content:'po\\\nrn'}</style><p>x", "<style>q{quotes:'porn' 'x'}</style><q>x</q>", "<svg><style>p::before{content:'porn'}</style></svg><p>x",
		"<style>@counter-style a{system:cyclic;symbols:porn;suffix:''}li{list-style:a}</style><ul><li>x</ul>", "<link rel=stylesheet href=\"data:text/css,p::before{content:'porn'}\"><p>x", "<style>@import \"data:text/css,p::before{content:'porn'}\";</style><p>x",
		"<script>x='</script>porn", "<script><!-- <script> </script> porn</script>", "<script><!--\nx</script>porn", "<style></style >porn", "<style><!-- </style>porn", "<title></ti tle></title>porn", "<textarea></textarea\n>porn", "</p x='>'porn'>porn", "<p title='>'>porn", "<p x=\"'>\"porn>porn",
		"<p x=a'>porn</p>'>", "<!-- --!>porn", "<!-->porn-->", "<!--->porn-->", "<!doctype x [<!ENTITY a 'b'>]>porn", "<?x >porn", "<!x >porn", "</ x>porn", "</>porn", "<>porn", "< p>porn", "<![CDATA[x]]>porn", "<![CDATA[ > porn ]]>", "<p/>porn", "<p/x/y=z>porn", "<p =x>porn", "<p ==x>porn",
		"<svg><![CDATA[<]]>porn", "<noscript><!--</noscript>porn<!-- --></noscript>", "<template>porn</template>", "<table>porn<tr>", "<table><tr>x<td>porn", "<select>porn</select>", "<frameset></frameset>porn", "<body></body>porn", "</html>porn", "<head>porn</head>", "<p hidden>x</p>porn",
		"<h1>po</h1><h1>rn</h1>porn", "<div style='display:inline'>po</div><div style='display:inline'>rn</div>", "<ruby>po<rt></rt>rn</ruby>", "p<i></i>o<i></i>r<i></i>n", "<bdo dir=rtl>nrop</bdo>", "&lrm;p&lrm;orn", "p&NoBreak;orn", "p&InvisibleComma;orn", "\u202enrop", "p\u034forn", "ⓟⓞⓡⓝ", "𝐩𝐨𝐫𝐧", "p&#x1D15A;orn"[:1] + "orn",
		"<p aria-label=porn>x", "<div role=img aria-label=porn></div>", "<details><summary>x</summary>porn</details>", "<dialog open>porn</dialog>", "<marquee>porn</marquee>", "<blink>porn</blink>", "<center>porn", "<x-y>porn</x-y>", "<p slot=x>porn", "<div><template shadowrootmode=open>porn</template></div>",
		"<div><template shadowrootmode=open><slot></slot>rn</template>po</div>", "<meter>porn</meter>", "<progress>porn</progress>", "<output>porn</output>", "<datalist><option>porn</datalist>", "<map>porn</map>", "<label>porn</label>", "<fieldset><legend>porn</legend></fieldset>", "<address>porn</address>", "<image alt=porn src=/none>",
		"<a title=porn>porn</a>", "p\x00orn", "<p>p\x00o\x00r\x00n", "<b\x00>porn", "<p title=\"\x00\">porn", "&#0;porn", "&#xD800;porn", "&porn;", "&amp;porn", "&ampporn", "&ltporn", "&notporn", "p&ZeroWidthSpace;orn", "<p>por&#x6E", "p&Tab;orn porn", "<script type=text/plain>x</script>porn", "<style media=none>x</style>porn",
		"<script type=application/ld+json>{\"a\":\"x\"}</script>porn", "<base href='data:text/html,'>porn", "<form><isindex prompt=porn></form>porn", "<keygen>porn", "<bgsound>porn", "<nobr>po</nobr>rn", "<acronym>po</acronym>rn", "<rtc>porn</rtc>", "<menuitem>porn</menuitem>", "<param>porn", "<track>porn",
	} {
		all = append(all, renderCase{fmt.Sprintf("html %q", page), htmlHead + "; charset=utf-8", []byte("<!doctype html><body>" + page), "porn"})
	}
	const xhtml = "<html xmlns='http://www.w3.org/1999/xhtml'><body>"
	xsl := "<?xml-stylesheet type='text/xsl' href='data:text/xsl;base64," + base64.StdEncoding.EncodeToString([]byte(
		`<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><body><p>porn</p></body></html></xsl:template></xsl:stylesheet>`)) + "'?><a/>"
	for _, c := range []struct{ typ, page string }{
		{"application/xhtml+xml", xhtml + "<p>porn</p></body></html>"}, {"application/xml", xhtml + "<p>po<b>rn</b></p></body></html>"}, {"text/xml", "<a>porn</a>"}, {"text/xml", "<a b='porn'/>"}, {"text/xml", "<porn/>"}, {"text/xml", "<a><!-- porn --></a>"},
		{"text/xml", "<a><![CDATA[porn]]></a>"}, {"text/xml", "<a>po<![CDATA[rn]]></a>"}, {"application/xhtml+xml", xhtml + "po<![CDATA[rn]]></body></html>"}, {"text/xml", "<!DOCTYPE a [<!ENTITY x 'porn'>]><a>&x;</a>"}, {"application/xhtml+xml", "<!DOCTYPE html [<!ENTITY x 'po'><!ENTITY y \"&x;rn\">]>" + xhtml + "&y;</body></html>"},
		{"application/xhtml+xml", "<!DOCTYPE html [<!ENTITY x '<p>po&#114;n</p>'>]>" + xhtml + "&x;</body></html>"}, {"application/xhtml+xml", "<!DOCTYPE html [<!ENTITY x '&#38;#112;orn'>]>" + xhtml + "&x;</body></html>"}, {"application/xhtml+xml", "<!DOCTYPE html [<!ENTITY % p '<!ENTITY x \"porn\">'>%p;]>" + xhtml + "&x;</body></html>"},
		{"application/xhtml+xml", xhtml + "p&#111;rn</body></html>"}, {"application/xhtml+xml", xhtml + "<script>x</script>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<style>x</style><title/>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<script/>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<style/>porn</body></html>"},
		{"application/xhtml+xml", xhtml + "<textarea/>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<title/>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<plaintext/>porn</body></html>"}, {"application/xhtml+xml", "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:body><h:p>porn</h:p></h:body></h:html>"},
		{"application/xhtml+xml", "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:body>p<h:b>orn</h:b></h:body></h:html>"}, {"application/xhtml+xml", "<!DOCTYPE html [<!ATTLIST p title CDATA 'porn'>]>" + xhtml + "<p>x</p>porn</body></html>"}, {"application/xhtml+xml", xhtml + "<?x > ?>porn</body></html>"},
		{"application/xhtml+xml", xhtml + "<style>p:before{content:'porn'}</style><p>x</p></body></html>"}, {"application/xhtml+xml", xhtml + "<iframe srcdoc='porn'></iframe></body></html>"}, {"application/xhtml+xml", xhtml + "<noscript>porn</noscript></body></html>"}, {"application/xhtml+xml", xhtml + "<iframe>porn</iframe></body></html>"},
		{"image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>"}, {"image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><foreignObject width='90' height='50'><p xmlns='http://www.w3.org/1999/xhtml'>porn</p></foreignObject></svg>"}, {"image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>po<tspan>rn</tspan></text></svg>"},
		{"text/xml", "<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>porn</text></svg>"}, {"text/xml", xsl}, {"text/xml", "<?xml-stylesheet href='data:text/css,a::before{content:\"porn\"}'?><a/>"}, {"application/rss+xml", "<rss><item><title>porn</title></item></rss>"}, {"text/xml", "<rss><channel><item><title>porn</title></item></channel></rss>"},
		{"application/xml", "<a xmlns:p='x'><p:porn/></a>"}, {"application/xml", "<a><?porn x?></a>"}, {"application/xml", "<a>&lt;porn&gt;</a>"}, {"application/json", `{"a":"porn"}`}, {"application/json", "{\"a\":\"po\u00adrn\"}"}, {"text/css", "p::before{content:'porn'} porn"}, {"text/javascript", "var a='porn'"},
		{"text/plain", "porn"}, {"text/plain", "p<!-- -->orn porn"}, {"text/plain", "p\u200born"}, {"multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b--"}, {"multipart/mixed; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b--"},
	} {
		all = append(all, renderCase{fmt.Sprintf("%s %q", c.typ, c.page), "Content-Type: " + c.typ, []byte(c.page), "porn"})
	}
	_ = hex.EncodeToString
	return all
}
