package document

import (
	"bytes"
	"html"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// This file extracts the text from PDF (ISO 32000-1). Why this package has its own reader:
// existing ones follow cross-reference tables into loops, keep everything they decode, and
// panic on malformed input. This one finds objects by searching for them, so that broken
// tables hide nothing, and the bytes it decodes limit its work.

const (
	pdfFloor   = 1 << 20 // bytes of work for any document
	pdfRatio   = 200     // and for each of its bytes
	pdfObjects = 200_000
	pdfArgs    = 64      // operands kept for an operator; the last ones apply
	pdfMapArgs = 1 << 10 // of an operator in a font's map
	pdfItems   = 1 << 16 // of an array
	pdfKeys    = 1 << 12 // of a dictionary
	pdfDepth   = 32      // nested values
	pdfForms   = 8       // nested forms
	pdfSteps   = 4 << 20 // operators of all pages
	pdfEntry   = 16      // work for an entry of a font's table
	pdfRange   = 256     // codes of a range up to which each has its own entry
	pdfAgain   = 8       // work for a byte of text that is shown again, or that a code stands for

	pdfNoObject = -1 // the number of a table, which is not an object and not encrypted
)

type (
	pdfName string
	pdfRef  int
	pdfDict map[pdfName]any
	pdfWord string // an operator or keyword
)

// A pdfReader reads one document.
type pdfReader struct {
	source *Source
	at     map[int][]byte // bytes from the beginning of each object
	values map[int]any
	fonts  map[any]*pdfFont // by reference or dictionary
	forms  map[pdfForm]*string
	said   *strings.Builder // text of the outermost form that is being run, nil outside forms
	left   int64            // work that may still be done: bytes parsed, decoded and shown
	steps  int
	cut    bool // a limit was reached
	odd    bool // a stream has an unsupported filter
	zlib   io.ReadCloser

	crypt       *pdfCrypt    // nil for a document that is not encrypted
	generations map[int]int  // of objects, if not 0
	packed      map[int]bool // objects in object streams, which are encrypted as a whole

	streams []int          // objects that are streams
	covered map[int][]byte // objects replaced by one in an object stream; nil for one in another such stream
	named   map[int]bool   // objects in a table, none of which is in an object stream
	within  map[int]int    // object streams that contain other objects, according to a table
}

// A pdfForm is a form with the resources that it uses.
type pdfForm struct {
	n         int
	resources uintptr
}

// address returns what distinguishes a dictionary from others, as long as it is kept.
func (d pdfDict) address() uintptr { return reflect.ValueOf(d).Pointer() }

// newPDFReader returns a reader of a document of size bytes. Objects may refer to others any number
// of times, so all work is limited, as decoding is, by the size.
func newPDFReader(s *Source, size int) *pdfReader {
	return &pdfReader{
		source: s, left: min(s.Limits.Decoded, pdfFloor+int64(size)*pdfRatio), steps: pdfSteps,
		at: map[int][]byte{}, values: map[int]any{}, fonts: map[any]*pdfFont{}, forms: map[pdfForm]*string{}, generations: map[int]int{}, packed: map[int]bool{},
		covered: map[int][]byte{}, named: map[int]bool{}, within: map[int]int{},
	}
}

// spend counts n bytes of work, and reports whether more may be done.
func (r *pdfReader) spend(n int) bool {
	if r.left -= int64(n); r.left <= 0 || r.source.Work.Spend(n) {
		r.left, r.cut = 0, true
	}
	return r.left > 0
}

// freshReader returns a reader of the same document that has not unpacked anything.
func (r *pdfReader) freshReader() *pdfReader {
	x := newPDFReader(r.source, 0)
	x.at, x.generations, x.streams = maps.Clone(r.at), maps.Clone(r.generations), r.streams
	for n := range r.packed {
		if x.at[n] = r.covered[n]; x.at[n] == nil {
			delete(x.at, n)
		}
	}
	return x
}

// readPDF adds the text of the pages in p.
func readPDF(s *Source, p []byte) limit.Reason {
	r := newPDFReader(s, len(p))
	first := r.find(p)
	why := r.pages(p)
	if len(first)+len(r.covered) == 0 || why == limit.Encrypted {
		return why
	}
	for _, other := range r.alternatives(p, first) {
		other.left, other.steps, other.cut, other.odd = r.left, r.steps, r.cut, r.odd
		r.addText(" ")
		if again := other.pages(p); again != limit.AllRead {
			why = again
		}
		r = other
	}
	return why
}

// pages adds the text of the pages.
func (r *pdfReader) pages(p []byte) limit.Reason {
	if !r.decrypt(p) {
		return limit.Encrypted
	}
	for _, n := range r.streams {
		if d, _ := r.value(n).(pdfDict); d["Type"] == pdfName("ObjStm") {
			r.unpack(n, d)
		}
	}
	numbers := make([]int, 0, len(r.at))
	for n := range r.at {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if !r.spend(1) {
			break
		}
		d, _ := r.value(n).(pdfDict)
		switch {
		case d["Type"] == pdfName("Page"):
			r.page(d)
		case d["Title"] != nil, d["Subject"] != nil, d["Contents"] != nil && d["Subtype"] != nil, d["T"] != nil && d["FT"] != nil:
			for _, key := range [...]pdfName{"Title", "Subject", "Keywords", "Contents", "V", "TU", "Alt"} {
				if s, ok := r.resolve(d[key]).([]byte); ok && r.spend(pdfAgain*len(s)) {
					r.addText(pdfString(s))
				}
			}
		}
	}
	switch {
	case r.cut:
		return limit.Intricate
	case r.odd:
		return limit.UnsupportedType
	}
	return limit.AllRead
}

// decrypt determines how the document p is encrypted. It returns false if reading requires a
// password.
func (r *pdfReader) decrypt(p []byte) bool {
	var trailers []pdfDict
	for _, n := range r.streams {
		if d, _ := r.value(n).(pdfDict); d["Encrypt"] != nil && len(trailers) < pdfDepth {
			trailers = append(trailers, d)
		}
	}
	for rest, n := p, 0; n < pdfDepth; n++ {
		i := bytes.LastIndex(rest, []byte("trailer"))
		if i < 0 {
			break
		}
		x := r.lexer(rest[i+len("trailer"):])
		if d, _ := x.value(0).(pdfDict); d["Encrypt"] != nil {
			trailers = append(trailers, d)
		}
		if rest = rest[:i]; !r.spend(x.i) {
			break
		}
	}
	for _, d := range trailers {
		id, _ := r.resolve(d["ID"]).([]any)
		var first []byte
		if len(id) > 0 {
			first, _ = r.resolve(id[0]).([]byte)
		}
		if c := newPDFCrypt(r, r.dict(d["Encrypt"]), first); c != nil {
			clear(r.values) // the strings in them are encrypted
			r.crypt = c
			return true
		}
	}
	return len(trailers) == 0
}

// find finds where objects begin and which are streams. If several have the same number, as in
// a document that was changed, the last one applies; first has the first ones.
func (r *pdfReader) find(p []byte) (first map[int][]byte) {
	first = map[int][]byte{}
	ends := true // there may be another endstream
	for i, found := 0, 0; ; {
		k := bytes.Index(p[i:], []byte("obj"))
		if k < 0 {
			return first
		}
		i += k + 3
		n, generation, ok := objectNumber(p[max(0, i-30) : i-3])
		if !ok {
			continue
		}
		if found++; found > pdfObjects || r.left <= 0 {
			r.cut = true
			return first
		}
		if old, again := r.at[n]; again && first[n] == nil {
			first[n] = old
		}
		r.at[n] = p[i:]
		if delete(r.generations, n); generation != 0 {
			r.generations[n] = generation
		}
		// There are no objects in a stream. Its length is not known yet if it is in another
		// object.
		x := r.lexer(p[i:])
		v := x.value(0)
		r.values[n] = v
		d, ok := v.(pdfDict)
		x.skip()
		if r.spend(x.i); !ok || !bytes.HasPrefix(x.p[x.i:], []byte("stream")) {
			continue
		}
		r.streams = append(r.streams, n)
		at := i + x.i + len("stream")
		if size, ok := d["Length"].(float64); ok && size >= 0 {
			for skip := range 3 { // the end of the line
				if end := at + skip + int(size); end <= len(p) && endsStream(p[end:]) {
					i = end
					break
				}
			}
		}
		if ends {
			e := bytes.Index(p[max(i, at):], []byte("endstream"))
			if ends = e >= 0; ends {
				i = max(i, at) + e
			}
		}
	}
}

// objectNumber parses "12 0 ", a number and a generation, at the end of p.
func objectNumber(p []byte) (n, generation int, ok bool) {
	f := bytes.Fields(p)
	if len(f) < 2 || !ascii.IsSpace(p[len(p)-1]) && p[len(p)-1] != 0 {
		return 0, 0, false
	}
	g, err := strconv.ParseUint(string(f[len(f)-1]), 10, 16)
	if err != nil {
		return 0, 0, false
	}
	s := f[len(f)-2]
	for i := len(s); i > 0; i-- {
		if s[i-1] < '0' || s[i-1] > '9' {
			s = s[i:]
			break
		}
	}
	number, err := strconv.ParseUint(string(s), 10, 31)
	return int(number), int(g), err == nil
}

// value returns object n without its stream.
func (r *pdfReader) value(n int) any {
	if v, ok := r.values[n]; ok {
		return v
	}
	at, ok := r.at[n]
	if !ok {
		return nil
	}
	r.values[n] = nil // in case it refers to itself
	if r.left <= 0 {
		r.cut = true
		return nil
	}
	x := r.lexer(at)
	v := x.value(0)
	r.spend(x.i)
	if r.crypt != nil && !r.packed[n] {
		v = r.crypt.value(v, n, r.generations[n])
	}
	r.values[n] = v
	return v
}

func (r *pdfReader) resolve(v any) any {
	for range pdfDepth {
		ref, ok := v.(pdfRef)
		if !ok {
			return v
		}
		v = r.value(int(ref))
	}
	r.cut = true
	return nil
}

func (r *pdfReader) dict(v any) pdfDict {
	d, _ := r.resolve(v).(pdfDict)
	return d
}

// endsStream reports whether p follows a stream. A wrong length is ignored, as by other
// readers.
func endsStream(p []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(p[:min(len(p), 32)], "\x00\t\n\f\r "), []byte("endstream"))
}

