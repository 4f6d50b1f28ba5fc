package content

import (
	"bytes"
	"io"
	"mime"
	"net/textproto"

	"golang.org/x/text/transform"
)

// This file is about bodies that hold bodies: messages and multiparts (RFC
// 2045, RFC 2046), of mail, forms (RFC 7578), ranges (RFC 9110, 14.6) and
// pictures that replace each other.

const (
	mostFields = 64 << 10 // bytes of the fields of one part
	mostParts  = 1000
)

// A part is a body within another, whose text joins that of the one around it.
type part struct {
	Body
	out *flow
}

// open begins a part; false if it has no text or stands too deep, which is a
// finding where it has text.
func (p *part) open(h *Head, t *text) bool {
	switch {
	case t.scanner.level == mostNested && h.Readable():
		t.body.Stop(TooLarge)
		return false
	case t.scanner.level == mostNested, !h.Readable() && h.Type() != "application/octet-stream":
		return false
	}
	lim := t.body.lim
	lim.Memory = nil // what it decodes is small
	p.Reset(h, lim)
	p.level = t.scanner.level + 1
	p.out = &t.scanner.out
	p.Body.Follow(p)
	return true
}

// write takes the next of the part's bytes.
func (p *part) write(b []byte) {
	p.Append(b)
	p.Forget()
}

// close ends the part and returns why not all of it was read.
func (p *part) close() Reason {
	p.Finish()
	p.Forget()
	why := p.Unread()
	p.Release()
	return why
}

// Follow makes a part the reader of its own body.
func (p *part) Follow(*Body) Follower { return p }

// Read adds the part's text to that around it.
func (p *part) Read(text []byte, fresh int) {
	p.out.blank()
	p.out.b = append(p.out.b, text[fresh:]...)
	if p.out.b[len(p.out.b)-1] == ' ' {
		p.out.b = trimBlanks(p.out.b)
	}
}

// Close does nothing: the part ends its body.
func (p *part) Close() {}

// trimBlanks leaves one blank at the end of b.
func trimBlanks(b []byte) []byte {
	for len(b) > 1 && b[len(b)-2] == ' ' {
		b = b[:len(b)-1]
	}
	return b
}

// A mimeReader takes the text out of a message or a multipart that comes in
// pieces.
type mimeReader struct {
	text     *text
	boundary []byte // "\r\n--…", nil for a message
	st       mimeState
	buf      []byte // fields being gathered, or what may begin a boundary
	parts    int
	within   part
	inPart   bool
	transfer Transfer

	uu    uuencoded
	hasUU bool // the part may have files in its text

	form    bool   // it is one
	outside bool   // of all parts
	file    string // name of the part, where it is a file
	blank   bool   // the part's first byte is yet to be told from the line before it
	cr      bool   // a CR that may belong to the boundary
}

// A PartWatcher sees the parts of a multipart body as they are.
type PartWatcher interface {
	// Part begins a part; file is its name, "" where it is not a file.
	Part(typ, file string)
	// Coded takes the next bytes of a part that has a transfer coding, as they came.
	Coded(p []byte)
	// Write takes the next bytes of the part, with its transfer coding undone.
	Write(p []byte) (int, error)
}

// Watch makes w see the parts of a multipart body as its text is read. It has
// to be called before that.
func (b *Body) Watch(w PartWatcher) { b.watcher = w }

// Sniff tells a media type by the first bytes of a body.
func Sniff(p []byte) string { return sniff(p[:min(len(p), headLen)]) }

type mimeState uint8

const (
	mimePreamble mimeState = iota
	mimeBoundary           // the rest of its line
	mimeFields
	mimeBody
	mimeEpilogue
)

// beginsFields says whether a body begins with fields that say its type: then
// these count, and not those around it, as for web archives (RFC 2557).
func beginsFields(p []byte) bool {
	p = bytes.TrimLeft(p, "\r\n")
	for len(p) > 0 {
		var line []byte
		line, p = field(p)
		name, _, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\"<") {
			return false
		}
		if equalLower(name, "content-type") || equalLower(name, "mime-version") {
			return true
		}
	}
	return false
}

// findBoundary takes the first line of a multipart that names no boundary for
// one.
func (h *Head) findBoundary(p []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(p, "\r\n"), []byte("\n"))
	line, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r \t"), []byte("--"))
	if !ok || len(line) == 0 || len(line) > len(h.boundary) {
		return false
	}
	h.nBoundary = uint8(copy(h.boundary[:], line))
	return true
}

func newMIMEReader(t *text, h *Head, message bool) *mimeReader {
	m := &mimeReader{text: t}
	if message || len(h.typ) > 8 && h.typ[:8] == "message/" {
		m.st = mimeFields
		return m
	}
	m.boundary = append([]byte("\n--"), h.boundary[:h.nBoundary]...)
	if h.typ == "multipart/x-mixed-replace" && bytes.HasPrefix(m.boundary[3:], []byte("--")) {
		m.boundary = append([]byte("\n"), m.boundary[3:]...) // browsers take it for the line itself
	}
	m.buf = append(m.buf, '\n') // the first may begin the body
	m.form = h.typ == "multipart/form-data"
	m.between()
	return m
}

