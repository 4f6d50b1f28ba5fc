// Package content determines the contents of a body: its effective type and coding, its
// charset and its text. It works incrementally and within limits, once for all checks, and
// only when a check first needs the result.
//
// A server describes a body by the fields of its message ([Head]) and appends pieces as they
// arrive ([Body.Append]). [Body.Read] passes the pieces through the decoders for Content-Encoding
// (package coding), block by block. It determines type and charset by the first bytes (package
// media), extracts the text from the blocks (packages markup and document), converts it to
// normalised words (package prose) and passes these to the followers: each check that follows a
// body has its own state for it. Nothing is decoded or scanned twice, nothing runs that no check
// has asked for, and nothing runs between calls.
//
// Where browsers differ in how they read a body (a coding that only some decode, an invalid
// type), it is read in each of these ways.
package content

import (
	"context"
	"io"
	"path"
	"slices"
	"sync"

	"shuultuur/content/coding"
	"shuultuur/content/document"
	"shuultuur/content/limit"
	"shuultuur/content/media"
	"shuultuur/lib/language"
)

// The vocabulary of package limit, by the names that servers and checks use.
type (
	Limits = limit.Limits
	Budget = limit.Budget
	Reason = limit.Reason
)

// The vocabulary of package media.
type (
	Head = media.Head
	Use  = media.Use
)

// How the receiver uses a body.
const (
	Embedded = media.Embedded
	Document = media.Document
	Program  = media.Program
	Sheet    = media.Sheet
	Unsaid   = media.Unsaid
)

// Describe returns the head of a message with these Content-Type and Content-Encoding fields;
// "" means none.
func Describe(contentType, contentEncoding string) *Head {
	return media.Describe(contentType, contentEncoding)
}

// Reasons why a part of a body was not inspected.
const (
	AllRead         = limit.AllRead
	TooLarge        = limit.TooLarge
	Intricate       = limit.Intricate
	Bomb            = limit.Bomb
	NoCapacity      = limit.NoCapacity
	UnknownCoding   = limit.UnknownCoding
	Encrypted       = limit.Encrypted
	UnsupportedType = limit.UnsupportedType
	TookTooLong     = limit.TookTooLong
	Cut             = limit.Cut
)

// ErrBomb reports a body that grows too much when decoded.
var ErrBomb = limit.ErrBomb

// A Follower is the state of one check while it reads one body.
type Follower interface {
	// Read gets the next text. text[fresh:] is new; the part before it is the end of previous
	// text, at least 4 KiB if there was as much. The text is normalised ([Body.Text]) and ends
	// with a complete word, or within one that has thousands of bytes. It is valid during the
	// call.
	Read(text []byte, fresh int)
	// Close ends the follower, because the body is released.
	Close()
}

// A Reader makes followers. A body compares readers to find the follower of each, so a Reader
// must be a pointer.
type Reader interface {
	// Follow returns a new follower of a body.
	Follow(b *Body) Follower
}

// A Body is the body of a message. Checks inspect it while the server holds it or forwards it.
// Call Reset before use. It belongs to one goroutine at a time.
type Body struct {
	Wait Wait

	head Head

	in     coding.Pieces
	front  []byte // room before the first piece
	total  int64  // expected length, -1 if unknown
	typ    string
	level  int    // number of documents around this one
	office bool   // it is part of an office document
	room   *int64 // decoded bytes left for nested archives, nil in the outermost
	pack   bool
	packed *bool       // set when it is known to be a software package: pack, or that of the file around it
	bound  *limit.Work // shared with the bodies within
	own    limit.Work

	readings  []*text
	decoded   *decodedView
	blocks    *coding.Stream // of Next
	takings   []*takerPass
	readers   []Reader
	followers []Follower
	watcher   document.PartWatcher
}

// Reset prepares b for a body described by h.
func (b *Body) Reset(h *Head, lim Limits) {
	b.Release()
	b.head = *h
	b.in.Limits = lim.WithDefaults()
	if h.Claimed() && len(b.main()) > 0 {
		b.in.Doubt()
	}
	b.own = limit.Work{Expansion: limit.MostExpansion}
	b.bound = &b.own
	b.pack, b.packed = false, &b.pack
	b.typ = h.Type()
	b.total = -1
}

// ResetText prepares b as a body whose text is text, normalised as that of a
// window of a conversation.
// text must not change until Release.
func (b *Body) ResetText(text []byte) {
	b.Reset(Describe("text/plain", ""), Limits{})
	b.in.FinishAt(int64(len(text)))
	t := b.read(nil)
	t.begun, t.finished, t.how = true, true, media.Plain
	f := t.scanner.Out()
	f.B = append(f.B[:0], text...)
	t.stream.Abort(io.EOF)
}

// Expect sets the number of wire bytes that the body will have.
func (b *Body) Expect(n int64) { b.total = n }