// stream returns the decoded stream of an object.
func (r *pdfReader) stream(n int) []byte {
	if !r.spend(1) {
		return nil
	}
	at := r.at[n]
	x := r.lexer(at)
	d, _ := x.value(0).(pdfDict)
	x.skip()
	i := bytes.Index(at[x.i:min(len(at), x.i+32)], []byte("stream"))
	if !r.spend(x.i) || d == nil || i < 0 || i > 16 {
		return nil
	}
	p := at[x.i+i+len("stream"):]
	p = bytes.TrimPrefix(bytes.TrimPrefix(p, []byte("\r")), []byte("\n"))
	if size, ok := r.resolve(d["Length"]).(float64); ok && size >= 0 && int(size) <= len(p) && endsStream(p[int(size):]) {
		p = p[:int(size)]
	} else if end := bytes.Index(p, []byte("endstream")); end >= 0 {
		p = p[:end]
	}
	if !r.spend(len(p)) {
		return nil
	}
	if c := r.crypt; c != nil && n != pdfNoObject && !r.packed[n] && !r.identity(d) {
		p = c.undo(c.streams, p, n, r.generations[n])
	}
	return r.unfilter(p, d)
}

// identity reports whether the stream of a dictionary is not encrypted.
func (r *pdfReader) identity(d pdfDict) bool {
	filters := r.list(d["Filter"])
	if len(filters) == 0 || r.resolve(filters[0]) != pdfName("Crypt") {
		return false
	}
	parms := r.list(d["DecodeParms"])
	if len(parms) == 0 {
		return true
	}
	name := r.resolve(r.dict(parms[0])["Name"])
	return name == nil || name == pdfName("Identity")
}

