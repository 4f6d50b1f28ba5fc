package document

import (
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/content/prose"
	"shuultuur/lib/ascii"
)

// A sentPart reads a part of a form that declares a transfer coding without decoding it. Most
// servers do not decode it (RFC 7578, 4.7), so the text counts both decoded and as sent. A part
// that was sent as base64 has no other text.
type sentPart struct {
	around *Source
	head   media.Head
	part   Part   // nil until reading its text has begun
	on     bool   // the current part is read
	kept   []byte // until then, its last bytes
	long   bool   // bytes were dropped from kept
	check  base64Check
	text   prose.Flow // text of the part as sent: it follows the decoded text, so that phrases of both stay whole
}

const (
	// mostKept limits the bytes of a part that are kept until it is known whether they are
	// base64. A part that fits is read as sent in any case.
	mostKept = 4 << 10
	// mostSentText limits the bytes of text of a part as sent.
	mostSentText = 1 << 20
)

// begin begins a part.
func (s *sentPart) begin(h *media.Head, in *Source) {
	s.around, s.head = in, *h
	s.on, s.part, s.long, s.check = true, nil, false, base64Check{}
	s.kept = s.kept[:0]
}

// take reads the next bytes of the part.
func (s *sentPart) take(p []byte) {
	switch {
	case !s.on:
	case s.part != nil:
		s.read(p)
	default:
		s.kept = append(s.kept, p...)
		if !s.check.write(p) {
			s.read(s.kept)
		} else if n := len(s.kept) - mostKept; n > 0 {
			s.kept, s.long = s.kept[:copy(s.kept, s.kept[n:])], true
		}
	}
}

func (s *sentPart) read(p []byte) {
	if s.part == nil {
		s.text.Reset()
		if s.part = s.around.Outer.Open(&s.head, Inside{Out: &s.text}); s.part == nil {
			s.on = false
			return
		}
	}
	if len(s.text.B) > mostSentText {
		s.around.Outer.Stop(limit.Intricate)
		return
	}
	s.part.Write(p)
}

// end ends the part and adds its text to the outer text.
func (s *sentPart) end() {
	if s.on && s.part == nil && !s.long && len(s.kept) > 0 {
		s.read(s.kept)
	}
	if s.part != nil {
		_ = s.part.Close() // the decoded part says why not all was read
		out := s.around.Out
		out.Blank()
		out.B = prose.TrimBlanks(append(out.B, s.text.B[1:]...))
	}
	s.on, s.part = false, nil
}

// drop ends the part without reading the rest.
func (s *sentPart) drop() {
	if s.part != nil {
		s.part.Drop()
		s.part = nil
	}
}

// A base64Check reports whether bytes that arrive in pieces can be lines of base64, which
// encoders end after complete groups of four.
type base64Check struct {
	n      int // characters of the current group
	padded bool
	wrong  bool
}

// write reads the next bytes, and reports whether all bytes so far can be base64.
func (b *base64Check) write(p []byte) bool {
	for _, c := range p {
		switch {
		case c == '\r' || c == '\n':
			b.wrong = b.wrong || b.n != 0
		case c == '=':
			b.wrong = b.wrong || b.n < 2 && !b.padded
			b.padded, b.n = true, (b.n+1)&3
		case ascii.IsAlnum(c), c == '+', c == '/':
			b.wrong = b.wrong || b.padded
			b.n = (b.n + 1) & 3
		default:
			b.wrong = true
		}
	}
	return !b.wrong
}
