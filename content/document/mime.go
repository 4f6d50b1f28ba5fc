package document

import (
	"bytes"
	"io"
	"mime"
	"net/textproto"

	"golang.org/x/text/transform"

	"shuultuur/content/coding"
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/lib/ascii"
	"shuultuur/lib/charset"
)

// This file handles bodies that contain bodies: messages and multipart bodies (RFC 2045, RFC
// 2046) of mail, forms (RFC 7578), ranges (RFC 9110, 14.6), and series of pictures that replace
// each other.

// A PartWatcher gets the parts of a multipart body.
type PartWatcher interface {
	// Part begins a part of a media type; file is its file name, "" if it is not a file.
	Part(typ, file string)
	// Coded gets the next bytes of a part that has a transfer coding, as sent.
	Coded(p []byte)
	// Write gets the next bytes of the part, without the transfer coding.
	Write(p []byte) (int, error)
}

// A mimeReader extracts the text of a message or a multipart body that arrives in pieces.
type mimeReader struct {
	source   *Source
	split    Multipart
	within   Part // the part, nil if it is not read
	transfer coding.Transfer
	sent     *sentPart // for parts of a form as sent; nil until one has a transfer coding

	uu    uuReader
	hasUU bool // the text of the part may contain encoded files

	form    bool   // the body is a form
	outside bool   // of all parts
	file    string // file name of the part, "" if it is not a file
}

func newMIMEReader(s *Source, fields bool) *mimeReader {
	h := s.Head
	m := &mimeReader{source: s}
	m.split.to = m
	if fields || len(h.Type()) > 8 && h.Type()[:8] == "message/" {
		m.split.st = mimeFields
		return m
	}
	m.form = h.Type() == "multipart/form-data"
	m.split.begin(h)
	return m
}

// Write implements [Reader].
func (m *mimeReader) Write(p []byte) { m.split.Write(p) }

// Finish implements [Reader].
func (m *mimeReader) Finish() { m.split.Finish() }

// Close implements [Reader].
func (m *mimeReader) Close() {
	for _, p := range []Part{m.within, m.uu.file} {
		if p != nil {
			p.Drop()
		}
	}
	m.within, m.uu.file = nil, nil
	if m.sent != nil {
		m.sent.drop()
	}
}

// Between implements [PartTaker]. The text around the parts of a form is also
// read, since a server that uses another boundary may read it. Mail programs do
// not show it.
func (m *mimeReader) Between() {
	if m.form {
		m.transfer.Reset(nil)
		m.outside = true
		m.within = m.source.open(media.Describe("text/plain", ""))
	}
}

// Begin implements [PartTaker]: it reads the fields of a part and begins it.
func (m *mimeReader) Begin(b []byte) {
	h := media.Describe("text/plain", "")
	m.transfer.Reset(nil)
	m.file, m.outside = "", false
	coded := false
	for len(b) > 0 {
		var line []byte
		line, b = media.NextField(b)
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(bytes.ToLower(bytes.TrimSpace(name))) {
		case "content-type":
			*h = media.Head{}
			h.AddType(value)
			m.readTypeName(value)
		case "content-transfer-encoding":
			m.transfer.Reset(value)
			if end := bytes.IndexAny(value, " \t;("); end >= 0 {
				value = value[:end] // without a comment
			}
			coded = coded || ascii.EqualLower(value, "x-uuencode") || ascii.EqualLower(value, "uuencode") || ascii.EqualLower(value, "x-uue")
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
	m.hasUU = coded || h.Type() == "text/plain" && !m.form
	if m.form {
		h.SetUse(media.Program)
	}
	m.within = m.source.open(h)
	if w := m.source.Watcher; w != nil {
		w.Part(h.Type(), m.file)
	}
	if m.form && m.transfer.Coded() {
		if m.sent == nil {
			m.sent = &sentPart{}
		}
		m.sent.begin(h, m.source)
	}
}

// Take implements [PartTaker].
func (m *mimeReader) Take(p []byte) {
	w := m.source.Watcher
	if m.within == nil && !m.hasUU && w == nil {
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
		m.uu.write(m.source, p)
	}
	if m.within != nil && !m.uu.in {
		m.within.Write(p)
	}
	if w := m.source.Watcher; w != nil && !m.outside {
		_, _ = w.Write(p) // it cannot fail
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
	f := m.source.Out
	f.Blank()
	f.WriteUTF8(s)
	f.Blank()
}

// unword decodes encoded words (RFC 2047).
func unword(v []byte) string {
	d := mime.WordDecoder{CharsetReader: func(label string, r io.Reader) (io.Reader, error) {
		e, err := charset.Find(label)
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

// End implements [PartTaker].
func (m *mimeReader) End() {
	if m.split.Incomplete() {
		m.source.Outer.Stop(limit.Intricate)
	}
	if rest := m.transfer.End(); len(rest) > 0 {
		m.pass(rest)
	}
	if m.hasUU {
		m.uu.finish(m.source)
		m.hasUU = false
	}
	if p := m.within; p != nil {
		m.within = nil
		if why := p.Close(); why != limit.AllRead {
			m.source.Outer.Stop(why)
		}
		m.source.Out.Blank()
	}
	if m.sent != nil {
		m.sent.end()
	}
}
