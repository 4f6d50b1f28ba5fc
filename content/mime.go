package content

import (
	"bytes"
	"io"
	"mime"
	"net/textproto"

	"golang.org/x/text/transform"
)

// This file handles bodies that contain bodies: messages and multipart bodies (RFC 2045, RFC
// 2046) of mail, forms (RFC 7578), ranges (RFC 9110, 14.6), and series of pictures that replace
// each other.

// A part is a body within another one. Its text becomes part of the outer text.
type part struct {
	Body
	out *flow
}

// open begins a part. It returns false if the part has no text, or is nested too deeply; the
// latter is a finding if the part may have text.
func (p *part) open(h *Head, t *text) bool {
	switch {
	case t.scanner.level == mostNested && h.Readable():
		t.body.Stop(TooLarge)
		return false
	case t.scanner.level == mostNested, !h.Readable() && h.Type() != "application/octet-stream":
		return false
	}
	lim := t.body.lim
	lim.Memory = nil // the decoded text is small
	p.Reset(h, lim)
	p.level = t.scanner.level + 1
	p.out = &t.scanner.out
	p.Body.Follow(p)
	return true
}

// write reads the next bytes of the part.
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

// Follow implements [Reader]: a part follows its own body.
func (p *part) Follow(*Body) Follower { return p }

// Read implements [Follower]: it adds the text of the part to the outer text.
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

// A mimeReader extracts the text of a message or a multipart body that arrives in pieces.
type mimeReader struct {
	text     *text
	split    Multipart
	within   part
	inPart   bool
	transfer Transfer
	sent     *sentPart // for parts of a form as sent; nil until one has a transfer coding

	uu    uuReader
	hasUU bool // the text of the part may contain encoded files

	form    bool   // the body is a form
	outside bool   // of all parts
	file    string // file name of the part, "" if it is not a file
}

// A PartWatcher gets the parts of a multipart body.
type PartWatcher interface {
	// Part begins a part of a media type; file is its file name, "" if it is not a file.
	Part(typ, file string)
	// Coded gets the next bytes of a part that has a transfer coding, as sent.
	Coded(p []byte)
	// Write gets the next bytes of the part, without the transfer coding.
	Write(p []byte) (int, error)
}

// Watch passes the parts of a multipart body to w while the body's text is read. It must be
// called before the text is first read.
func (b *Body) Watch(w PartWatcher) { b.watcher = w }

// Sniff returns the media type of a body by its first bytes.
func Sniff(p []byte) string { return sniff(p[:min(len(p), headLen)]) }

// beginsFields reports whether a body begins with fields that give its type, as web archives do
// (RFC 2557). These then apply instead of the message's own fields.
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

// findBoundary uses the first line of a multipart body as its boundary, if the fields declare
// none.
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
	m.split.to = m
	if message || len(h.typ) > 8 && h.typ[:8] == "message/" {
		m.split.st = mimeFields
		return m
	}
	m.form = h.typ == "multipart/form-data"
	m.split.begin(h)
	return m
}

func (m *mimeReader) write(p []byte) { m.split.Write(p) }
func (m *mimeReader) finish()        { m.split.Finish() }

// close releases parts that have not ended.
func (m *mimeReader) close() {
	m.within.Release()
	m.uu.file.Release()
	if m.sent != nil {
		m.sent.Release()
	}
}

// Between implements [PartTaker]. The text around the parts of a form is also
// read, since a server that uses another boundary may read it. Mail programs do
// not show it.
func (m *mimeReader) Between() {
	if m.form {
		m.transfer.Reset(nil)
		m.outside = true
		m.inPart = m.within.open(Describe("text/plain", ""), m.text)
	}
}

// Begin implements [PartTaker]: it reads the fields of a part and begins it.
func (m *mimeReader) Begin(b []byte) {
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
			m.readTypeName(value)
		case "content-transfer-encoding":
			m.transfer.Reset(value)
			if end := bytes.IndexAny(value, " \t;("); end >= 0 {
				value = value[:end] // without a comment
			}
			coded = coded || equalLower(value, "x-uuencode") || equalLower(value, "uuencode") || equalLower(value, "x-uue")
		case "content-disposition":
			m.disposition(value)
		case "subject", "from", "to", "cc", "reply-to", "comments", "keywords", "content-description":
			m.addText(unword(value))
		default:
			if m.form { // mail programs show no others
				m.addText(unword(value))
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
	if m.form && m.transfer.Coded() {
		if m.sent == nil {
			m.sent = &sentPart{}
		}
		m.sent.begin(h, m.text)
	}
}

// Take implements [PartTaker].
func (m *mimeReader) Take(p []byte) {
	w := m.text.body.watcher
	if !m.inPart && !m.hasUU && w == nil {
		return
	}
	if !m.outside && m.transfer.Coded() {
		if w != nil {
			w.Coded(p)
		}
		if m.sent != nil {
			m.sent.take(p)
		}
	}
	m.pass(m.transfer.Next(p))
}

// pass passes bytes of a part to the readers of its text, its files and the watcher.
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

// field returns the first field of b with its continuation lines, and the rest.
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
		m.addText(string(v))
		return
	}
	for _, name := range [...]string{"name", "filename"} {
		m.addText(unword([]byte(params[name])))
	}
	m.file = unword([]byte(params["filename"]))
}

// readTypeName reads the file name in a Content-Type.
func (m *mimeReader) readTypeName(v []byte) {
	if _, params, err := mime.ParseMediaType(string(v)); err == nil && params["name"] != "" {
		if m.addText(unword([]byte(params["name"]))); m.file == "" {
			m.file = unword([]byte(params["name"]))
		}
	}
}

// addText adds text of a field.
func (m *mimeReader) addText(s string) {
	f := &m.text.scanner.out
	f.blank()
	f.writeUTF8(s)
	f.blank()
}

// unword decodes encoded words (RFC 2047).
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

// unquote decodes quoted-printable (RFC 2045, 6.7). rest are the bytes at the end that may be
// an incomplete escape.
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

// End implements [PartTaker].
func (m *mimeReader) End() {
	if m.split.Incomplete() {
		m.text.body.Stop(TooLarge)
	}
	if rest := m.transfer.End(); len(rest) > 0 {
		m.pass(rest)
	}
	if m.hasUU {
		m.uu.finish(m.text)
		m.hasUU = false
	}
	if m.inPart {
		m.inPart = false
		if why := m.within.close(); why != AllRead {
			m.text.body.Stop(why)
		}
		m.text.scanner.out.blank()
	}
	if m.sent != nil {
		m.sent.end()
	}
}