func unhexed(p []byte) (out []byte) {
	high := rune(-1)
	for _, c := range p {
		if c == '>' {
			break
		}
		d := rune(ascii.Unhex(c))
		switch {
		case d < 0:
		case high < 0:
			high = d
		default:
			out = append(out, byte(high<<4|d))
			high = -1
		}
	}
	if high >= 0 {
		out = append(out, byte(high<<4))
	}
	return out
}

func un85(p []byte) (out []byte) {
	var v uint32
	n := 0
	for _, c := range p {
		switch {
		case c == '~':
			if n > 1 {
				for k := n; k < 5; k++ {
					v = v*85 + 84
				}
				out = append(out, []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8)}[:n-1]...)
			}
			return out
		case c == 'z' && n == 0:
			out = append(out, 0, 0, 0, 0)
		case c >= '!' && c <= 'u':
			v = v*85 + uint32(c-'!')
			if n++; n == 5 {
				out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
				v, n = 0, 0
			}
		}
	}
	return out
}

// unpack records where the objects in an object stream begin.
func (r *pdfReader) unpack(n int, d pdfDict) {
	p := r.stream(n)
	count, _ := r.resolve(d["N"]).(float64)
	first, _ := r.resolve(d["First"]).(float64)
	if first < 0 || int(first) > len(p) {
		return
	}
	x := r.lexer(p[:int(first)])
	r.cut = r.cut || count > pdfObjects
	for range int(min(count, pdfObjects)) {
		number, ok1 := x.value(0).(float64)
		at, ok2 := x.value(0).(float64)
		if !ok1 || !ok2 || at < 0 || int(first)+int(at) > len(p) {
			return
		}
		if len(r.at) >= pdfObjects {
			r.cut = true
			return
		}
		if in, known := r.within[int(number)]; r.named[int(number)] || known && in != n {
			continue
		}
		if old := r.at[int(number)]; !r.packed[int(number)] && old != nil {
			r.covered[int(number)] = old
		} else if _, known := r.covered[int(number)]; old != nil && !known {
			r.covered[int(number)] = nil
		}
		r.at[int(number)], r.packed[int(number)] = p[int(first)+int(at):], true
		delete(r.values, int(number))
	}
}

