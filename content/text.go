package content

import (
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

const (
	headLen  = 1024     // where a charset must be declared (HTML standard)
	textStep = 16 << 10 // read between two looks at the limit
)

// A text is the view that Body.Text gives.
type text struct {
	stream  stream
	scanner scanner
	how     writing

	begun bool // type and charset are known
	head  [headLen]byte
	nHead int

	single [128]rune // a charset of single bytes

	// A charset of several bytes: its decoder, kept for the next body.
	charset encoding.Encoding
	decoder transform.Transformer
	wide    bool // it is in use
	cutOff  []byte
	utf8    [4 << 10]byte

	full     bool // the limit is reached
	finished bool
}

func (t *text) reset(b *Body) {
	t.stream.reset(b)
	t.begun, t.nHead, t.wide, t.full, t.finished = false, 0, false, false, false
	t.cutOff = t.cutOff[:0]
	t.scanner.reset(false)
}

func (t *text) release() {
	t.stream.reset(nil)
	x := &t.scanner
	if cap(x.out.b) > keptText {
		x.out.b = nil
	}
	if cap(x.aside.b) > keptText {
		x.aside.b = nil
	}
	x.out.nfc, x.aside.nfc = nil, nil
	texts.Put(t)
}

// advance reads all there is and returns the text.
func (t *text) advance(b *Body) ([]byte, error) {
	for !t.finished {
		p, err := t.stream.pull()
		if len(p) > 0 {
			t.add(b, p)
		}
		if err != nil || t.full {
			t.finish(b)
			break
		}
		if p == nil {
			return t.whole(), nil
		}
	}
	if err := t.stream.err; err != nil && err != io.EOF {
		return t.scanner.out.b, err
	}
	return t.scanner.out.b, nil
}

// whole is the text up to its last whole word.
func (t *text) whole() []byte {
	w := t.scanner.out.b
	for w[len(w)-1] != ' ' {
		w = w[:len(w)-1]
	}
	return w
}

// add takes a decoded block.
func (t *text) add(b *Body, p []byte) {
	if !t.begun {
		if t.nHead == 0 && len(p) >= headLen {
			t.begin(b, p[:headLen])
		} else {
			n := copy(t.head[t.nHead:], p)
			t.nHead += n
			p = p[n:]
			if t.nHead < headLen {
				return
			}
			t.flushHead(b)
		}
		if t.how == unwritten {
			return
		}
	}
	t.write(p)
}

// flushHead begins with the bytes that were gathered for it.
func (t *text) flushHead(b *Body) {
	head := t.head[:t.nHead]
	t.begin(b, head)
	t.write(head)
}

// begin decides from the first bytes what type and charset the body has.
func (t *text) begin(b *Body, head []byte) {
	t.begun = true
	if b.typ == "" {
		b.typ = sniff(head)
	}
	t.how = writingOf(b.typ)
	x := &t.scanner
	x.reset(t.how == markupXML)
	e, _ := charsetOf(head, b.head, t.how == markupHTML || t.how == markupXML)
	switch {
	case e == nil:
		x.out.high = &windows1252
	case e == unicode.UTF8:
	case singleByte(&t.single, e):
		x.out.high, x.out.multi = &t.single, false
	default:
		t.wide = true
		if t.charset != e {
			t.charset, t.decoder = e, e.NewDecoder().Transformer
		}
		t.decoder.Reset()
	}
	x.aside.high, x.aside.multi = x.out.high, x.out.multi
}

// write takes decoded bytes in their charset.
func (t *text) write(p []byte) {
	if !t.wide {
		t.scan(p)
		return
	}
	if len(t.cutOff) > 0 {
		// No character of any charset needs more than a few bytes.
		had := len(t.cutOff)
		t.cutOff = append(t.cutOff, p[:min(len(p), 16)]...)
		n := t.transcode(t.cutOff, false)
		if n < had {
			t.cutOff = append(t.cutOff[:0], t.cutOff[n:]...)
			return
		}
		t.cutOff = t.cutOff[:0]
		p = p[n-had:]
	}
	n := t.transcode(p, false)
	t.cutOff = append(t.cutOff[:0], p[n:]...)
}

// transcode scans p as UTF-8 and returns how much of it it used.
func (t *text) transcode(p []byte, last bool) int {
	n := 0
	for {
		nDst, nSrc, err := t.decoder.Transform(t.utf8[:], p[n:], last)
		n += nSrc
		t.scan(t.utf8[:nDst])
		if err != transform.ErrShortDst || t.full {
			return n
		}
	}
}

// scan takes text in UTF-8, or in single bytes.
func (t *text) scan(p []byte) {
	x := &t.scanner
	for len(p) > 0 && !t.full {
		q := p[:min(len(p), textStep)]
		p = p[len(q):]
		switch t.how {
		case markupHTML, markupXML:
			x.write(q)
		case writtenJSON:
			x.out.write(q, jsonText)
		case writtenForm:
			x.out.write(q, formText)
		case writtenPlain:
			x.out.write(q, plainText)
		}
		t.full = len(x.out.b)+len(x.aside.b) > t.stream.body.lim.Text
	}
}

// finish ends the text, with what is left in the stages on the way, and
// brings it within its limit.
func (t *text) finish(b *Body) {
	t.finished = true
	if !t.begun {
		t.flushHead(b)
	}
	if len(t.cutOff) > 0 {
		t.transcode(t.cutOff, true)
	}
	x := &t.scanner
	x.finish()
	if len(x.out.b) > b.lim.Text {
		t.full = true
		x.out.b = x.out.b[:b.lim.Text]
		x.out.b = t.whole()
	}
	if t.full {
		b.cut = true
	}
	t.stream.close()
}
