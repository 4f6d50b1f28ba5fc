// Package content knows what is in a body: its effective type and coding, its
// charset and the text in it. Each is worked out once, incrementally, when a
// check first asks, and within limits.
//
// Data moves like this: a server describes a body by the fields of its message
// ([Head]) and appends pieces as they come over the wire ([Body.Append]).
// [Body.Read] takes the pieces through the decoders that Content-Encoding names
// (coding.go), block by block, decides type and charset by the first bytes
// (sniff.go, charset.go, detect.go), takes the text out of the blocks (html.go,
// tag.go), turns it into normalised words (normal.go, entity.go) and hands
// these to the followers: each check that reads along keeps its own state for
// the body. Nothing is decoded or scanned twice, nothing runs that no check has
// asked for, and nothing runs between calls.
//
// Where browsers differ on what a body is (a coding they may or may not undo, a
// type that is not valid), it is read in each of these ways.
package content

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"shuultuur/content/language"
)

// Limits bound what one body may cost. The zero Limits are usual ones.
type Limits struct {
	Decoded int64  // most decoded bytes inspected; 0 means 64 MiB
	Whole   int64  // most bytes that Decoded and Text keep; 0 means 16 MiB and 2 MiB
	Ratio   int    // decoded : wire above which a body is a bomb, once past 1 MiB; 0 means 200
	Scripts bool   // strings in scripts are text
	Memory  Budget // for the windows of decoders that come to rest between pieces; nil means no bound
}

// A Budget is memory that several bodies share.
type Budget interface {
	// Take takes n bytes, or none and returns false. It does not wait.
	Take(n int64) bool
	// Give returns n bytes that were taken.
	Give(n int64)
}

// ErrBomb says that a body grows out of all proportion when decoded.
var ErrBomb = errors.New("decompression bomb")

// A Reason says why a part of a body was not inspected.
type Reason uint8

const (
	AllRead         Reason = iota
	TooLarge               // a limit was reached, or the body is a bomb
	NoCapacity             // no memory for it
	UnknownCoding          // a content coding that cannot be undone
	Encrypted              // a document with a password
	UnsupportedType        // a type in which no text is looked for
	Cut                    // the body, or its coding, broke off
)

func (r Reason) String() string {
	return [...]string{"", "too large", "no capacity", "unknown coding", "encrypted", "unsupported type", "cut"}[r]
}

// A Follower is what one check keeps while it reads one body.
type Follower interface {
	// Read takes the next text: text[fresh:] is new, what stands before it is
	// the end of what came earlier, at least 4 KiB where there was as much. The
	// text is normalised ([Body.Text]) and ends with a whole word, or within
	// one that is thousands of bytes long. It is valid during the call.
	Read(text []byte, fresh int)
	// Close says that the body is gone.
	Close()
}

// A Reader makes followers. It is compared to find the follower it made, so it
// must be a pointer.
type Reader interface {
	// Follow returns what is kept of a body.
	Follow(b *Body) Follower
}

// A Body is what a message carries, shown to the checks while the server holds
// it or lets it pass. The zero Body is not ready: call Reset first. It belongs
// to one goroutine at a time.
type Body struct {
	head Head
	lim  Limits

	pieces    [][]byte
	len       int64
	total     int64 // expected, -1 where unknown
	done      bool
	forgotten bool // pieces went before the views below could see them
	typ       string
	why       Reason
	level     int    // documents that this one stands in
	office    bool   // it is of an office document
	room      *int64 // decoded bytes that archives within one another may still have, nil at the outermost

	readings  []*text
	decoded   *decoded
	blocks    *stream // of Next
	takings   []*taking
	readers   []Reader
	followers []Follower
	watcher   PartWatcher
}

// Reset makes b ready for a body described by h.
func (b *Body) Reset(h *Head, lim Limits) {
	b.Release()
	if lim.Decoded <= 0 {
		lim.Decoded = 64 << 20
	}
	if lim.Ratio <= 0 {
		lim.Ratio = 200
	}
	b.head = *h
	b.lim = lim
	b.typ = h.typ
	b.total = -1
}

// Expect says how many wire bytes the body will have, where that is known.
func (b *Body) Expect(n int64) { b.total = n }

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