// SetRoom sets memory that ends where the first piece begins, and that [Body.DecodedAfter] may
// overwrite as long as it may use the piece.
func (b *Body) SetRoom(room []byte) { b.front = room }

// Append adds a piece of the body as received (transfer coding removed, content coding not).
// The body does not copy p, and refers to it until Forget or Release.
func (b *Body) Append(p []byte) { b.in.Append(p) }

// Forget reads the pieces appended so far for all views in use (followers, text, decoded
// bytes) and drops its references to them, so that the server can reuse their memory. A view
// first used after a Forget starts with the next piece; if the body has a content coding, such
// a view fails.
func (b *Body) Forget() {
	if len(b.readings)+len(b.followers) > 0 {
		_ = b.Read(context.Background()) // an error is sticky: the next Read returns it
		for _, t := range b.readings {
			t.stream.Forget()
			t.trim()
		}
	}
	if b.decoded != nil {
		b.decoded.decodeAll()
		b.decoded.stream.Forget()
	}
	if b.blocks != nil {
		b.blocks.Forget()
	}
	for _, t := range b.takings {
		_ = t.advance() // an error is sticky: the next Taken returns it
		t.stream.Forget()
	}
	b.in.Forget()
}

// Finish says that the body is complete.
func (b *Body) Finish() { b.in.Finish() }

// Complete reports whether Finish has been called.
func (b *Body) Complete() bool { return b.in.Complete() }

// Pieces returns the pieces of the body as received that are still referred to. They must not be
// changed.
func (b *Body) Pieces() [][]byte { return b.in.All() }

// Len returns the number of wire bytes appended so far.
func (b *Body) Len() int64 { return b.in.Len() }

// Uncoded reports whether the body lacks the codings that its fields name, and is read as it is. Only
// one of which [Head.Claim] says that may.
func (b *Body) Uncoded() bool { return b.in.Refuted() }

// Head returns the description of the body by the message's fields.
func (b *Body) Head() *Head { return &b.head }

// Type returns the effective media type in lower case without parameters. If the fields give
// none, or one that does not fit the bytes, it is determined from the first decoded bytes.
func (b *Body) Type() string {
	switch b.typ {
	case "", "text/plain":
	default:
		return b.typ
	}
	t := b.reading()
	_ = t.advance(context.Background())
	if !t.begun {
		typ, _ := b.head.Judge(t.head, b.in.Limits.Scripts)
		return typ
	}
	return b.typ
}

// SniffedType returns the media type by the first decoded bytes, whatever the fields say.
func (b *Body) SniffedType() string {
	t := b.reading()
	_ = t.advance(context.Background()) // an error is sticky: Read returns it
	if t.begun {
		return t.looks
	}
	return media.Sniff(t.head)
}

// enoughToSniff is the number of bytes after which more of them rarely say more about the type.
const enoughToSniff = 512

// Is reports whether b is of one of some media types, such as "image/png" and "image/*", by its field
// and by its first bytes: what is labelled so and known as something else is not, nor is that of which
// too little has come.
func (b *Body) Is(types []string) bool {
	if !isOf(types, b.head.Type()) || b.Len() < enoughToSniff && !b.Complete() {
		return false
	}
	looks := b.SniffedType()
	return looks == "application/octet-stream" || isOf(types, looks)
}

func isOf(types []string, typ string) bool {
	return slices.ContainsFunc(types, func(t string) bool {
		is, _ := path.Match(t, typ)
		return is
	})
}

// NeedsWhole reports whether the text can only be read once the body is complete, as in PDF and in
// documents stored as archives.
func (b *Body) NeedsWhole() bool { return b.format() > media.MIME && b.format() != media.Unread }

// Archive reports whether the body is an archive, whose members are read.
func (b *Body) Archive() bool { return b.format() == media.Members }

// Package reports whether the body is a software package, by the names of the members that have
// been read.
func (b *Body) Package() bool { return b.packed != nil && *b.packed }

// Markup reports whether the body is a page or other markup.
func (b *Body) Markup() bool { return b.format() == media.HTML || b.format() == media.XML }

// NothingToRead reports that nothing more of the body will be read: no interpretation of it has
// text, and nothing takes or keeps its bytes.
func (b *Body) NothingToRead() bool {
	if b.head.Kept() || len(b.readings) == 0 || len(b.takings) > 0 || b.decoded != nil || b.blocks != nil {
		return false
	}
	for _, t := range b.readings {
		if !t.begun || t.how != media.None {
			return false
		}
	}
	return true
}

// format returns how the body is read, as far as known.
func (b *Body) format() media.Format {
	t := b.reading()
	_ = t.advance(context.Background()) // an error is sticky: Read returns it
	if t.begun {
		return t.how
	}
	_, how := b.head.Judge(t.head, b.in.Limits.Scripts)
	return how
}