// page adds the text of a page.
func (r *pdfReader) page(d pdfDict) {
	resources := r.dict(d["Resources"])
	for up, n := d, 0; resources == nil && n < pdfDepth; n++ {
		if up = r.dict(up["Parent"]); up == nil {
			break
		}
		resources = r.dict(up["Resources"])
		r.cut = r.cut || resources == nil && n == pdfDepth-1
	}
	var content []byte
	refs, _ := r.resolve(d["Contents"]).([]any)
	if refs == nil {
		refs = []any{d["Contents"]}
	}
	for _, v := range refs {
		if r.left <= 0 {
			break
		}
		if ref, ok := v.(pdfRef); ok && r.spend(1) {
			content = append(append(content, r.stream(int(ref))...), '\n')
		}
	}
	r.run(content, resources, 0)
	r.addText(" ")
	for _, v := range r.list(d["Annots"]) {
		if !r.spend(1) {
			return
		}
		r.appearance(r.dict(r.dict(r.dict(v)["AP"])["N"]), r.dict(r.dict(v)["AP"])["N"], resources)
	}
}

// addText adds text.
func (r *pdfReader) addText(s string) {
	if r.source.Out.WriteUTF8(s); r.said != nil {
		r.said.WriteString(s)
	}
}

// run executes the operators of a page or form that show text. Long because it has a case for
// each of them.
func (r *pdfReader) run(p []byte, resources pdfDict, deep int) {
	x := r.lexer(p)
	var font *pdfFont
	var args []any
	line := pdfLine{size: 1}
	ends := true // there may be another EI
	for x.i < len(p) && r.steps > 0 && r.left > 0 {
		from := x.i
		v := x.value(0)
		if r.source.Work.Spend(x.i - from) {
			break
		}
		op, ok := v.(pdfWord)
		if !ok {
			if args = append(args, v); len(args) > pdfArgs {
				args = args[:copy(args, args[pdfArgs/2:])]
			}
			continue
		}
		r.steps--
		n := func(i int) float64 {
			if i < len(args) {
				f, _ := args[i].(float64)
				return f
			}
			return 0
		}
		switch op {
		case "Tf":
			if k := len(args) - 2; k >= 0 {
				name, _ := args[k].(pdfName)
				font = r.font(r.dict(resources["Font"])[name])
				line.size = n(k + 1)
			}
		case "BT":
			line.startX, line.startY = 0, 0
		case "Td", "TD":
			r.gap(line.place(line.startX+n(0), line.startY+n(1)))
		case "Tm":
			scale := n(0)
			if scale == 0 {
				scale = 1
			}
			r.gap(line.place(n(4)/scale, n(5)/scale))
		case "T*":
			r.addText(" ")
		case "Tj", "'", "\"":
			if op != "Tj" {
				r.addText(" ")
			}
			if len(args) > 0 {
				r.show(font, args[len(args)-1], &line)
			}
		case "TJ":
			if len(args) > 0 {
				list, _ := args[len(args)-1].([]any)
				for _, v := range list {
					if f, ok := v.(float64); ok {
						r.gap(f < -180)
						line.endX -= f / 1000 * line.size
						continue
					}
					r.show(font, v, &line)
				}
			}
		case "Do":
			if len(args) > 0 {
				r.form(r.dict(resources["XObject"]), args[len(args)-1], resources, deep)
			}
		case "BI": // an inline image
			if ends {
				k := bytes.Index(p[x.i:], []byte("EI"))
				if ends = k >= 0; ends {
					x.i += k + 2
				}
			}
		}
		args = args[:0]
	}
	r.cut = r.cut || r.steps <= 0
}

