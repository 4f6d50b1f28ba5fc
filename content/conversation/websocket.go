package conversation

import (
	"encoding/binary"
	"unicode/utf8"

	"shuultuur/content"
	"shuultuur/content/coding"
	"shuultuur/content/data"
	"shuultuur/content/limit"
)

// A WebSocket frames one direction of a WebSocket connection (RFC 6455) after
// the handshake, permessage-deflate (RFC 7692) included.
type WebSocket struct {
	// Deflate says that permessage-deflate was agreed on, Takeover that the sender keeps its
	// window between messages.
	Deflate, Takeover bool

	head       [14]byte
	nHead      uint8
	opcode     byte // of the message
	compressed bool
	final      bool
	control    bool
	over       bool
	mask       [4]byte
	masked     bool
	left       uint64 // of the frame
	at         uint64
	data       []byte
	aside      []byte            // of a control frame, which may come within a message
	window     []byte            // of the decoder, as far as it is filled
	part       [utf8.UTFMax]byte // the beginning of a character, of which the rest is still to come
	nPart      uint8
}

// Next implements [Framer].
func (w *WebSocket) Next(p []byte) (n int, m Message, whole bool, err error) {
	for n < len(p) {
		if w.left == 0 && !w.headWhole() {
			w.head[w.nHead] = p[n]
			w.nHead++
			n++
			if !w.headWhole() {
				continue
			}
			if err := w.begin(); err != nil {
				return n, m, false, err
			}
		} else {
			size, ok := w.payload(p[n:])
			if n += size; !ok {
				return n, m, false, ErrText
			}
		}
		if w.left == 0 {
			w.nHead = 0
			if w.control {
				return n, w.endControl(), true, nil
			}
			if w.final {
				if m = w.end(); w.nPart > 0 || w.compressed && m.Text && m.Unread == content.AllRead && !utf8.Valid(m.Data) {
					return n, Message{}, false, ErrText
				}
				return n, m, true, nil
			}
			return n, m, false, nil
		}
	}
	return n, m, false, nil
}

// InMessage reports whether a message is incomplete.
func (w *WebSocket) InMessage() bool { return w.opcode != 0 }

func (w *WebSocket) headWhole() bool {
	if w.nHead < 2 {
		return false
	}
	size := uint8(2)
	switch w.head[1] & 0x7F {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if w.head[1]&0x80 != 0 {
		size += 4
	}
	return w.nHead == size
}

// begin reads the head of a frame (RFC 6455 section 5.2).
func (w *WebSocket) begin() error {
	h := w.head[:w.nHead]
	opcode := h[0] & 0x0F
	w.control = opcode >= 8
	switch w.left = uint64(h[1] & 0x7F); w.left {
	case 126:
		w.left = uint64(binary.BigEndian.Uint16(h[2:]))
	case 127:
		w.left = binary.BigEndian.Uint64(h[2:])
	}
	w.at = 0
	if w.masked = h[1]&0x80 != 0; w.masked {
		copy(w.mask[:], h[len(h)-4:])
	}
	final := h[0]&0x80 != 0
	switch {
	case h[0]&0x30 != 0, h[0]&0x40 != 0 && (!w.Deflate || opcode == 0 || w.control):
		return errReserved
	case w.left>>63 != 0:
		return errFrame
	case w.control:
		if opcode > 10 || !final || w.left > 125 {
			return errControl
		}
		return nil
	case opcode > 2:
		return errReserved
	case opcode == 0 && w.opcode == 0, opcode != 0 && w.opcode != 0:
		return errFragments
	case opcode != 0:
		w.opcode, w.compressed = opcode, h[0]&0x40 != 0
	}
	w.final = final
	return nil
}

// payload reads the bytes of the frame in p. ok is false if they are to be text, and are none.
func (w *WebSocket) payload(p []byte) (n int, ok bool) {
	n = int(min(uint64(len(p)), w.left))
	w.left -= uint64(n)
	if w.control {
		for i, c := range p[:n] {
			if w.masked {
				c ^= w.mask[(w.at+uint64(i))&3]
			}
			w.aside = append(w.aside, c)
		}
		w.at += uint64(n)
		return n, true
	}
	keep := min(n, data.MostUnpacked-len(w.data))
	w.over = w.over || keep < n
	from := len(w.data)
	w.data = append(w.data, p[:keep]...)
	if w.masked {
		for i := range w.data[from:] {
			w.data[from+i] ^= w.mask[(w.at+uint64(i))&3]
		}
	}
	w.at += uint64(n)
	if w.opcode != 1 || w.compressed || w.over {
		w.nPart = 0
		return n, true
	}
	return n, w.goesOn(w.data[from:])
}

// goesOn reports whether p may be the next part of a text in UTF-8. A message that is none fails at its first
// wrong byte (RFC 6455 section 8.1).
func (w *WebSocket) goesOn(p []byte) bool {
	for w.nPart > 0 && len(p) > 0 {
		w.part[w.nPart] = p[0]
		w.nPart++
		p = p[1:]
		if character := w.part[:w.nPart]; utf8.FullRune(character) {
			w.nPart = 0
			if _, size := utf8.DecodeRune(character); size < len(character) {
				return false
			}
		}
	}
	for i := 1; i <= min(len(p), utf8.UTFMax-1); i++ {
		if last := p[len(p)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				w.nPart = uint8(copy(w.part[:], last))
				p = p[:len(p)-i]
			}
			break
		}
	}
	return utf8.Valid(p)
}

// endControl ends a control frame. Its content is shown to programs: the reason of a close, behind its
// status, and what a ping and its answer carry.
func (w *WebSocket) endControl() Message {
	p := w.aside
	w.aside = nil
	if w.head[0]&0x0F == 8 {
		p = p[min(2, len(p)):]
	}
	if !data.IsText(p) {
		p = nil
	}
	return Message{Control: true, Text: true, Data: p}
}

// end ends a message.
func (w *WebSocket) end() Message {
	m := Message{Text: w.opcode == 1, Data: w.data}
	if w.over {
		m.Unread = limit.TooLarge
	}
	if w.compressed && !w.over {
		m.Data, m.Unread = w.inflate(w.data)
	}
	w.opcode, w.final, w.over, w.data = 0, false, false, nil
	return m
}

// Finish implements [Framer].
func (w *WebSocket) Finish() Message { return w.end() }

// Part implements [Framer].
func (w *WebSocket) Part() (Message, bool) {
	if w.compressed || w.over || w.opcode == 0 {
		return Message{}, false
	}
	m := Message{Text: w.opcode == 1, Data: w.data}
	w.data = nil
	return m, true
}

// inflate decompresses a message.
func (w *WebSocket) inflate(p []byte) ([]byte, limit.Reason) {
	out, window, why := coding.InflateMessage(p, w.window, data.MostUnpacked, w.Takeover)
	switch {
	case why == content.TooLarge:
		w.window, w.Takeover = nil, false // the next message is unreadable if it refers to this one
	case why == content.AllRead:
		w.window = window
	}
	return out, why
}
