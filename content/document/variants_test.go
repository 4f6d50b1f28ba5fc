package document_test

import (
	"archive/zip"
	"bytes"
	"encoding/ascii85"
	"fmt"
	"os"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/test/reading"
)

func objstm() string {
	objs := "1 0 2 37 3 90 "
	o1 := "<</Type/Catalog/Pages 2 0 R>>"
	o2 := "<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F1 5 0 R>>>>>>"
	o3 := "<</Type/Page/Parent 2 0 R/Contents 4 0 R>>"
	objs = fmt.Sprintf("1 0 2 %d 3 %d ", len(o1)+1, len(o1)+len(o2)+2)
	body := objs + o1 + " " + o2 + " " + o3
	z := reading.Zlib(body)
	c := reading.Zlib("BT /F1 12 Tf (porn) Tj ET")
	return fmt.Sprintf("%%PDF-1.5\n9 0 obj\n<</Type/ObjStm/N 3/First %d/Filter/FlateDecode/Length %d>>\nstream\n%s\nendstream\nendobj\n4 0 obj\n<</Filter/FlateDecode/Length %d>>stream\r\n%s\r\nendstream\nendobj\n5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj\n7 0 obj\n<</Type/XRef/Root 1 0 R/Size 10/W[1 2 1]/Length 0>>stream\nendstream\nendobj\n", len(objs), len(z), z, len(c), c)
}

func pdff(filter, data string) string {
	return strings.Replace(reading.PDF("@@@@"), "<</Length 4>>\nstream\n@@@@", fmt.Sprintf("<</Filter %s/Length %d>>\nstream\n%s", filter, len(data), data), 1)
}