func (r *pdfReader) form(all pdfDict, name any, resources pdfDict, deep int) {
	key, _ := name.(pdfName)
	ref, ok := all[key].(pdfRef)
	d := r.dict(ref)
	if !ok || d["Subtype"] != pdfName("Form") && d["BBox"] == nil {
		return
	}
	if deep == pdfForms {
		r.cut = true
		return
	}
	if own := r.dict(d["Resources"]); own != nil {
		resources = own
	}
	r.runForm(int(ref), resources, deep)
}

// runForm adds the text of a form. It is run once; each further use repeats its text.
func (r *pdfReader) runForm(n int, resources pdfDict, deep int) {
	key := pdfForm{n, resources.address()}
	text, known := r.forms[key]
	switch {
	case known && text == nil: // it uses itself
		r.cut = true
	case known:
		if r.spend(1 + pdfAgain*len(*text)) {
			r.addText(*text)
		}
	default:
		r.forms[key] = nil
		if r.said == nil {
			r.said = &strings.Builder{}
			defer func() { r.said = nil }()
		}
		from := r.said.Len()
		r.run(r.stream(n), resources, deep+1)
		said := strings.Clone(r.said.String()[from:])
		r.forms[key] = &said
	}
}

// appearance adds the text of an annotation's appearance: a form, or one for each of its
// states.
func (r *pdfReader) appearance(d pdfDict, v any, resources pdfDict) {
	if d["Subtype"] != nil || d["BBox"] != nil {
		r.form(pdfDict{"N": v}, pdfName("N"), resources, 0)
		r.addText(" ")
		return
	}
	if !r.spend(16 * len(d)) {
		return
	}
	for _, state := range slices.Sorted(maps.Keys(d)) {
		r.form(d, state, resources, 0)
		r.addText(" ")
	}
}

func (r *pdfReader) gap(is bool) {
	if is {
		r.addText(" ")
	}
}

func (r *pdfReader) show(f *pdfFont, v any, line *pdfLine) {
	s, ok := v.([]byte)
	if !ok {
		return
	}
	if f == nil {
		f = &pdfFont{bytes: 1}
	}
	text, width := f.decode(s, int64(len(s))+r.left/pdfAgain)
	line.endX += width / 1000 * line.size
	if r.spend(pdfAgain * max(0, len(text)-len(s))) { // the bytes of s were counted when they were decoded
		r.addText(text)
	}
}

// A pdfLine is the position of text, for deciding whether the next text continues it. Lengths
// are those of the text.
type pdfLine struct{ startX, startY, endX, endY, size float64 }

// place moves to another position and reports whether there is a gap before it.
func (l *pdfLine) place(x, y float64) bool {
	gap := max(y-l.endY, l.endY-y) > 0.3*l.size || x-l.endX > 0.15*l.size || x < l.endX-l.size
	*l = pdfLine{x, y, x, y, l.size}
	return gap
}

// A pdfFont maps the codes in a string to text.
type pdfFont struct {
	bytes  int // of a code
	text   map[int]string
	ranges []pdfCodes // of text, larger ones
	widths map[int]float64
	wide   float64 // of all others
}

// pdfCodes are successive codes, whose texts differ in the last character.
type pdfCodes struct {
	from, to int
	text     []rune // of the first
}

// textOf returns the text for a code.
func (f *pdfFont) textOf(code int) (string, bool) {
	if t, ok := f.text[code]; ok || len(f.ranges) == 0 {
		return t, ok
	}
	for _, g := range slices.Backward(f.ranges) {
		if code >= g.from && code <= g.to {
			n := len(g.text) - 1
			return string(g.text[:n]) + string(g.text[n]+rune(code-g.from)), true
		}
	}
	return "", false
}

