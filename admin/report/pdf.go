package report

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/image/font/gofont/goregular"

	"shuultuur/text"
)

// PDF writes the report on pages of A4 (ISO 32000-1). The file has one font: Go
// Regular, with Latin, Greek and Cyrillic letters; text can be searched and
// copied. A missing letter is drawn as the most similar one and copied as
// itself; others are a question mark. In languages written from right to left,
// whose letters join, the report is in English.
func (r *Report) PDF(w io.Writer) error {
	if r.texts != nil && r.texts.Dir == "rtl" {
		english := *r
		english.texts = nil
		english.addSentences()
		r = &english
	}
	f, err := readFont(goregular.TTF)
	if err != nil {
		return err
	}
	p := &paper{font: f, texts: r.texts, used: map[uint16]glyph{}}
	p.page()
	p.text(left, 18, r.Title)
	p.y -= 12
	for _, s := range r.Says {
		for _, line := range p.wrap(s, 10.5, right-left) {
			p.line(15)
			p.text(left, 10.5, line)
		}
	}
	p.pictures(r.Pictures)
	for _, t := range r.Tables() {
		p.table(&t)
	}
	return p.write(w)
}

// Places on a sheet of A4, in points.
const (
	width, height = 595.0, 842.0
	left, right   = 50.0, 545.0
	top, bottom   = 780.0, 60.0
	maxPages      = 200
)

type glyph struct {
	rune  rune
	width int // of a thousandth of the size
}

// A paper is a document in the making.
type paper struct {
	font  *font
	texts *text.Texts
	used  map[uint16]glyph
	pages []*bytes.Buffer
	y     float64
}

func (p *paper) page() {
	p.pages = append(p.pages, &bytes.Buffer{})
	p.y = top
}

// line goes down by a line, to the next sheet if this one is full.
func (p *paper) line(by float64) {
	if p.y -= by; p.y < bottom && len(p.pages) < maxPages {
		p.page()
	}
}

// similar has letters of Mongolian, Kazakh and Uzbek that the font lacks.
var similar = strings.NewReplacer("Ө", "Θ", "ө", "θ", "Ү", "Υ", "ү", "γ", "Ұ", "Y", "ұ", "y", "Қ", "К", "қ", "к", "Ғ", "Г", "ғ", "г", "Ң", "Н", "ң", "н", "Ҳ", "Х", "ҳ", "х", "Һ", "h", "һ", "h", "Ә", "Э", "ә", "э", "І", "I", "і", "i")

// glyphOf returns the glyph that draws a letter, and its width.
func (p *paper) glyphOf(r rune) (uint16, int) {
	g := p.font.glyph(r)
	if g == 0 {
		if s := []rune(similar.Replace(string(r))); len(s) == 1 {
			g = p.font.glyph(s[0])
		}
	}
	if g == 0 {
		g = p.font.glyph('?')
	}
	return g, p.font.width(g)
}

func (p *paper) width(s string, size float64) float64 {
	n := 0
	for _, r := range s {
		_, w := p.glyphOf(r)
		n += w
	}
	return float64(n) * size / 1000
}

// text writes at the current line.
func (p *paper) text(x, size float64, s string) {
	var codes strings.Builder
	for _, r := range s {
		if r < ' ' {
			r = ' '
		}
		g, w := p.glyphOf(r)
		if _, known := p.used[g]; !known {
			p.used[g] = glyph{r, w}
		}
		fmt.Fprintf(&codes, "%04X", g)
	}
	// ActualText has the letter itself, so that letters which share a glyph are copied as they
	// are.
	fmt.Fprintf(p.pages[len(p.pages)-1], "/Span <</ActualText <FEFF%s>>> BDC BT /F %.2f Tf %.2f %.2f Td <%s> Tj ET EMC\n", utf16Hex(s), size, x, p.y, codes.String())
}

func utf16Hex(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, "%04X", u)
	}
	return b.String()
}

// wrap breaks a text into lines.
func (p *paper) wrap(s string, size, wide float64) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(s) {
		if next := strings.TrimSpace(line + " " + word); line == "" || p.width(next, size) <= wide {
			line = next
			continue
		}
		lines = append(lines, line)
		line = word
	}
	return append(lines, line)
}