func a85(s string) string {
	var b bytes.Buffer
	w := ascii85.NewEncoder(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String() + "~>"
}

func rl(s string) string { return string([]byte{byte(len(s) - 1)}) + s + "\x80" }

const doc1 = "<?xml version='1.0'?><w:document xmlns:w='x'><w:body><w:p><w:r><w:t>porn</w:t></w:r></w:p></w:body></w:document>"

func lzwOf(s string) string {
	// 9-bit codes, clear first, then EOD.
	var bits uint64
	var n uint
	var out []byte
	put := func(c uint64) {
		bits = bits<<9 | c
		n += 9
		for n >= 8 {
			out = append(out, byte(bits>>(n-8)))
			n -= 8
		}
	}
	put(256)
	for i := 0; i < len(s); i++ {
		put(uint64(s[i]))
	}
	put(257)
	if n > 0 {
		out = append(out, byte(bits<<(8-n)))
	}
	return string(out)
}

// variants returns bodies that show one word.
func variants(t *testing.T) []variant {
	show := "BT /F1 12 Tf (porn) Tj ET"
	html := "text/html; charset=utf-8"
	x16 := reading.UTF16("<?xml version='1.0' encoding='utf-16'?><w:document xmlns:w='x'><w:t>porn</w:t></w:document>", false, true)
	return []variant{
		{"pdf objstm", "application/pdf", objstm()},
		{"pdf junk before", "application/pdf", "junk\n" + objstm()},
		{"pdf flate", "application/pdf", pdff("/FlateDecode", reading.Zlib(show))},
		{"pdf Fl", "application/pdf", pdff("/Fl", reading.Zlib(show))},
		{"pdf a85 flate", "application/pdf", pdff("[/ASCII85Decode /FlateDecode]", a85(reading.Zlib(show)))},
		{"pdf A85 Fl", "application/pdf", pdff("[/A85/Fl]", a85(reading.Zlib(show)))},
		{"pdf AHx", "application/pdf", pdff("/ASCIIHexDecode", fmt.Sprintf("%x>", show))},
		{"pdf RL", "application/pdf", pdff("/RunLengthDecode", rl(show))},
		{"pdf RL2", "application/pdf", pdff("/RL", rl(show))},
		{"pdf LZW", "application/pdf", pdff("/LZWDecode", lzwOf(show))},
		{"pdf LZW2", "application/pdf", pdff("[/AHx/LZW]", fmt.Sprintf("%x>", lzwOf(show)))},
		{"pdf Crypt identity", "application/pdf", pdff("[/Crypt/FlateDecode]", reading.Zlib(show))},
		{"pdf name escape", "application/pdf", pdff("/Flate#44ecode", reading.Zlib(show))},
		{"pdf raw deflate truncated", "application/pdf", pdff("/FlateDecode", reading.Zlib(show)[:len(reading.Zlib(show))-4])},
		{"pdf predictor 12", "application/pdf", strings.Replace(reading.PDF("@@@@"), "<</Length 4>>\nstream\n@@@@", "<</Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 25>>/Length 5000>>\nstream\n"+reading.Zlib("\x00"+show), 1)},
		{"pdf wrong length", "application/pdf", strings.Replace(reading.PDF(show), "/Length 25", "/Length 3", 1)},
		{"pdf indirect length", "application/pdf", strings.Replace(reading.PDF(show), "/Length 25", "/Length 20 0 R", 1) + "\n20 0 obj 25 endobj"},
		{"pdf contents array", "application/pdf", strings.Replace(strings.Replace(reading.PDF("BT /F1 12 Tf (po) Tj "), "/Contents 4 0 R", "/Contents[4 0 R 14 0 R]", 1), "trailer", "14 0 obj\n<</Length 10>>stream\n(rn) Tj ET\nendstream\nendobj\ntrailer", 1)},
		{"pdf ' operator", "application/pdf", reading.PDF("BT /F1 12 Tf (porn) ' ET")},
		{"pdf \" operator", "application/pdf", reading.PDF("BT /F1 12 Tf 1 1 (porn) \" ET")},
		{"pdf octal", "application/pdf", reading.PDF("BT /F1 12 Tf (\\160\\157\\162\\156) Tj ET")},
		{"pdf line continuation", "application/pdf", reading.PDF("BT /F1 12 Tf (po\\\nrn) Tj ET")},
		{"pdf inline image", "application/pdf", reading.PDF("BI /W 1 /H 1 /BPC 8 /CS /G ID \x00(( EI BT /F1 12 Tf (porn) Tj ET")},
		{"pdf comment", "application/pdf", reading.PDF("BT % ( hello\n/F1 12 Tf (porn) Tj ET")},
		{"pdf form xobject", "application/pdf", strings.Replace(strings.Replace(reading.PDF("/X Do"), "/Contents 4 0 R", "/Contents 4 0 R/Resources<</XObject<</X 15 0 R>>/Font<</F1 5 0 R>>>>", 1), "trailer", "15 0 obj\n<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 25>>stream\n"+show+"\nendstream\nendobj\ntrailer", 1)},
		{"pdf annotation", "application/pdf", strings.Replace(strings.Replace(reading.PDF("x"), "/Contents 4 0 R", "/Contents 4 0 R/Annots[15 0 R]", 1), "trailer", "15 0 obj\n<</Type/Annot/Subtype/FreeText/Contents(porn)/DA(/F1 12 Tf)/Rect[0 0 9 9]>>\nendobj\ntrailer", 1)},
		{"pdf annotation appearance", "application/pdf", strings.Replace(strings.Replace(reading.PDF("x"), "/Contents 4 0 R", "/Contents 4 0 R/Annots[15 0 R]", 1), "trailer", "15 0 obj\n<</Type/Annot/Subtype/Stamp/AP<</N 16 0 R>>/Rect[0 0 9 9]>>\nendobj\n16 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F1 5 0 R>>>>/Length 25>>stream\n"+show+"\nendstream endobj\ntrailer", 1)},
		{"pdf form field", "application/pdf", strings.Replace(strings.Replace(reading.PDF("x"), "/Pages 2 0 R", "/Pages 2 0 R/AcroForm<</Fields[15 0 R]>>", 1), "trailer", "15 0 obj\n<</FT/Tx/T(a)/V(porn)>>\nendobj\ntrailer", 1)},
		{"pdf outline", "application/pdf", strings.Replace(strings.Replace(reading.PDF("x"), "/Pages 2 0 R", "/Pages 2 0 R/Outlines 15 0 R", 1), "trailer", "15 0 obj\n<</First 16 0 R/Last 16 0 R>>\nendobj 16 0 obj<</Title(porn)/Parent 15 0 R>>endobj\ntrailer", 1)},
		{"pdf utf16 title", "application/pdf", strings.Replace(reading.PDF("x"), "(The Title)", "<FEFF0070006F0072006E>", 1)},
		{"pdf cr only", "application/pdf", strings.ReplaceAll(reading.PDF(show), "\n", "\r")},
		{"docx stored", docx, reading.ZIP(t, zip.Store, "", "", "word/document.xml", doc1)},
		{"docx prefix", docx, reading.ZIP(t, zip.Deflate, "MZ junk", "", "word/document.xml", doc1)},
		{"docx suffix", docx, reading.ZIP(t, zip.Deflate, "", strings.Repeat("z", 300), "word/document.xml", doc1)},
		{"docx upper", docx, reading.ZIP(t, zip.Deflate, "", "", "Word/Document.XML", doc1)},
		{"docx backslash", docx, reading.ZIP(t, zip.Deflate, "", "", "word\\document.xml", doc1)},
		{"docx header", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/header1.xml", doc1)},
		{"docx other main part", docx, reading.ZIP(t, zip.Deflate, "", "", "_rels/.rels", "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'><Relationship Id='r' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument' Target='foo/bar.xml'/></Relationships>", "foo/bar.xml", doc1)},
		{"docx dot slash", docx, reading.ZIP(t, zip.Deflate, "", "", "/word/document.xml", doc1)},
		{"docx utf16", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", x16)},
		{"docx altchunk html", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/afchunk.htm", "<p>porn")},
		{"docx altchunk mht", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/afchunk.mht", "MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<p>porn")},
		{"docx sdt", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<w:document xmlns:w='x'><w:sdt><w:sdtContent><w:t>porn</w:t></w:sdtContent></w:sdt></w:document>")},
		{"docx glossary", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/glossary/document.xml", doc1)},
		{"docx textbox", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/diagrams/data1.xml", "<a:t>porn</a:t>")},
		{"docx chart", docx, reading.ZIP(t, zip.Deflate, "", "", "word/document.xml", "<a/>", "word/charts/chart1.xml", "<c:v>porn</c:v>")},
		{"pptx layout", pptx, reading.ZIP(t, zip.Deflate, "", "", "ppt/slides/slide1.xml", "<a/>", "ppt/slideLayouts/slideLayout1.xml", "<a:t>porn</a:t>")},
		{"pptx master", pptx, reading.ZIP(t, zip.Deflate, "", "", "ppt/slides/slide1.xml", "<a/>", "ppt/slideMasters/slideMaster1.xml", "<a:t>porn</a:t>")},
		{"xlsx inline", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c t='inlineStr'><is><t>porn</t></is></c></row></sheetData></worksheet>")},
		{"xlsx comments", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/comments1.xml", "<comments><t>porn</t></comments>")},
		{"xlsx drawing", xlsx, reading.ZIP(t, zip.Deflate, "", "", "xl/workbook.xml", "<a/>", "xl/drawings/drawing1.xml", "<a:t>porn</a:t>")},
		{"flat odt", "application/vnd.oasis.opendocument.text-flat-xml", "<?xml version='1.0'?><office:document><text:p>porn</text:p></office:document>"},
		{"flat odt xml", "application/xml", "<?xml version='1.0'?><office:document><text:p>po<text:span>rn</text:span></text:p></office:document>"},
		{"odt styles header", odt, reading.ZIP(t, zip.Deflate, "", "", "content.xml", "<a/>", "styles.xml", "<x><style:header><text:p>porn</text:p></style:header></x>")},
		{"odt object", odt, reading.ZIP(t, zip.Deflate, "", "", "content.xml", "<a/>", "Object 1/content.xml", "<text:p>porn</text:p>")},
		{"epub xml spine", epub, reading.ZIP(t, zip.Deflate, "", "", "mimetype", "application/epub+zip", "META-INF/container.xml", "<a/>", "OEBPS/chapter.xml", "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>porn</p></body></html>")},
		{"epub svg", epub, reading.ZIP(t, zip.Deflate, "", "", "OEBPS/a.svg", "<svg xmlns='http://www.w3.org/2000/svg'><text>porn</text></svg>")},
		{"epub no ext", epub, reading.ZIP(t, zip.Deflate, "", "", "OEBPS/chapter", "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>porn</p></body></html>")},
		{"mail folded 2047", "message/rfc822", "Subject: =?utf-8?B?cG8=?=\r\n =?utf-8?B?cm4=?=\r\n\r\nx"},
		{"mail q underscore", "message/rfc822", "Subject: =?utf-8?Q?a_=70=6Frn?=\r\n\r\nx"},
		{"mail uuencode", "message/rfc822", "Subject: x\r\n\r\nHello\r\nbegin 644 a.txt\r\n$<&]R;@  \r\n`\r\nend\r\n"},
		{"mail uuencode html", "message/rfc822", "Subject: x\n\nbegin 0644 a.html\n./' ^<&\\\\8CYR;CPO8CX \n \nend\n"},
		{"mail uuencode coding", "message/rfc822", "Content-Type: application/octet-stream\nContent-Transfer-Encoding: x-uuencode\n\nbegin 644 a.txt\n$<&]R;@  \n`\nend"},
		{"mail begin-base64", "message/rfc822", "Subject: x\n\nbegin-base64 644 a.txt\ncG9ybg==\n====\n"},
		{"mail after a begin", "message/rfc822", "Subject: x\n\nbegin with this\nporn\n"},
		{"mail lf", "message/rfc822", "Subject: porn\n\nx"},
		{"mail 2047 in from quoted", "message/rfc822", "From: \"=?utf-8?Q?porn?=\" <a@b>\r\n\r\nx"},
		{"mail nested", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\nContent-Type: text/plain\r\n\r\nporn\r\n--c--\r\n--b--\r\n--a--"},
		{"mail in mail", "message/rfc822", "Content-Type: multipart/digest; boundary=a\r\n\r\n--a\r\n\r\nSubject: porn\r\n\r\nbody\r\n--a--"},
		{"mail rfc822 base64", "message/rfc822", "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nU3ViamVjdDogcG9ybg0KDQp4\r\n"},
		{"mail boundary prefix", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: multipart/mixed; boundary=ab\r\n\r\n--ab\r\n\r\nporn\r\n--ab--\r\n--a--"},
		{"mail no close", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n\r\nporn"},
		{"mail format flowed", "message/rfc822", "Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\npo \r\nrn\r\n"},
		{"mail rfc2231 name", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Disposition: attachment; filename*0*=utf-8''po; filename*1*=r%6e\r\n\r\nx\r\n--a--"},
		{"mail ct name", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: application/octet-stream; name=\"=?utf-8?Q?porn?=\"\r\n\r\nx\r\n--a--"},
		{"mail attached gzip", "message/rfc822", "Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\nContent-Type: application/gzip\r\n\r\n" + string(reading.Gzip("porn")) + "\r\n--a--"},
		{"mail ct comment", "message/rfc822", "Content-Type: text/html (comment)\r\nContent-Transfer-Encoding: base64 (x)\r\n\r\nPHA+cG9ybg==\r\n"},
		{"mhtml", "multipart/related; boundary=a; type=text/html", "--a\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>po=\r\nrn\r\n--a--"},
		{"mixed-replace no dash", "multipart/x-mixed-replace; boundary=--b", "--b\r\nContent-Type: text/html\r\n\r\n<p>porn</p>\r\n--b\r\n"},
		{"mixed-replace gzip part", "multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + string(reading.Gzip("<p>porn</p>")) + "\r\n--b\r\n"},
		{"meta refresh data", html, "<meta http-equiv=refresh content='0; url=data:text/html,<p>po%72n'>"},
		{"meta refresh data quoted", html, "<meta http-equiv='refresh' content='0;URL=\"data:text/html;base64,PHA+cG9ybg==\"'>"},
		{"srcdoc in srcdoc", html, "<iframe srcdoc=\"<iframe srcdoc='&amp;lt;p>porn'>\"></iframe>"},
		{"data svg img", html, "<object data=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'><text>porn</text></svg>\"></object>"},
		{"css content", html, "<style>p::before{content:\"po\" \"rn\"}</style><p>"},
		{"css attr", html, "<style>p::before{content:attr(data-x)}</style><p data-x=porn>"},
		{"style attribute list marker", html, "<style>li{list-style-type:'porn'}</style><li>"},
		{"css counter", html, "<style>@counter-style a{system:cyclic;symbols:'porn'}li{list-style:a}</style><li>"},
		{"css import data", html, "<style>@import url('data:text/css,p::before{content:\"porn\"}');</style><p>"},
		{"link data css", html, "<link rel=stylesheet href='data:text/css,p::before{content:\"porn\"}'><p>"},
		{"style attr", html, "<p style='--x:\"porn\"'>"},
		{"option label", html, "<select><option label=porn></select>"},
		{"optgroup label", html, "<select><optgroup label=porn></select>"},
		{"track", html, "<video><track default src='data:text/vtt,WEBVTT%0A%0A00:00.000 --> 00:10.000%0Aporn'></video>"},
		{"input button", html, "<input type=button value=porn>"},
		{"input text", html, "<input value=porn>"},
		{"input type empty quotes", html, "<input type='' value=porn>"},
		{"meter", html, "<meter>porn</meter>"},
		{"noframes", html, "<noframes>x</noframes>porn"},
		{"script json", html, "<script type='application/json'>{\"a\":\"p\\u006frn\"}</script>"},
		{"noscript attr", html, "<noscript><img alt='porn'></noscript>"},
		{"ruby", html, "<ruby>x<rt>porn</rt></ruby>"},
		{"wbr", html, "po<wbr>rn"},
		{"combining grapheme", html, "p\u034forn"},
		{"vs", html, "po\ufe01rn"},
		{"nul in tag", html, "<b\x00>porn</b\x00>"},
		{"shadow template", html, "<div><template shadowrootmode=open>porn</template></div>"},
		{"ping math", html, "<math><mtext>porn</mtext></math>"},
		{"svg foreign", html, "<svg><foreignObject><p>porn</p></foreignObject></svg>"},
		{"svg use data", html, "<svg><image href=\"data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg'><text>porn</text></svg>\"/></svg>"},
		{"svg tspan", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><text>po<tspan>rn</tspan></text></svg>"},
		{"svg entities", "image/svg+xml", "<!DOCTYPE svg [<!ENTITY a 'po'><!ENTITY b '&a;rn'>]><svg xmlns='http://www.w3.org/2000/svg'><text>&b;</text></svg>"},
		{"json surrogates", "application/json", `{"a":"\ud835\udcc5orn"}`},
		{"ndjson", "application/x-ndjson", "{\"a\":1}\n{\"b\":\"porn\"}\n"},
		{"json seq", "application/json-seq", "\x1e{\"a\":\"porn\"}\n"},
		{"jsonp", "text/javascript", "cb({\"a\":\"porn\"})"},
		{"geo", "application/vnd.api+json", `{"a":"porn"}`},
		{"json utf16", "application/json", reading.UTF16(`{"a":"porn"}`, false, true)},
		{"csv", "text/csv", "a;b\n\"po\"\"rn\";porn\n"},
		{"srt", "application/x-subrip", "1\n00:00:00,000 --> 00:00:10,000\nporn\n"},
		{"ttml", "application/ttml+xml", "<tt xmlns='http://www.w3.org/ns/ttml'><body><div><p>porn</p></div></body></tt>"},
		{"markdown", "text/markdown", "po**rn** porn"},
		{"yaml", "application/yaml", "a: porn"},
		{"ics", "text/calendar", "BEGIN:VCALENDAR\r\nSUMMARY:po\r\n rn\r\nEND:VCALENDAR"},
		{"vcard", "text/vcard", "BEGIN:VCARD\r\nFN:porn\r\nEND:VCARD"},
		{"wml", "text/vnd.wap.wml", "<wml><card><p>porn</p></card></wml>"},
		{"utf16 xml", "application/xml", reading.UTF16("<a>porn</a>", true, true)},
		{"utf16 html nobom meta", "text/html", reading.UTF16("<html><p>porn</p></html>", false, false)},
		{"utf16 txt", "text/plain", reading.UTF16("porn words", false, true)},
		{"xslt", "text/xml", "<?xml version='1.0'?><?xml-stylesheet type='text/xsl' href='#s'?><x><xsl:stylesheet id='s' xmlns:xsl='http://www.w3.org/1999/XSL/Transform' version='1.0'><xsl:template match='/'><p><xsl:value-of select=\"concat('po','rn')\"/></p></xsl:template></xsl:stylesheet></x>"},
		{"xslt concat", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p><xsl:value-of select="concat('po','rn')"/></p></xsl:template></xsl:stylesheet>`},
		{"xslt values", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p><xsl:value-of select="'po'"/><xsl:value-of select="'rn'"/></p></xsl:template></xsl:stylesheet>`},
		{"xslt text", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p>po<xsl:text>rn</xsl:text></p></xsl:template></xsl:stylesheet>`},
		{"xslt texts", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p><xsl:text>po</xsl:text><xsl:text>rn</xsl:text></p></xsl:template></xsl:stylesheet>`},
		{"xslt text and value", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p>po<xsl:value-of select='"r"'/><xsl:text>n</xsl:text></p></xsl:template></xsl:stylesheet>`},
		{"xslt if", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p>po<xsl:if test='1'>rn</xsl:if></p></xsl:template></xsl:stylesheet>`},
		{"xslt entity", "text/xml", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><p><xsl:value-of select='concat(&quot;po&quot;,&quot;rn&quot;)'/></p></xsl:template></xsl:stylesheet>`},
		{"cdata nesting xml", "application/xml", "<a>po<![CDATA[r]]><![CDATA[n]]></a>"},
		{"xml default attr", "application/xml", "<!DOCTYPE a [<!ATTLIST a b CDATA 'porn'>]><a/>"},
		{"pdf in html object", html, "<embed type='application/pdf' src='data:application/pdf;base64,JVBERi0='>porn"},
		{"x-www-form", "application/x-www-form-urlencoded", "q=po%72n&x=1"},
		{"x-www-form plus", "application/x-www-form-urlencoded", "q=a+porn"},
		{"mathml", "application/mathml+xml", "<math xmlns='http://www.w3.org/1998/Math/MathML'><mi>porn</mi></math>"},
		{"xul", "application/vnd.mozilla.xul+xml", "<x>porn</x>"},
		{"json string top", "application/json", `"porn"`},
		{"manifest", "application/manifest+json", `{"name":"porn"}`},
		{"js as document", "text/javascript", "// porn"},
		{"text/x-foo", "text/x-foo", "porn"},
		{"application/x-foo", "application/x-foo", "<html><p>porn"},
		{"zip html", "application/zip", reading.Archive(t, "a.html", "<p>po<b>rn</b>")},
		{"eml in zip", "application/zip", reading.Archive(t, "a.eml", mail)},
		{"pdf as octet", "application/octet-stream", reading.PDF(show)},
	}
}

// TestVariantsAreRead: text that people see is read, whatever contains it.
func TestVariantsAreRead(t *testing.T) {
	for _, c := range variants(t) {
		var b content.Body
		h := content.Describe(c.Typ, "")
		h.SetUse(content.Document)
		b.Reset(h, content.Limits{})
		b.Append([]byte(c.In))
		b.Finish()
		got, err := b.Text()
		if !bytes.Contains(got, []byte("porn")) && (strings.HasPrefix(c.Name, "xslt") || !bytes.Contains(got, []byte("po rn"))) {
			t.Errorf("%s: the text is %.90q, %v, unread %v", c.Name, got, err, b.Unread())
		}
		b.Release()
	}
}

// TestPDFWithAnEmptyPasswordIsRead: readers open such a PDF without asking; qpdf made these.
func TestPDFWithAnEmptyPasswordIsRead(t *testing.T) {
	for name, want := range map[string]string{
		"rc4-40": "porn here", "rc4-128": "porn here", "aes-128": "porn here", "aes-128-meta": "porn here",
		"aes-256": "porn here", "aes-256-r5": "porn here", "locked": "",
	} {
		p, err := os.ReadFile("testdata/pdf/" + name + ".pdf")
		if err != nil {
			t.Fatal(err)
		}
		var b content.Body
		b.Reset(content.Describe("application/pdf", ""), content.Limits{})
		b.Append(p)
		b.Finish()
		got, err := b.Text()
		if err != nil || !strings.Contains(string(got), want) || (b.Unread() == content.Encrypted) != (want == "") {
			t.Errorf("%s: the text is %q, %v, unread %q", name, got, err, b.Unread())
		}
		b.Release()
	}
}

// TestASecondObjectHidesNothingInAnEncryptedPDF: a second object that is not in the table
// hides nothing in an encrypted PDF either. Its tables are not encrypted.
func TestASecondObjectHidesNothingInAnEncryptedPDF(t *testing.T) {
	for _, name := range []string{"rc4-40", "aes-128", "aes-256"} { // a table of lines, and two that are streams
		p, err := os.ReadFile("testdata/pdf/" + name + ".pdf")
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n < 10; n++ {
			if !bytes.Contains(p, fmt.Appendf(nil, "\n%d 0 obj", n)) {
				continue
			}
			var b content.Body
			b.Reset(content.Describe("application/pdf", ""), content.Limits{})
			b.Append(fmt.Appendf(bytes.Clone(p), "\n%d 0 obj<<>>stream\n\nendstream endobj\n", n))
			b.Finish()
			if got, err := b.Text(); err != nil || !strings.Contains(string(got), "porn here") && b.Unread() != content.Encrypted {
				t.Errorf("%s, object %d: the text is %q, %v, unread %q", name, n, got, err, b.Unread())
			}
			b.Release()
		}
	}
}

// A variant is a way in which a body shows a word.
type variant struct{ Name, Typ, In string }