func (r *pdfReader) font(v any) *pdfFont {
	d := r.dict(v)
	var key any = d.address()
	if ref, ok := v.(pdfRef); ok {
		key = ref
	}
	if f, ok := r.fonts[key]; ok {
		return f
	}
	f := &pdfFont{bytes: 1, text: map[int]string{}, widths: map[int]float64{}, wide: 500}
	if d["Subtype"] == pdfName("Type0") {
		f.bytes, f.wide = 2, 1000
		if list, ok := r.resolve(d["DescendantFonts"]).([]any); ok && len(list) > 0 {
			f.wideWidths(r, r.dict(list[0]))
		}
	}
	first, _ := r.resolve(d["FirstChar"]).(float64)
	if widths, ok := r.resolve(d["Widths"]).([]any); ok {
		for i, w := range widths[:min(len(widths), 1<<16)] {
			if !r.spend(pdfEntry) {
				break
			}
			f.widths[int(first)+i], _ = r.resolve(w).(float64)
		}
	}
	if enc := r.dict(d["Encoding"]); enc != nil {
		code := 0
		list, _ := r.resolve(enc["Differences"]).([]any)
		for _, v := range list {
			switch v := v.(type) {
			case float64:
				code = int(v)
			case pdfName:
				if !r.spend(pdfEntry + len(v)) {
					break
				}
				f.text[code] = glyph(string(v))
				code++
			}
		}
	}
	if to, ok := d["ToUnicode"].(pdfRef); ok {
		f.read(r, r.stream(int(to)))
	}
	r.fonts[key] = f
	return f
}

// wideWidths reads the widths of a font with two-byte codes (section 9.7.4.3).
func (f *pdfFont) wideWidths(r *pdfReader, d pdfDict) {
	if w, ok := r.resolve(d["DW"]).(float64); ok {
		f.wide = w
	}
	list, _ := r.resolve(d["W"]).([]any)
	for i := 0; i+1 < len(list) && len(f.widths) < 1<<16 && r.spend(1); {
		first, _ := list[i].(float64)
		switch v := r.resolve(list[i+1]).(type) {
		case []any:
			for k, w := range v {
				if !r.spend(pdfEntry) {
					return
				}
				f.widths[int(first)+k], _ = w.(float64)
			}
			i += 2
		case float64:
			if i+2 < len(list) {
				w, _ := list[i+2].(float64)
				for c := int(first); c <= int(v) && len(f.widths) < 1<<16 && r.spend(pdfEntry); c++ {
					f.widths[c] = w
				}
			}
			i += 3
		default:
			return
		}
	}
}

