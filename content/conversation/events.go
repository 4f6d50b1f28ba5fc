package conversation

import (
	"bytes"

	"shuultuur/content/data"
	"shuultuur/content/limit"
)

// Events frames server-sent events (HTML standard section 9.2.6). A message is the data of one
// event, or a comment between events. The zero Events is ready for use.
type Events struct {
	line  []byte
	data  []byte
	aside []byte // comments, names, and lines that are not fields
	over  bool   // limit exceeded
	begun bool   // the first line was read
	cr    bool   // the previous line ended with CR
	sniffer
}

// Next implements [Framer].
func (e *Events) Next(p []byte) (n int, m Message, whole bool, err error) {
	for i, c := range p {
		if e.isBinary(c) {
			return i, m, false, errNoText
		}
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		if e.cr = c == '\r'; c != '\n' && c != '\r' {
			if len(e.line) < data.MostUnpacked {
				e.line = append(e.line, c)
			} else {
				e.over = true
			}
			continue
		}
		if m, whole := e.endLine(); whole {
			return i + 1, m, true, nil
		}
	}
	return len(p), m, false, nil
}

func (e *Events) endLine() (m Message, whole bool) {
	line := e.line
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line) > 0 {
		e.field(line)
		e.line = e.line[:0]
		if line[0] == ':' && len(e.data) == 0 { // keeps the connection alive, and waits for no event
			return e.Finish(), true
		}
		return m, false
	}
	if len(e.data) == 0 && len(e.aside) == 0 && !e.over {
		return m, false
	}
	return e.Finish(), true
}

// field reads a line of an event. A data field is a line of the message; other lines go to
// aside.
func (e *Events) field(line []byte) {
	to := &e.aside
	if rest, ok := bytes.CutPrefix(line, []byte("data")); ok && (len(rest) == 0 || rest[0] == ':') {
		to, line = &e.data, bytes.TrimPrefix(bytes.TrimPrefix(rest, []byte(":")), []byte(" "))
	}
	if len(*to)+len(line) > data.MostUnpacked {
		e.over = true
		return
	}
	*to = append(append(*to, line...), '\n')
}

// Finish implements [Framer].
func (e *Events) Finish() Message {
	if len(e.line) > 0 {
		e.field(e.line)
	}
	m := Message{Text: true, Data: bytes.TrimSuffix(e.data, []byte("\n")), Aside: e.aside}
	if e.over {
		m.Unread = limit.TooLarge
	}
	// Keep nothing between events, which may be far apart.
	*e = Events{begun: true, cr: e.cr, sniffer: e.sniffer}
	return m
}

// Part implements [Framer].
func (e *Events) Part() (Message, bool) {
	goesOn := len(e.line) > 0
	m := e.Finish()
	if goesOn { // the line continues
		e.line = append(e.line, "data: "...)
	}
	return m, true
}
