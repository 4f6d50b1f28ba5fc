package document

import (
	"bytes"

	"shuultuur/content/media"
	"shuultuur/lib/ascii"
)

// A PartTaker gets the parts of a multipart body.
type PartTaker interface {
	// Begin begins a part with these fields. They end with an empty line, unless the body ends
	// or they reach their limit. They are valid during the call.
	Begin(fields []byte)
	// Between begins the text before the first boundary or after the last.
	Between()
	// Take gets the next bytes, without the line end before a boundary.
	Take(p []byte)
	// End ends the part, or the text between parts. It may be called twice.
	End()
}

// A Multipart splits a multipart body (RFC 2046, 5.1), or a message, that arrives in pieces.
type Multipart struct {
	to       PartTaker
	boundary []byte // "\n--…", nil for a message
	st       mimeState
	buf      []byte // fields being gathered, or bytes that may begin a boundary
	parts    int
	long     bool // a part has more fields than are read
	blank    bool // the next byte is the line end before the part
	cr       bool // a CR that may belong to the boundary
}

const (
	mostFields = 64 << 10 // bytes of the fields of one part
	mostParts  = 1000
)

type mimeState uint8

const (
	mimePreamble mimeState = iota
	mimeBoundary           // the rest of its line
	mimeFields
	mimeBody
	mimeEpilogue
)

// NewMultipart returns a splitter of the body that h describes, or nil if h declares no
// multipart type with a boundary.
func NewMultipart(h *media.Head, to PartTaker) *Multipart {
	if len(h.Boundary()) == 0 || len(h.Type()) <= 10 || h.Type()[:10] != "multipart/" {
		return nil
	}
	m := &Multipart{to: to}
	m.begin(h)
	return m
}

func (m *Multipart) begin(h *media.Head) {
	m.boundary = append([]byte("\n--"), h.Boundary()...)
	if h.Type() == "multipart/x-mixed-replace" && bytes.HasPrefix(m.boundary[3:], []byte("--")) {
		m.boundary = append([]byte("\n"), m.boundary[3:]...) // browsers use it as the whole line
	}
	m.buf = append(m.buf, '\n') // the body may begin with a boundary
	m.blank = true
	m.to.Between()
}

// Incomplete reports whether the body has more parts than are separated, or a part has more
// fields than are read. The bytes after that are passed on without a Begin.
func (m *Multipart) Incomplete() bool { return m.parts > mostParts || m.long }

// Write reads the next bytes of the body.
func (m *Multipart) Write(p []byte) {
	for len(p) > 0 {
		switch m.st {
		case mimeEpilogue:
			m.take(p)
			return
		case mimeBoundary, mimeFields:
			p = m.head(p)
		default:
			p = m.data(p)
		}
	}
}

// data reads up to the next boundary.
func (m *Multipart) data(p []byte) []byte {
	if m.boundary == nil {
		m.take(p)
		return nil
	}
	// The end of the previous piece may be the beginning of a boundary.
	if n := len(m.buf); n > 0 {
		had := n
		m.buf = append(m.buf, p[:min(len(p), len(m.boundary)+1)]...)
		i, keep := m.index(m.buf)
		if i >= 0 {
			m.take(m.buf[:i])
			p = p[i+len(m.boundary)-had:]
			m.endPart()
			return p
		}
		if len(p) <= len(m.boundary) {
			m.take(m.buf[:keep])
			m.buf = m.buf[:copy(m.buf, m.buf[keep:])]
			return nil
		}
		m.take(m.buf[:had])
		m.buf = m.buf[:0]
	}
	i, keep := m.index(p)
	if i >= 0 {
		m.take(p[:i])
		m.endPart()
		return p[i+len(m.boundary):]
	}
	m.take(p[:keep])
	m.buf = append(m.buf[:0], p[keep:]...)
	return nil
}

// index returns the position of the boundary in p. Only blanks or dashes may follow it in its
// line, because readers that follow RFC 2046 treat any other line as text. i is -1 if there is
// none; the bytes before keep are then not part of one.
func (m *Multipart) index(p []byte) (i, keep int) {
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
		if c := p[end]; ascii.IsSpace(c) || c == '-' {
			return at, 0
		}
		at++
	}
}

// startsAt returns the position in p from which the rest of p is a beginning of b, or len(p).
func startsAt(p, b []byte) int {
	for i := max(0, len(p)-len(b)+1); i < len(p); i++ {
		if bytes.HasPrefix(b, p[i:]) {
			return i
		}
	}
	return len(p)
}

// endPart ends the part at a boundary.
func (m *Multipart) endPart() {
	m.st, m.buf = mimeBoundary, m.buf[:0]
	if m.parts++; m.parts > mostParts {
		m.st = mimeEpilogue
	}
	m.end()
}

// head collects the rest of a boundary's line, or fields.
func (m *Multipart) head(p []byte) []byte {
	for i, c := range p {
		m.buf = append(m.buf, c)
		switch {
		case m.st == mimeBoundary && bytes.HasPrefix(m.buf, []byte("--")):
			m.st, m.buf = mimeEpilogue, m.buf[:0]
			m.to.Between()
			return p[i+1:]
		case m.st == mimeBoundary && c == '\n':
			m.st, m.buf = mimeFields, m.buf[:0]
		case m.st == mimeFields && c == '\n' && endsFields(m.buf), len(m.buf) >= mostFields:
			m.long = m.long || len(m.buf) >= mostFields
			m.to.Begin(m.buf)
			m.st, m.buf = mimeBody, m.buf[:0]
			if m.boundary != nil {
				m.buf = append(m.buf, '\n') // an empty part: the boundary follows at once
				m.blank = true
			}
			return p[i+1:]
		}
	}
	return nil
}

func endsFields(b []byte) bool {
	return len(b) <= 2 && (b[0] == '\n' || b[0] == '\r') || bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n"))
}

// take passes bytes on without the line end before the part and the one before the boundary.
func (m *Multipart) take(p []byte) {
	if m.blank && len(p) > 0 {
		m.blank, p = false, p[1:]
	}
	if len(p) == 0 {
		return
	}
	if m.boundary != nil {
		if m.cr {
			m.to.Take([]byte("\r"))
		}
		if m.cr = p[len(p)-1] == '\r'; m.cr {
			p = p[:len(p)-1]
		}
	}
	if len(p) > 0 {
		m.to.Take(p)
	}
}

func (m *Multipart) end() {
	m.cr, m.blank = false, false
	m.to.End()
}

// Finish ends the last part if no boundary has ended it.
func (m *Multipart) Finish() {
	switch {
	case m.st == mimeFields:
		m.to.Begin(m.buf)
	case m.st <= mimeBody && m.st != mimeBoundary && len(m.buf) > 0 && !bytes.Equal(m.buf, m.boundary):
		m.take(m.buf)
	}
	m.end()
}
