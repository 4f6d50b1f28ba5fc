// Package content knows what is in a body: decoding, charset, visible text;
// each worked out once, when a check first asks, and bounded.
//
// Data moves so: a server appends pieces of a body as they come over the wire
// ([Body.Append]). When a check asks for [Body.Text], a stream takes the
// pieces through the decoders that Content-Encoding names (coding.go), block
// by block; a scanner takes the visible text out of the blocks (html.go,
// tag.go), and a flow turns it into normalised words (normal.go, entity.go).
// Legacy charsets are made UTF-8 on the way (charset.go). [Body.Decoded] is
// another stream into one buffer. Nothing runs that no check has asked for,
// and nothing runs between calls.
package content

import (
	"errors"
	"io"
	"sync"
)

// Limits bound what one body may cost.
type Limits struct {
	Decoded int64 // most decoded bytes looked at; 0 means 16 MiB
	Text    int   // most bytes of text; 0 means 2 MiB
	Ratio   int   // decoded : wire above which a body is a bomb, once past 1 MiB; 0 means 200
}

// ErrBomb says that a body grows out of all proportion when decoded.
var ErrBomb = errors.New("decompression bomb")

// A Body is what a message carries, shown to the checks while the server
// holds it or lets it go by. The zero Body is not ready: call Reset first.
type Body struct {
	head   []byte // Content-Type
	coding []byte // Content-Encoding
	lim    Limits

	pieces    [][]byte
	len       int64
	done      bool
	cut       bool
	forgotten bool // pieces went before the views below could see them
	typ       string

	text    *text
	decoded *decoded
}

// Reset makes b ready for a body with these Content-Type and Content-Encoding
// values (either may be nil).
func (b *Body) Reset(contentType, contentEncoding []byte, lim Limits) {
	b.Release()
	if lim.Decoded <= 0 {
		lim.Decoded = 16 << 20
	}
	if lim.Text <= 0 {
		lim.Text = 2 << 20
	}
	if lim.Ratio <= 0 {
		lim.Ratio = 200
	}
	b.head = append(b.head[:0], contentType...)
	b.coding = append(b.coding[:0], contentEncoding...)
	b.lim = lim
	b.typ = mediaType(contentType)
}

// Append adds a piece of the body as it came over the wire (transfer coding
// undone, content coding not). The body refers to p until Forget or Release;
// it does not copy it.
func (b *Body) Append(p []byte) {
	if len(p) == 0 {
		return
	}
	b.pieces = append(b.pieces, p)
	b.len += int64(len(p))
}

// Forget works out of the pieces appended so far whatever has been asked for
// before (text, decoded bytes) and drops its references to them, so that the
// server may use their storage again. A view first asked for after a Forget
// starts with the next piece; where the body has a content coding it can only
// fail.
func (b *Body) Forget() {
	if b.text != nil {
		b.text.advance(b)
		b.text.stream.forget()
	}
	if b.decoded != nil {
		b.decoded.keep(b)
		b.decoded.stream.forget()
	}
	b.forgotten = b.forgotten || len(b.pieces) > 0
	b.drop()
}

func (b *Body) drop() {
	clear(b.pieces)
	b.pieces = b.pieces[:0]
	if cap(b.pieces) > 1<<12 {
		b.pieces = nil
	}
}

// Finish says that no more will come.
func (b *Body) Finish() { b.done = true }

// Complete says whether Finish has been called.
func (b *Body) Complete() bool { return b.done }

// Len returns the wire bytes appended so far.
func (b *Body) Len() int64 { return b.len }

// Cut says whether a limit was reached, so that later bytes were not looked at.
func (b *Body) Cut() bool { return b.cut }

// Type returns the media type, lower case, without parameters; when the
// header has none, what the first decoded bytes look like.
func (b *Body) Type() string {
	if b.typ != "" {
		return b.typ
	}
	t := b.startText()
	t.advance(b)
	if !t.begun {
		return sniff(t.head[:t.nHead])
	}
	return b.typ
}

// Decoded returns the body with its content coding undone, as far as it has
// come, at most Limits.Decoded bytes. Valid until the next Append or Release.
// With an error (a broken or cut off coding, [ErrBomb]) it returns what came
// before.
func (b *Body) Decoded() ([]byte, error) {
	if b.decoded == nil {
		b.decoded, _ = decodeds.Get().(*decoded)
		if b.decoded == nil {
			b.decoded = &decoded{}
		}
		b.decoded.stream.reset(b)
	}
	return b.decoded.advance(b)
}

// Text returns the visible text, normalised for matching: UTF-8, folded,
// letters and digits only, single blanks between words and one at either end.
// Valid until the next Append or Release.
//
// Until the body is complete the text ends after the last word known to be
// whole, so that each Text is a beginning of the next one. With an error (a
// broken or cut off coding, [ErrBomb]) it returns the text of what came
// before. Types that are not text (pictures, archives) have the text " ".
//
// Visible is what a browser with scripting shows, style sheets left aside,
// besides: the title; description, keywords, rating and title of meta
// elements; alt, title, placeholder and aria-label attributes and what is
// written on buttons, each at the end of the line it stands in; templates.
func (b *Body) Text() ([]byte, error) {
	t := b.startText()
	return t.advance(b)
}

func (b *Body) startText() *text {
	if b.text == nil {
		b.text, _ = texts.Get().(*text)
		if b.text == nil {
			b.text = &text{}
		}
		b.text.reset(b)
	}
	return b.text
}

// Release gives pooled storage back and drops all references. It must be
// called for every body that was Reset, or a coroutine may be left behind.
func (b *Body) Release() {
	if b.text != nil {
		b.text.release()
	}
	if b.decoded != nil {
		b.decoded.release()
	}
	b.drop()
	*b = Body{head: b.head[:0], coding: b.coding[:0], pieces: b.pieces}
}

// Storage above these sizes is left to the collector rather than pooled.
const (
	keptText    = 256 << 10
	keptDecoded = 1 << 20
)

var texts, decodeds sync.Pool

// A decoded is the view that Body.Decoded gives.
type decoded struct {
	stream stream
	buf    []byte
	one    []byte // the only block so far of a body without coding: not copied
}

func (d *decoded) advance(b *Body) ([]byte, error) {
	for {
		p, err := d.stream.pull()
		switch {
		case len(p) == 0:
		case d.stream.n == 0 && len(b.coding) == 0 && len(d.buf) == 0 && d.one == nil:
			d.one = p
		default:
			d.own()
			d.buf = append(d.buf, p...)
		}
		if err != nil || p == nil {
			if err == io.EOF {
				err = nil
			}
			return d.bytes(), err
		}
	}
}

func (d *decoded) bytes() []byte {
	if d.one != nil {
		return d.one
	}
	return d.buf
}

// own copies a block that belongs to the server.
func (d *decoded) own() {
	d.buf = append(d.buf, d.one...)
	d.one = nil
}

// keep works out what there is and needs the pieces no more.
func (d *decoded) keep(b *Body) {
	d.advance(b) // an error is sticky: the next Decoded returns it
	d.own()
}

func (d *decoded) release() {
	d.stream.close()
	if cap(d.buf) > keptDecoded {
		d.buf = nil
	}
	*d = decoded{buf: d.buf[:0]}
	decodeds.Put(d)
}