// write takes the next piece.
func (m *mimeReader) write(p []byte) {
	for len(p) > 0 {
		switch m.st {
		case mimeEpilogue:
			m.body(p)
			return
		case mimeBoundary, mimeFields:
			p = m.head(p)
		default:
			p = m.data(p)
		}
	}
}

// data reads up to the next boundary.
func (m *mimeReader) data(p []byte) []byte {
	if m.boundary == nil {
		m.body(p)
		return nil
	}
	// The end of the piece before may be the beginning of a boundary.
	if n := len(m.buf); n > 0 {
		had := n
		m.buf = append(m.buf, p[:min(len(p), len(m.boundary)+1)]...)
		i, keep := m.index(m.buf)
		if i >= 0 {
			m.body(m.buf[:i])
			p = p[i+len(m.boundary)-had:]
			m.found()
			return p
		}
		if len(p) <= len(m.boundary) {
			m.body(m.buf[:keep])
			m.buf = m.buf[:copy(m.buf, m.buf[keep:])]
			return nil
		}
		m.body(m.buf[:had])
		m.buf = m.buf[:0]
	}
	i, keep := m.index(p)
	if i >= 0 {
		m.body(p[:i])
		m.found()
		return p[i+len(m.boundary):]
	}
	m.body(p[:keep])
	m.buf = append(m.buf[:0], p[keep:]...)
	return nil
}

// index returns where the boundary stands in p: it is one only if nothing but
// blanks or dashes follows in its line, or readers that keep to RFC 2046 take
// for text what we take for fields. i is -1 if there is none; what comes before
// keep is then not part of one.
func (m *mimeReader) index(p []byte) (i, keep int) {
	for at := 0; ; {
		k := bytes.Index(p[at:], m.boundary)
		if k < 0 {
			return -1, at + startsAt(p[at:], m.boundary)
		}
		at += k
		end := at + len(m.boundary)
		if end == len(p) {
			return -1, at
		}
		if c := p[end]; isSpace(c) || c == '-' {
			return at, 0
		}
		at++
	}
}

// between begins what stands before the first boundary of a form or after the
// last: a server that is told of another boundary may take it. Mail programs do
// not show it.
func (m *mimeReader) between() {
	if m.form {
		m.transfer.Reset(nil)
		m.outside = true
		m.inPart = m.within.open(Describe("text/plain", ""), m.text)
	}
}

// startsAt returns where in p a beginning of b stands at its end; len(p) if
// nowhere.
func startsAt(p, b []byte) int {
	for i := max(0, len(p)-len(b)+1); i < len(p); i++ {
		if bytes.HasPrefix(b, p[i:]) {
			return i
		}
	}
	return len(p)
}

func (m *mimeReader) found() {
	m.endPart()
	m.st, m.buf = mimeBoundary, m.buf[:0]
	if m.parts++; m.parts > mostParts {
		m.st = mimeEpilogue
		m.text.body.Stop(TooLarge)
	}
}

// head gathers the rest of a boundary's line, or fields.
func (m *mimeReader) head(p []byte) []byte {
	for i, c := range p {
		m.buf = append(m.buf, c)
		switch {
		case m.st == mimeBoundary && bytes.HasPrefix(m.buf, []byte("--")):
			m.st, m.buf = mimeEpilogue, m.buf[:0]
			m.between()
			return p[i+1:]
		case m.st == mimeBoundary && c == '\n':
			m.st, m.buf = mimeFields, m.buf[:0]
		case m.st == mimeFields && c == '\n' && endsFields(m.buf), len(m.buf) >= mostFields:
			m.fields(m.buf)
			m.st, m.buf = mimeBody, m.buf[:0]
			if m.boundary != nil {
				m.buf = append(m.buf, '\n') // an empty part: the boundary follows at once
			}
			return p[i+1:]
		}
	}
	return nil
}

func endsFields(b []byte) bool {
	return len(b) <= 2 && (b[0] == '\n' || b[0] == '\r') || bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n"))
}

// fields reads the fields of a part and begins it.
func (m *mimeReader) fields(b []byte) {
	h := Describe("text/plain", "")
	m.transfer.Reset(nil)
	m.file, m.outside = "", false
	coded := false
	for len(b) > 0 {
		var line []byte
		line, b = field(b)
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(bytes.ToLower(bytes.TrimSpace(name))) {
		case "content-type":
			*h = Head{}
			h.contentType(value)
			m.named(value)
		case "content-transfer-encoding":
			m.transfer.Reset(value)
			if end := bytes.IndexAny(value, " \t;("); end >= 0 {
				value = value[:end] // less a comment
			}
			coded = coded || equalLower(value, "x-uuencode") || equalLower(value, "uuencode") || equalLower(value, "x-uue")
		case "content-disposition":
			m.disposition(value)
		case "subject", "from", "to", "cc", "reply-to", "comments", "keywords", "content-description":
			m.say(unword(value))
		default:
			if m.form { // no client shows the others of a mail
				m.say(unword(value))
			}
		}
	}
	m.hasUU = coded || h.typ == "text/plain" && !m.form
	if m.form {
		h.SetUse(Program)
	}
	m.inPart = m.within.open(h, m.text)
	if w := m.text.body.watcher; w != nil {
		w.Part(h.Type(), m.file)
	}
	m.blank = m.boundary != nil
}