// Decoded returns the decoded body as far as it has arrived, at most Limits.Whole bytes, valid
// until the next Append or Release. With an error (a malformed or truncated coding, [ErrBomb])
// it returns the part before it. It keeps the whole body in memory: prefer a [Follower].
func (b *Body) Decoded() ([]byte, error) {
	if b.decoded == nil {
		b.decoded, _ = decodeds.Get().(*decodedView)
		if b.decoded == nil {
			b.decoded = &decodedView{}
		}
		b.decoded.in = &b.in
		b.decoded.stream.Reset(&b.in, b.main())
		b.decoded.most = 16 << 20
		if b.in.Limits.Whole > 0 {
			b.decoded.most = b.in.Limits.Whole
		}
	}
	return b.decoded.advance()
}

// DecodedAfter returns the decoded body so far behind other bytes, without copying the body. It is
// valid as long as what [Body.Decoded] returned, and until the next call. ok is false if there
// is no room for the other bytes.
func (b *Body) DecodedAfter(before ...[]byte) (all []byte, ok bool) {
	n := 0
	for _, p := range before {
		n += len(p)
	}
	d := b.decoded
	switch k := len(b.front); {
	case d == nil || n > Headroom:
		return nil, false
	case len(d.buf) > 0:
		all = d.buf[Headroom-n:]
	case n <= k && len(d.one) > 0 && k+len(d.one) <= cap(b.front) && &b.front[:k+1][k] == &d.one[0]:
		all = b.front[k-n : k+len(d.one)]
	default:
		return nil, false
	}
	n = 0
	for _, p := range before {
		n += copy(all[n:], p)
	}
	return all, true
}

// Follow returns the follower that r made for this body, and makes it at the first call. It
// then passes on text that was read before and is still kept (all until the first Forget,
// within Limits.Whole).
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
			f.Read(t.scanner.Out().B[:t.handed], 0)
		}
	}
	return f
}

// Read decodes the appended pieces and passes their text to the followers. It returns an error
// if the coding is malformed, truncated or a bomb, also at later calls; the text before it was
// passed on.
func (b *Body) Read(ctx context.Context) error {
	err := b.reading().advance(ctx)
	for i := 1; i < len(b.readings); i++ { // a reading may start another
		_ = b.readings[i].advance(ctx) // errors that only some clients see do not count
	}
	return err
}

// Text returns the visible text, normalised for matching: UTF-8, folded, letters and digits
// only, single blanks between words and at both ends. It is valid until the next Append or
// Release.
//
// Until the body is complete, the text ends after the last complete word. So each Text is a
// prefix of the next one, unless it exceeds Limits.Whole or Forget was called: then only its
// end is kept. Errors are those of Read. Types without text (pictures, archives) have the text
// " ".
//
// Visible is the text that browsers show with or without scripting, and also: the title; meta
// elements description, keywords, rating and title; alt, title, placeholder and aria
// attributes and labels of buttons, each at the end of its line; templates; strings of style
// sheets.
func (b *Body) Text() ([]byte, error) {
	err := b.Read(context.Background())
	return b.readings[0].completeWords(), err
}

// Next returns the next decoded bytes of a body that is read as it arrives and not kept. It
// returns nil if more pieces are needed, and io.EOF at the end. It is a separate pass over the
// body from that of the text; pieces must be read before Forget.
func (b *Body) Next() ([]byte, error) {
	if b.blocks == nil {
		b.blocks = &coding.Stream{}
		b.blocks.Reset(&b.in, b.main())
	}
	return b.blocks.Pull()
}

// Seal returns bytes to send after the pieces of b, all of which went through [Body.Next], so
// that the coding ends with text; nil if that is impossible. rest is the original
// continuation: Seal includes bytes of it only to complete the header of a block. Nothing more
// can be read from b.
func (b *Body) Seal(rest [][]byte, text []byte) []byte {
	if b.blocks == nil {
		return nil
	}
	return b.blocks.Seal(rest, text)
}

// Languages returns the languages that the text and the head declare, or Unknown.
func (b *Body) Languages() (text, head language.Tag) {
	if len(b.readings) > 0 {
		text = b.readings[0].scanner.Language()
	}
	return text, b.head.Language()
}

// Inspected returns how many wire bytes of how many were inspected, and why not all. For an
// incomplete body, expected bytes count if their number is known.
func (b *Body) Inspected() (n, of int64, why Reason) {
	of, why = max(b.Len(), b.total), b.Unread()
	switch {
	case why == AllRead:
		n = b.Len()
	case len(b.readings) > 0:
		n = b.readings[0].stream.Wire()
	case b.decoded != nil:
		n = b.decoded.stream.Wire()
	}
	return n, of, why
}