// glyph returns the text for the name of a glyph (letters of the Adobe Glyph List).
func glyph(name string) string {
	name, _, _ = strings.Cut(name, ".")
	if utf8.RuneCountInString(name) == 1 {
		return name
	}
	if hex, ok := strings.CutPrefix(name, "uni"); ok && len(hex) >= 4 {
		if n, err := strconv.ParseUint(hex[:4], 16, 16); err == nil {
			return string(rune(n))
		}
	}
	if digits, ok := strings.CutPrefix(name, "afii"); ok {
		switch n, _ := strconv.Atoi(digits); {
		case n >= 10017 && n <= 10022, n >= 10024 && n <= 10049:
			return string(rune('А' + n - 10017 - map[bool]int{true: 1}[n > 10023]))
		case n >= 10065 && n <= 10070, n >= 10072 && n <= 10097:
			return string(rune('а' + n - 10065 - map[bool]int{true: 1}[n > 10071]))
		}
	}
	switch name {
	case "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine":
		return strconv.Itoa(slices.Index([]string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"}, name))
	case "fi", "fl", "ff", "ffi", "ffl":
		return name
	}
	if s := html.UnescapeString("&" + name + ";"); s[0] != '&' {
		return s
	}
	return " "
}

// decode returns the text of a string, up to a length, and its width.
func (f *pdfFont) decode(s []byte, most int64) (string, float64) {
	var b strings.Builder
	width := 0.0
	for len(s) >= f.bytes && int64(b.Len()) <= most {
		code := int(s[0])
		if f.bytes == 2 {
			code = code<<8 | int(s[1])
		}
		s = s[f.bytes:]
		if w, ok := f.widths[code]; ok {
			width += w
		} else {
			width += f.wide
		}
		if t, ok := f.textOf(code); ok {
			b.WriteString(t)
		} else if f.bytes == 1 {
			if code < utf8.RuneSelf {
				b.WriteByte(byte(code))
			} else {
				b.WriteRune(charset.Windows1252.High()[code-0x80])
			}
		}
	}
	return b.String(), width
}

// read reads a map from codes to text (Adobe Technical Note 5411).
func (f *pdfFont) read(r *pdfReader, p []byte) {
	x := r.lexer(p)
	var args []any
	for x.i < len(p) && len(f.text) < 1<<16 {
		v := x.value(0)
		op, ok := v.(pdfWord)
		if !ok {
			if args = append(args, v); len(args) > pdfMapArgs {
				r.cut = true
				return
			}
			continue
		}
		switch op {
		case "endcodespacerange":
			if len(args) > 0 {
				if s, ok := args[0].([]byte); ok && (len(s) == 1 || len(s) == 2) {
					f.bytes = len(s)
				}
			}
		case "endbfchar":
			for i := 0; i+1 < len(args); i += 2 {
				from, ok1 := args[i].([]byte)
				to, ok2 := args[i+1].([]byte)
				if ok1 && ok2 && r.spend(pdfEntry+len(to)) {
					f.text[pdfCode(from)] = utf16Text(to)
				}
			}
		case "endbfrange":
			f.addRanges(r, args)
		}
		args = args[:0]
	}
}

func (f *pdfFont) addRanges(r *pdfReader, args []any) {
	for i := 0; i+2 < len(args); i += 3 {
		a, ok1 := args[i].([]byte)
		b, ok2 := args[i+1].([]byte)
		if !ok1 || !ok2 {
			return
		}
		from, to := pdfCode(a), min(pdfCode(b), pdfCode(a)+1<<16)
		switch v := args[i+2].(type) {
		case []any:
			for k, s := range v {
				if s, ok := s.([]byte); ok && from+k <= to && r.spend(pdfEntry+len(s)) {
					f.text[from+k] = utf16Text(s)
				}
			}
		case []byte:
			text := []rune(utf16Text(v))
			if to-from >= pdfRange && len(text) > 0 {
				if len(f.ranges) == pdfRange {
					r.cut = true
					return
				}
				f.ranges = append(f.ranges, pdfCodes{from, to, text})
				continue
			}
			for code := from; code <= to && len(text) > 0 && len(f.text) < 1<<16 && r.spend(pdfEntry+len(v)); code++ {
				f.text[code] = string(text)
				text[len(text)-1]++
			}
		}
	}
}

func pdfCode(p []byte) int {
	n := 0
	for _, c := range p[:min(len(p), 4)] {
		n = n<<8 | int(c)
	}
	return n & 0xFFFFFF
}

func utf16Text(p []byte) string {
	units := make([]uint16, len(p)/2)
	for i := range units {
		units[i] = uint16(p[2*i])<<8 | uint16(p[2*i+1])
	}
	return string(utf16.Decode(units))
}

// pdfString returns a string of the document's structure as UTF-8 (section 7.9.2).
func pdfString(s []byte) string {
	switch {
	case bytes.HasPrefix(s, []byte("\xFE\xFF")):
		return " " + utf16Text(s[2:]) + " "
	case bytes.HasPrefix(s, []byte("\xEF\xBB\xBF")):
		return " " + string(s[3:]) + " "
	}
	text, _ := (&pdfFont{bytes: 1}).decode(s, 2*int64(len(s)))
	return " " + text + " "
}

// A pdfLexer parses values.
type pdfLexer struct {
	p   []byte
	i   int
	cut *bool // set when a limit is reached
}

func (r *pdfReader) lexer(p []byte) pdfLexer { return pdfLexer{p: p, cut: &r.cut} }

func pdfSpace(c byte) bool { return c == 0 || ascii.IsSpace(c) }

func pdfDelimiter(c byte) bool { return strings.IndexByte("()<>[]{}/%", c) >= 0 }

func (x *pdfLexer) skip() {
	for x.i < len(x.p) {
		switch c := x.p[x.i]; {
		case pdfSpace(c):
			x.i++
		case c == '%':
			for x.i < len(x.p) && x.p[x.i] != '\n' && x.p[x.i] != '\r' {
				x.i++
			}
		default:
			return
		}
	}
}

// value parses the next value. It returns a pdfWord for other words, nil at the end.
func (x *pdfLexer) value(deep int) any {
	x.skip()
	if x.i == len(x.p) {
		return nil
	}
	switch c := x.p[x.i]; {
	case c == '/':
		x.i++
		return pdfName(x.name())
	case c == '(':
		return x.literal()
	case c == '<' && x.i+1 < len(x.p) && x.p[x.i+1] == '<':
		x.i += 2
		return x.dict(deep + 1)
	case c == '<':
		end := bytes.IndexByte(x.p[x.i:], '>')
		if end < 0 {
			end = len(x.p) - x.i - 1
		}
		s := unhexed(x.p[x.i+1 : x.i+end+1])
		x.i += end + 1
		return append([]byte{}, s...)
	case c == '[':
		x.i++
		return x.array(deep + 1)
	case pdfDelimiter(c):
		x.i++
		if c == '>' && x.i < len(x.p) && x.p[x.i] == '>' {
			x.i++
		}
		return pdfWord(c)
	}
	return x.number()
}

// number parses a number, a reference, or a word.
func (x *pdfLexer) number() any {
	start := x.i
	for x.i < len(x.p) && !pdfSpace(x.p[x.i]) && !pdfDelimiter(x.p[x.i]) {
		x.i++
	}
	word := x.p[start:x.i]
	if c := word[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') || len(word) > 32 {
		return pdfWord(word)
	}
	n, err := strconv.ParseFloat(string(word), 64)
	if err != nil || n > 1e12 || n < -1e12 || n != n {
		return float64(0)
	}
	// 12 0 R
	rest := x.p[x.i:min(len(x.p), x.i+16)]
	if n >= 0 && n == float64(int(n)) && len(rest) > 3 && pdfSpace(rest[0]) {
		k := 1
		for k < len(rest) && rest[k] >= '0' && rest[k] <= '9' {
			k++
		}
		if k > 1 && k+1 < len(rest) && pdfSpace(rest[k]) && rest[k+1] == 'R' && (k+2 == len(rest) || pdfSpace(rest[k+2]) || pdfDelimiter(rest[k+2])) {
			x.i += k + 2
			return pdfRef(int(n))
		}
	}
	return n
}

func (x *pdfLexer) name() []byte {
	start := x.i
	for x.i < len(x.p) && !pdfSpace(x.p[x.i]) && !pdfDelimiter(x.p[x.i]) {
		x.i++
	}
	name := x.p[start:x.i]
	if bytes.IndexByte(name, '#') >= 0 {
		name = coding.AppendUnpercented(nil, bytes.ReplaceAll(name, []byte("#"), []byte("%")))
	}
	return name
}

func (x *pdfLexer) literal() []byte {
	out := []byte{}
	depth := 0
	for ; x.i < len(x.p); x.i++ {
		switch c := x.p[x.i]; c {
		case '(':
			if depth++; depth > 1 {
				out = append(out, c)
			}
		case ')':
			if depth--; depth == 0 {
				x.i++
				return out
			}
			out = append(out, c)
		case '\\':
			out = x.escape(out)
		default:
			out = append(out, c)
		}
	}
	return out
}

// escape parses the escape after a backslash, at x.i.
func (x *pdfLexer) escape(out []byte) []byte {
	if x.i++; x.i >= len(x.p) {
		return out
	}
	switch c := x.p[x.i]; {
	case c >= '0' && c <= '7':
		n := 0
		for k := 0; k < 3 && x.i < len(x.p) && x.p[x.i] >= '0' && x.p[x.i] <= '7'; k++ {
			n = n<<3 | int(x.p[x.i]-'0')
			x.i++
		}
		x.i--
		return append(out, byte(n))
	case strings.IndexByte("nrtbf", c) >= 0:
		return append(out, "\n\r\t\b\f"[strings.IndexByte("nrtbf", c)])
	case c == '\r':
		if x.i+1 < len(x.p) && x.p[x.i+1] == '\n' {
			x.i++
		}
		return out
	case c == '\n':
		return out
	default:
		return append(out, c)
	}
}

// tooDeep reports whether a value is within too many others. Nothing after it is parsed.
func (x *pdfLexer) tooDeep(deep int) bool {
	if deep <= pdfDepth {
		return false
	}
	*x.cut = true
	x.i = len(x.p)
	return true
}

func (x *pdfLexer) array(deep int) any {
	list := []any{}
	if x.tooDeep(deep) {
		return list
	}
	for {
		v := x.value(deep)
		if v == nil || v == pdfWord(']') {
			return list
		}
		if len(list) == pdfItems {
			*x.cut = true
			return list
		}
		list = append(list, v)
	}
}

func (x *pdfLexer) dict(deep int) any {
	d := pdfDict{}
	if x.tooDeep(deep) {
		return d
	}
	for {
		key := x.value(deep)
		name, ok := key.(pdfName)
		if key == nil || key == pdfWord('>') {
			return d
		}
		if len(d) == pdfKeys {
			*x.cut = true
			return d
		}
		if !ok {
			continue
		}
		v := x.value(deep)
		if v == pdfWord('>') || v == nil {
			return d
		}
		d[name] = v
	}
}