// give hands bytes of a part on without the end of the line before the boundary.
func (m *mimeReader) give(p []byte) {
	if m.boundary != nil {
		if m.cr {
			m.decode([]byte("\r"))
		}
		if m.cr = p[len(p)-1] == '\r'; m.cr {
			p = p[:len(p)-1]
		}
	}
	m.decode(p)
}

// decode undoes the transfer coding of a part's bytes.
func (m *mimeReader) decode(p []byte) {
	if w := m.text.body.watcher; w != nil && !m.outside && m.transfer.Coded() {
		w.Coded(p)
	}
	m.pass(m.transfer.Next(p))
}

// pass shows bytes of a part to all who see it.
func (m *mimeReader) pass(p []byte) {
	if m.hasUU {
		m.uu.write(m.text, p)
	}
	if m.inPart && !m.uu.in {
		m.within.write(p)
	}
	if w := m.text.body.watcher; w != nil && !m.outside {
		_, _ = w.Write(p) // it cannot fail
	}
}

// field cuts the first field off b, with the lines that continue it.
func field(b []byte) (line, rest []byte) {
	i := 0
	for {
		k := bytes.IndexByte(b[i:], '\n')
		if k < 0 {
			return b, nil
		}
		i += k + 1
		if i == len(b) || b[i] != ' ' && b[i] != '\t' {
			return b[:i], b[i:]
		}
	}
}

// disposition reads the names of a form's field and of a file.
func (m *mimeReader) disposition(v []byte) {
	_, params, err := mime.ParseMediaType(string(v))
	if err != nil && params == nil {
		m.say(string(v))
		return
	}
	for _, name := range [...]string{"name", "filename"} {
		m.say(unword([]byte(params[name])))
	}
	m.file = unword([]byte(params["filename"]))
}

// named reads the name that Content-Type gives a file.
func (m *mimeReader) named(v []byte) {
	if _, params, err := mime.ParseMediaType(string(v)); err == nil && params["name"] != "" {
		if m.say(unword([]byte(params["name"]))); m.file == "" {
			m.file = unword([]byte(params["name"]))
		}
	}
}

// say adds text of a field.
func (m *mimeReader) say(s string) {
	f := &m.text.scanner.out
	f.blank()
	f.writeUTF8(s)
	f.blank()
}

// unword undoes encoded words (RFC 2047).
func unword(v []byte) string {
	d := mime.WordDecoder{CharsetReader: func(label string, r io.Reader) (io.Reader, error) {
		e, err := Charset(label)
		if err != nil {
			return nil, err
		}
		return transform.NewReader(r, e.NewDecoder()), nil
	}}
	s := textproto.TrimString(string(v))
	if decoded, err := d.DecodeHeader(s); err == nil {
		return decoded
	}
	return s
}

// body takes bytes of a part.
func (m *mimeReader) body(p []byte) {
	if m.blank && len(p) > 0 { // the end of the line before the part
		m.blank, p = false, p[1:]
	}
	if !m.inPart && !m.hasUU && m.text.body.watcher == nil || len(p) == 0 {
		return
	}
	m.give(p)
}

// unquote undoes quoted-printable (RFC 2045, 6.7) and returns what may be an
// escape that is cut off.
func unquote(p []byte) (out, rest []byte) {
	out = make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if p[i] != '=' {
			out = append(out, p[i])
			continue
		}
		if i+2 >= len(p) {
			if i+1 < len(p) && p[i+1] == '\n' {
				i++
				continue
			}
			return out, p[i:]
		}
		a, b := unhex(p[i+1]), unhex(p[i+2])
		switch {
		case a >= 0 && b >= 0:
			out = append(out, byte(a<<4|b))
			i += 2
		case p[i+1] == '\n':
			i++
		case p[i+1] == '\r' && p[i+2] == '\n':
			i += 2
		default:
			out = append(out, '=')
		}
	}
	return out, nil
}

// endPart ends the part at hand.
func (m *mimeReader) endPart() {
	m.cr, m.blank = false, false
	if rest := m.transfer.End(); len(rest) > 0 {
		m.pass(rest)
	}
	if m.hasUU {
		m.uu.finish(m.text)
		m.hasUU = false
	}
	if !m.inPart {
		return
	}
	m.inPart = false
	if why := m.within.close(); why != AllRead {
		m.text.body.Stop(why)
	}
	m.text.scanner.out.blank()
}

// finish ends the last part.
func (m *mimeReader) finish() {
	switch {
	case m.st == mimeFields:
		m.fields(m.buf)
	case m.st <= mimeBody && m.st != mimeBoundary && len(m.buf) > 0:
		m.body(m.buf)
	}
	m.endPart()
}
