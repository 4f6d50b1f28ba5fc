// Package conversation reads bodies and upgraded connections that are endless series of messages.
//
// A [Framer] splits one direction into messages: [Events], [Lines], a [WebSocket] or a [GRPC] call. A
// [Window] keeps the recent text of the messages, and a content.Body shows that text to the checks. Idle conversations take little memory: there are buffers only for incomplete
// messages and for recent text.
package conversation

import (
	"errors"

	"shuultuur/content/limit"
)

// A Message is one message of a conversation.
type Message struct {
	Text    bool         // according to its frame; others may contain text too
	Control bool         // close, ping and the like; Data is their text
	Data    []byte       // decoded; valid until the next call
	Aside   []byte       // of an event: its other lines, which a page shows if it displays the raw stream
	Unread  limit.Reason // why Data is incomplete
}

// A Framer cuts the bytes of one direction of a conversation into messages.
type Framer interface {
	// Next reads from p and returns the number of bytes used: up to the end of a message (then
	// whole is true), or of a part of one, or all. An error means that the bytes are not such
	// a conversation; nothing more can be read.
	Next(p []byte) (n int, m Message, whole bool, err error)
	// Finish ends the conversation, and returns the message that is incomplete.
	Finish() Message
	// Part returns the received part of an incomplete message as a message, and continues with
	// the following bytes. ok is false if it cannot be read in parts.
	Part() (m Message, ok bool)
}

var (
	errFrame     = errors.New("a WebSocket frame has an impossible length")
	errReserved  = errors.New("a WebSocket frame uses a reserved bit or opcode that was not agreed on")
	errControl   = errors.New("a WebSocket control frame is unknown, too long or fragmented")
	errFragments = errors.New("the fragments of WebSocket messages are mixed up")
	errGRPC      = errors.New("malformed gRPC message")
	// ErrText says what a WebSocket is closed for with a status of its own.
	ErrText   = errors.New("a text message is not valid UTF-8")
	errNoText = errors.New("binary data where text belongs")
)

// A sniffer tells text from files, byte by byte. The zero sniffer is ready for use.
type sniffer struct {
	nul bool // the last byte was NUL
}

// isBinary reports whether text has no such byte (WHATWG MIME Sniffing, "binary data byte"). A NUL
// between other bytes may be half a letter of UTF-16, which a script may read; two are not.
func (s *sniffer) isBinary(c byte) bool {
	before := s.nul
	if s.nul = c == 0; s.nul {
		return before
	}
	return c < ' ' && c != '\t' && c != '\n' && c != '\f' && c != '\r' && c != 0x1b
}