// Unread returns why received bytes were not, or will not be, inspected; AllRead if there was
// no reason so far.
func (b *Body) Unread() Reason {
	if b.bound != nil && b.bound.Over() {
		return TookTooLong
	}
	return b.in.Unread()
}

// Stop says that the server shows no more of the body, and why.
func (b *Body) Stop(why Reason) { b.in.Stop(why) }

// reading returns the main reading, as by most browsers.
func (b *Body) reading() *text {
	if len(b.readings) == 0 {
		b.read(b.main())
		if l := b.head.Codings(); l.Foreign() && len(l.All()) > 0 {
			b.read(l.All())
		}
	}
	return b.readings[0]
}

// main returns the codings that most browsers decode.
func (b *Body) main() []coding.Coding {
	if b.head.Codings().Foreign() {
		return nil
	}
	return b.head.Codings().All()
}

const maxReadings = 3

// read starts another reading of the body.
func (b *Body) read(codings []coding.Coding) *text {
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

// Release returns pooled memory and drops all references. Call it for every body that was
// Reset, or a coroutine may leak.
func (b *Body) Release() {
	for i, t := range b.readings {
		t.release()
		b.readings[i] = nil
	}
	if b.decoded != nil {
		b.decoded.release()
	}
	if b.blocks != nil {
		b.blocks.Close()
	}
	for i, t := range b.takings {
		t.stream.Close()
		t.taker.Close()
		b.takings[i] = nil
	}
	for i, f := range b.followers {
		f.Close()
		b.followers[i], b.readers[i] = nil, nil
	}
	b.in.Reset()
	in, readings, readers, followers, takings := b.in, b.readings[:0], b.readers[:0], b.followers[:0], b.takings[:0]
	*b = Body{}
	b.in, b.readings, b.readers, b.followers, b.takings = in, readings, readers, followers, takings
}

// Memory above these sizes is left to the garbage collector instead of being pooled.
const (
	keptText    = 256 << 10
	keptDecoded = 2 << 20
)

// leastDecoded is the least memory for a decoded body. Otherwise the pool, which the garbage
// collector empties, would get a somewhat larger one with each larger body.
const leastDecoded = 256 << 10

var texts, decodeds sync.Pool

// A decodedView is the view of Body.Decoded.
type decodedView struct {
	in     *coding.Pieces
	stream coding.Stream
	buf    []byte // empty, or Headroom bytes of room and what was decoded
	one    []byte // the only block so far of a body without coding; not copied
	most   int64
	full   bool
}

// Headroom is the most room before a body that [Body.DecodedAfter] uses, in bytes: most heads of
// messages fit into it.
const Headroom = 4 << 10

// len returns the number of bytes in buf without the room before them.
func (d *decodedView) len() int { return max(0, len(d.buf)-Headroom) }

func (d *decodedView) advance() ([]byte, error) {
	for !d.full {
		p, err := d.stream.Pull()
		switch {
		case len(p) == 0:
		case int64(d.len()+len(d.one)+len(p)) > d.most:
			d.copyBlock()
			d.buf = append(d.buf, p[:d.most-int64(d.len())]...)
			d.full = true
			d.in.Stop(TooLarge)
			d.stream.Close()
		case !d.stream.Coded() && len(d.buf) == 0 && d.one == nil:
			d.one = p
		default:
			d.copyBlock()
			d.buf = append(d.buf, p...)
		}
		switch {
		case err == io.EOF:
			return d.bytes(), nil
		case err != nil:
			d.in.Stop(d.stream.Reason())
			return d.bytes(), err
		case p == nil:
			return d.bytes(), nil
		}
	}
	return d.bytes(), nil
}

func (d *decodedView) bytes() []byte {
	if d.one != nil || len(d.buf) == 0 {
		return d.one
	}
	return d.buf[Headroom:]
}

// copyBlock copies a block that belongs to the server. For a complete body without coding it makes
// room for the rest at once.
func (d *decodedView) copyBlock() {
	room := len(d.one)
	if d.one != nil && d.in.Complete() {
		room = int(min(max(d.in.Len(), int64(room)), d.most))
	}
	if len(d.buf) == 0 {
		if room += Headroom; room > cap(d.buf) {
			d.buf = make([]byte, 0, max(room, leastDecoded))
		}
		d.buf = d.buf[:Headroom]
	}
	d.buf = append(d.buf, d.one...)
	d.one = nil
}

// decodeAll decodes all available pieces, which are then not needed any more.
func (d *decodedView) decodeAll() {
	_, _ = d.advance() // an error is sticky: the next Decoded returns it
	d.copyBlock()
}

func (d *decodedView) release() {
	d.stream.Close()
	if cap(d.buf) > keptDecoded {
		d.buf = nil
	}
	*d = decodedView{buf: d.buf[:0]}
	decodeds.Put(d)
}