// fit cuts a text that is too wide.
func (p *paper) fit(s string, size, wide float64) string {
	if p.width(s, size) <= wide {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && p.width(string(r)+"…", size) > wide {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

func (p *paper) table(t *Table) {
	p.line(34)
	if p.y < bottom+60 {
		p.page()
	}
	p.text(left, 13, p.texts.Say(t.Title))
	cells := func(size float64, name string, values ...string) {
		p.text(left, size, p.fit(name, size, 270))
		for i, v := range values {
			p.text(400+float64(i)*72-p.width(v, size), size, v)
		}
	}
	head := []string{p.texts.Say("Requests"), p.texts.Say("Blocked")}
	if t.Time {
		head = append(head, p.texts.Say("Online"))
	}
	p.line(18)
	cells(9, p.texts.Say("Name"), head...)
	p.rule()
	for _, l := range t.Lines {
		p.line(14)
		values := []string{strconv.FormatInt(l.Requests, 10), strconv.FormatInt(l.Blocked, 10)}
		if t.Time {
			values = append(values, Hours(p.texts, l.Minutes))
		}
		name := l.Name
		if t.Title == "Categories" {
			name = KindName(p.texts, name)
		}
		cells(10, name, values...)
	}
}

func (p *paper) rule() {
	fmt.Fprintf(p.pages[len(p.pages)-1], "0.7 G 0.5 w %.2f %.2f m %.2f %.2f l S 0 G\n", left, p.y-4, right, p.y-4)
}

func packed(data []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(data) // into memory
	_ = z.Close()
	return b.Bytes()
}

// write puts the document together.
func (p *paper) write(w io.Writer) error {
	var b bytes.Buffer
	var at []int
	object := func(format string, values ...any) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(at)}, values...)...)
	}
	stream := func(more string, data []byte) {
		z := packed(data)
		object("<</Length %d /Filter /FlateDecode%s>>\nstream\n%s\nendstream", len(z), more, z)
	}
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	var kids, widths, maps strings.Builder
	for i := range p.pages {
		fmt.Fprintf(&kids, "%d 0 R ", 8+2*i)
	}
	var glyphs []uint16
	for g := range p.used {
		glyphs = append(glyphs, g)
	}
	slices.Sort(glyphs)
	for _, g := range glyphs {
		fmt.Fprintf(&widths, "%d [%d] ", g, p.used[g].width)
	}
	for part := range slices.Chunk(glyphs, 100) {
		fmt.Fprintf(&maps, "%d beginbfchar\n", len(part))
		for _, g := range part {
			fmt.Fprintf(&maps, "<%04X> <%s>\n", g, utf16Hex(string(p.used[g].rune)))
		}
		maps.WriteString("endbfchar\n")
	}
	object("<</Type /Catalog /Pages 2 0 R /Lang (en)>>")
	object("<</Type /Pages /Kids [%s] /Count %d>>", kids.String(), len(p.pages))
	object("<</Type /Font /Subtype /Type0 /BaseFont /GoRegular /Encoding /Identity-H /DescendantFonts [4 0 R] /ToUnicode 7 0 R>>")
	object("<</Type /Font /Subtype /CIDFontType2 /BaseFont /GoRegular /CIDSystemInfo <</Registry (Adobe) /Ordering (Identity) /Supplement 0>> /FontDescriptor 5 0 R /CIDToGIDMap /Identity /DW 600 /W [%s]>>", widths.String())
	object("<</Type /FontDescriptor /FontName /GoRegular /Flags 4 /FontBBox [-200 -250 1200 1000] /ItalicAngle 0 /Ascent 940 /Descent -210 /CapHeight 720 /StemV 80 /FontFile2 6 0 R>>")
	stream(fmt.Sprintf(" /Length1 %d", len(goregular.TTF)), goregular.TTF)
	stream("", []byte("/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Letters def /CMapType 2 def\n1 begincodespacerange <0000> <FFFF> endcodespacerange\n"+maps.String()+"endcmap end end\n"))
	for i, page := range p.pages {
		object("<</Type /Page /Parent 2 0 R /MediaBox [0 0 %.0f %.0f] /Resources <</Font <</F 3 0 R>>>> /Contents %d 0 R>>", width, height, 9+2*i)
		stream("", page.Bytes())
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d /Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	_, err := w.Write(b.Bytes())
	return err
}