// Forget reads the pieces appended so far for whatever has been asked for
// before (followers, text, decoded bytes) and drops its references to them, so
// that the server may use their storage again. A view first asked for after a
// Forget starts with the next piece; where the body has a content coding it can
// only fail.
func (b *Body) Forget() {
	if len(b.readings)+len(b.followers) > 0 {
		_ = b.Read(context.Background()) // an error is sticky: the next Read returns it
		for _, t := range b.readings {
			t.stream.forget()
			t.trim()
		}
	}
	if b.decoded != nil {
		b.decoded.keep()
		b.decoded.stream.forget()
	}
	if b.blocks != nil {
		b.blocks.forget()
	}
	for _, t := range b.takings {
		_ = t.advance() // an error is sticky: the next Taken returns it
		t.stream.forget()
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

// Head returns what the fields of the message say.
func (b *Body) Head() *Head { return &b.head }

// Type returns the effective media type, lower case, without parameters; when
// the fields give none, or one that its bytes cannot have, what the first
// decoded bytes look like.
func (b *Body) Type() string {
	switch b.typ {
	case "", "text/plain":
	default:
		return b.typ
	}
	t := b.reading()
	_ = t.advance(context.Background())
	if !t.begun {
		typ, _ := b.judge(t.head)
		return typ
	}
	return b.typ
}

// Looks returns the media type that the first decoded bytes look like, whatever
// the fields say.
func (b *Body) Looks() string {
	t := b.reading()
	_ = t.advance(context.Background()) // an error is sticky: Read returns it
	if t.begun {
		return t.looks
	}
	return sniff(t.head)
}

// Whole says whether the text of the body can only be read when all of it has
// come: that of documents in archives and of PDF.
func (b *Body) Whole() bool { return b.format() > formatMIME && b.format() != formatUnread }

// Archive says whether the body is an archive, whose members are read.
func (b *Body) Archive() bool { return b.format() == formatMembers }

// Markup says whether the body is a page, or other markup.
func (b *Body) Markup() bool { return b.format() == formatHTML || b.format() == formatXML }

// Barren says that nothing more of the body is read: no reading of it has text,
// and nobody takes or keeps its bytes.
func (b *Body) Barren() bool {
	if b.head.kept || len(b.readings) == 0 || len(b.takings) > 0 || b.decoded != nil || b.blocks != nil {
		return false
	}
	for _, t := range b.readings {
		if !t.begun || t.how != formatNone {
			return false
		}
	}
	return true
}

// format is how the body is read, as far as that is known.
func (b *Body) format() format {
	t := b.reading()
	_ = t.advance(context.Background()) // an error is sticky: Read returns it
	if t.begun {
		return t.how
	}
	_, how := b.judge(t.head)
	return how
}

// Decoded returns the body with its content coding undone, as far as it has
// come, at most Limits.Whole bytes. Valid until the next Append or Release.
// With an error (a broken or cut off coding, [ErrBomb]) it returns what came
// before. It keeps the whole body in memory: prefer a [Follower].
func (b *Body) Decoded() ([]byte, error) {
	if b.decoded == nil {
		b.decoded, _ = decodeds.Get().(*decoded)
		if b.decoded == nil {
			b.decoded = &decoded{}
		}
		b.decoded.stream.reset(b, b.main())
		b.decoded.most = 16 << 20
		if b.lim.Whole > 0 {
			b.decoded.most = b.lim.Whole
		}
	}
	return b.decoded.advance()
}

// Follow returns the follower that r made for this body, which it makes when it
// is asked for the first time. Text that was read before and is still kept (all
// of it until the first Forget, within Limits.Whole) is handed to it at once.
func (b *Body) Follow(r Reader) Follower {
	for i, known := range b.readers {
		if known == r {
			return b.followers[i]
		}
	}
	f := r.Follow(b)
	b.readers = append(b.readers, r)
	b.followers = append(b.followers, f)
	for _, t := range b.readings {
		if t.handed > 1 {
			f.Read(t.scanner.out.b[:t.handed], 0)
		}
	}
	return f
}

// Read decodes what has been appended and hands its text to the followers. It
// returns an error when the coding is broken, cut off or a bomb, again each
// time it is called; the text up to there was handed out.
func (b *Body) Read(ctx context.Context) error {
	err := b.reading().advance(ctx)
	for i := 1; i < len(b.readings); i++ { // a reading may begin another
		_ = b.readings[i].advance(ctx) // what only some clients see is no fault
	}
	return err
}

// Text returns the visible text, normalised for matching: UTF-8, folded,
// letters and digits only, single blanks between words and one at either end.
// Valid until the next Append or Release.
//
// Until the body is complete the text ends after the last word known to be
// whole, so that each Text is a beginning of the next one, as long as it has
// less than Limits.Whole bytes and Forget was not called: then only the end of
// it is kept. Errors are those of Read. Types that are not text (pictures,
// archives) have the text " ".
//
// Visible is what a browser with scripting shows and one without, besides: the
// title; description, keywords, rating and title of meta elements; alt, title,
// placeholder, aria attributes and what is written on buttons, each at the end
// of the line it stands in; templates; strings of style sheets.
func (b *Body) Text() ([]byte, error) {
	err := b.Read(context.Background())
	return b.readings[0].whole(), err
}

// Languages returns the languages that the text and the head say it is in,
// Unknown where they say nothing.
func (b *Body) Languages() (text, head language.Tag) {
	if len(b.readings) > 0 {
		text = b.readings[0].scanner.lang
	}
	return text, b.head.lang
}

// Inspected says how many wire bytes of how many were inspected, and why not
// all. Of a body that is not complete, those that are still to come count as
// expected where their number is known.
func (b *Body) Inspected() (n, of int64, why Reason) {
	of = max(b.len, b.total)
	switch {
	case b.why == AllRead:
		n = b.len
	case len(b.readings) > 0:
		n = b.readings[0].stream.wire
	case b.decoded != nil:
		n = b.decoded.stream.wire
	}
	return n, of, b.why
}

// Unread says why not all that came was inspected, or will be; AllRead when
// nothing stood against it so far.
func (b *Body) Unread() Reason { return b.why }

// Stop says that the server shows no more of the body and why.
func (b *Body) Stop(why Reason) {
	if b.why == AllRead {
		b.why = why
	}
}

// reading returns the main reading, that of most browsers.
func (b *Body) reading() *text {
	if len(b.readings) == 0 {
		b.read(b.main())
		if b.head.foreign && b.head.nCodings > 0 {
			b.read(b.head.codings[:b.head.nCodings])
		}
	}
	return b.readings[0]
}

// main returns the codings that most browsers undo.
func (b *Body) main() []coding {
	if b.head.foreign {
		return nil
	}
	return b.head.codings[:b.head.nCodings]
}

const maxReadings = 3

// read begins another reading of the body.
func (b *Body) read(codings []coding) *text {
	if len(b.readings) == maxReadings {
		return nil
	}
	t, _ := texts.Get().(*text)
	if t == nil {
		t = &text{}
	}
	t.reset(b, codings)
	b.readings = append(b.readings, t)
	return t
}

// Release gives pooled storage back and drops all references. It must be
// called for every body that was Reset, or a coroutine may be left behind.
func (b *Body) Release() {
	for i, t := range b.readings {
		t.release()
		b.readings[i] = nil
	}
	if b.decoded != nil {
		b.decoded.release()
	}
	if b.blocks != nil {
		b.blocks.close()
	}
	for i, t := range b.takings {
		t.stream.close()
		t.taker.Close()
		b.takings[i] = nil
	}
	for i, f := range b.followers {
		f.Close()
		b.followers[i], b.readers[i] = nil, nil
	}
	b.drop()
	*b = Body{pieces: b.pieces, readings: b.readings[:0], readers: b.readers[:0], followers: b.followers[:0], takings: b.takings[:0]}
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
	most   int64
	full   bool
}

func (d *decoded) advance() ([]byte, error) {
	for !d.full {
		p, err := d.stream.pull()
		switch {
		case len(p) == 0:
		case int64(len(d.buf)+len(d.one)+len(p)) > d.most:
			d.own()
			d.buf = append(d.buf, p[:d.most-int64(len(d.buf))]...)
			d.full = true
			d.stream.body.Stop(TooLarge)
			d.stream.close()
		case d.stream.n == 0 && len(d.buf) == 0 && d.one == nil:
			d.one = p
		default:
			d.own()
			d.buf = append(d.buf, p...)
		}
		switch {
		case err == io.EOF:
			return d.bytes(), nil
		case err != nil:
			d.stream.body.Stop(d.stream.reason())
			return d.bytes(), err
		case p == nil:
			return d.bytes(), nil
		}
	}
	return d.bytes(), nil
}

func (d *decoded) bytes() []byte {
	if d.one != nil {
		return d.one
	}
	return d.buf
}

// own copies a block that belongs to the server. For a body that is complete and
// has no coding, there is room for the rest at once.
func (d *decoded) own() {
	room := len(d.one)
	if b := d.stream.body; d.one != nil && b.done {
		room = int(min(max(b.len, int64(room)), d.most))
	}
	d.buf = slices.Grow(d.buf, room)
	d.buf = append(d.buf, d.one...)
	d.one = nil
}

// keep works out what there is and needs the pieces no more.
func (d *decoded) keep() {
	_, _ = d.advance() // an error is sticky: the next Decoded returns it
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
