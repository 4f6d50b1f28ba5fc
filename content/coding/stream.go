package coding

import (
	"bytes"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"iter"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"shuultuur/content/limit"
)

const (
	blockSize = 32 << 10 // bytes decoded at a time
	partSize  = 8 << 10  // bytes of a piece that a decoder gets at a time
	MaxWindow = 8 << 20  // zstd; RFC 9659 allows no more
)

// A source provides a body block by block. A block is valid until the next call. The end is
// io.EOF.
type source interface {
	next() ([]byte, error)
}

// A decoder reverses one content coding. Decoders are pooled: open prepares one for a stream,
// from which it claims memory, close returns it.
type decoder interface {
	source
	open(src source, s *Stream)
	close()
}

// A Stream is one pass over the decoded pieces of a body. Decoders pull pieces. For a complete
// body they simply run. Otherwise they run in a coroutine that suspends when they need a piece
// that has not arrived.
type Stream struct {
	in      *Pieces
	codings []Coding
	at      int    // index of the next piece
	left    []byte // rest of the current piece
	wire    int64  // bytes given to decoders
	opened  bool
	given   bool  // a block was decoded
	taken   int64 // bytes taken from the budget
	err     error // sticky, io.EOF included

	stages [MaxCodings]stage
	n      int

	resume func() ([]byte, bool) // the coroutine, nil if none is needed
	stop   func()
	yield  func([]byte) bool
	hungry bool // it is suspended because it needs a piece
}

// A stage counts the output of a decoder.
type stage struct {
	decoder
	coding Coding
	out    int64
	stream *Stream
}

var (
	errCut     = errors.New("limit reached")
	errStopped = errors.New("stopped")
	errMemory  = errors.New("no memory for its window")
)

func (g *stage) next() ([]byte, error) {
	p, err := g.decoder.next()
	g.out += int64(len(p))
	lim := &g.stream.in.Limits
	if g.out > limit.BombFloor && g.out/int64(lim.Ratio) > g.stream.wire {
		return nil, limit.ErrBomb
	}
	if over := g.out - lim.Decoded; over > 0 {
		return p[:max(0, int64(len(p))-over)], errCut
	}
	if err != nil && !errors.Is(err, io.EOF) && !isFinal(err) {
		err = fmt.Errorf("decoding content coding %s after %d bytes: %w", g.coding, g.out, err)
	}
	return p, err
}

func isFinal(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, errCut) || errors.Is(err, limit.ErrBomb)
}

// next makes the pieces the source of the first decoder.
func (s *Stream) next() ([]byte, error) {
	for {
		if p := s.part(); p != nil {
			return p, nil
		}
		if s.in.done {
			return nil, io.EOF
		}
		if !s.yield(nil) {
			return nil, errStopped
		}
	}
}

// piece returns the next piece, nil if it has not arrived.
func (s *Stream) piece() []byte {
	if s.at == len(s.in.pieces) {
		return nil
	}
	p := s.in.pieces[s.at]
	s.at++
	s.wire += int64(len(p))
	return p
}

// part is like piece for decoders, but returns small parts, so that the ratio of a
// decompression bomb shows early.
func (s *Stream) part() []byte {
	if len(s.left) == 0 {
		if s.left = s.piece(); s.left == nil {
			return nil
		}
		s.wire -= int64(len(s.left))
	}
	p := s.left[:min(len(s.left), partSize)]
	s.left = s.left[len(p):]
	s.wire += int64(len(p))
	return p
}

// Pull returns the next decoded block, which is valid until the next call. It returns nil
// without an error if more pieces are needed.
func (s *Stream) Pull() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	if !s.opened {
		if len(s.codings) > 0 && s.in.claim == doubted {
			if s.in.settle(s.codings); s.in.claim == doubted {
				return nil, nil
			}
		}
		if s.in.claim == refuted {
			s.codings = nil
		}
		s.opened = true
		if s.err = s.open(); s.err != nil {
			return nil, s.err
		}
	}
	p, err := s.block()
	s.given = s.given || len(p) > 0
	if err != nil {
		s.err = err
		if s.n > 0 {
			p = bytes.Clone(p) // others may use the decoder now
		}
		s.Close()
		if errors.Is(err, errCut) {
			s.err = io.EOF
			s.in.Stop(limit.TooLarge)
		}
	}
	return p, s.err
}

// Reason returns why a failed stream was not read to its end.
func (s *Stream) Reason() limit.Reason {
	switch {
	case errors.Is(s.err, limit.ErrBomb):
		return limit.Bomb
	case errors.Is(s.err, errMemory):
		return limit.NoCapacity
	case !s.given:
		return limit.UnknownCoding
	}
	return limit.Cut
}

func (s *Stream) block() ([]byte, error) {
	if s.n == 0 {
		return s.identity()
	}
	if s.resume == nil {
		return s.stages[s.n-1].next()
	}
	if s.hungry && s.at == len(s.in.pieces) && !s.in.done {
		return nil, nil
	}
	p, ok := s.resume()
	if !ok {
		return nil, s.err
	}
	s.hungry = p == nil
	return p, nil
}

func (s *Stream) identity() ([]byte, error) {
	p := s.piece()
	if p == nil && s.in.done {
		return nil, io.EOF
	}
	if over := s.wire - s.in.Limits.Decoded; over > 0 {
		return p[:max(0, int64(len(p))-over)], errCut
	}
	return p, nil
}

// open prepares the decoders of the codings, of which the last was applied last.
func (s *Stream) open() error {
	if len(s.codings) == 0 {
		return nil
	}
	if len(s.codings) > MaxCodings {
		return fmt.Errorf("more than %d nested content codings", MaxCodings)
	}
	if s.in.forgotten {
		return fmt.Errorf("content coding %s: its beginning was discarded before it was needed", s.codings[len(s.codings)-1])
	}
	var src source = s
	for n := len(s.codings); n > 0; n-- {
		g := &s.stages[s.n]
		*g = stage{decoder: newDecoder(s.codings[n-1]), coding: s.codings[n-1], stream: s}
		g.open(src, s)
		src = g
		s.n++
	}
	if !s.in.done {
		s.resume, s.stop = iter.Pull(s.run)
	}
	return nil
}

// claim takes memory for a decoder that keeps it between pieces. A complete body is decoded
// within one call and claims none.
func (s *Stream) claim(n int64) error {
	if m := s.in.Limits.Memory; m != nil && s.resume != nil {
		if !m.Acquire(n) {
			return errMemory
		}
		s.taken += n
	}
	return nil
}

// run is the coroutine.
func (s *Stream) run(yield func([]byte) bool) {
	s.yield = yield
	for {
		p, err := s.stages[s.n-1].next()
		if err == nil {
			if len(p) > 0 && !yield(p) {
				return
			}
			continue
		}
		if len(p) > 0 && !yield(p) {
			return
		}
		s.err = err
		return
	}
}

// Close ends the coroutine and returns the decoders.
func (s *Stream) Close() {
	if s.stop != nil {
		s.stop()
	}
	for i := range s.n {
		s.stages[i].close()
		s.stages[i] = stage{}
	}
	s.n = 0
	s.resume, s.stop, s.yield = nil, nil, nil
	if s.taken > 0 {
		s.in.Limits.Memory.Release(s.taken)
		s.taken = 0
	}
}

// Forget drops the pieces.
func (s *Stream) Forget() {
	s.at, s.left = 0, nil
	if s.opened && s.in.keeps() {
		s.at = 1
	}
}

// Reset closes s and prepares it for a pass over in.
func (s *Stream) Reset(in *Pieces, codings []Coding) {
	s.Close()
	*s = Stream{in: in, codings: codings}
}

// Abort ends the pass: from now on, pull returns err.
func (s *Stream) Abort(err error) {
	s.Close()
	s.err = err
}

// Err returns why pull returns nothing more, nil if it may; at the end it is io.EOF.
func (s *Stream) Err() error { return s.err }

// Coded reports whether the pass undoes codings.
func (s *Stream) Coded() bool { return len(s.codings) > 0 }

// GaveNothing reports whether no block was decoded.
func (s *Stream) GaveNothing() bool { return !s.given }

// Wire returns how many bytes the decoders got.
func (s *Stream) Wire() int64 { return s.wire }

// Decoders are expensive to make and cheap to reuse.
var gzips, deflates, brotlis, zstds sync.Pool

func newDecoder(c Coding) decoder {
	switch c {
	case Gzip:
		if d, ok := gzips.Get().(*gzipDecoder); ok {
			return d
		}
		return &gzipDecoder{}
	case Deflate:
		if d, ok := deflates.Get().(*deflateDecoder); ok {
			return d
		}
		return &deflateDecoder{sum: adler32.New()}
	case Brotli:
		if d, ok := brotlis.Get().(*brotliDecoder); ok {
			return d
		}
		return &brotliDecoder{r: brotli.NewReader(nil)}
	default:
		if d, ok := zstds.Get().(*zstdDecoder); ok {
			return d
		}
		return newZstdDecoder()
	}
}

// A reader is an io.Reader on a source, for decoders that need one.
type reader struct {
	src  source
	left []byte
	buf  [blockSize]byte // output buffer
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		var err error
		if r.left, err = r.src.next(); err != nil && len(r.left) == 0 {
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// peek ensures that left has n bytes.
func (r *reader) peek(n int) error {
	for len(r.left) < n {
		p, err := r.src.next()
		if len(p) == 0 && err != nil {
			return err
		}
		r.left = p // n is 1: nothing is left of the previous block
	}
	return nil
}

// block reads the next decoded block from d.
func (r *reader) block(d io.Reader) ([]byte, error) {
	for {
		n, err := d.Read(r.buf[:])
		if n > 0 || err != nil {
			return r.buf[:n], err
		}
	}
}

func (r *reader) reset(src source) { r.src, r.left = src, nil }

// Unexpected turns io.EOF into an error.
func Unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

type brotliDecoder struct {
	reader
	r      *brotli.Reader
	stream *Stream // until its memory is claimed
}

func (d *brotliDecoder) open(src source, s *Stream) {
	d.reset(src)
	d.stream = s
	_ = d.r.Reset(&d.reader) // never fails (brotli)
}

func (d *brotliDecoder) next() ([]byte, error) {
	if s := d.stream; s != nil {
		d.stream = nil
		if err := d.peek(1); err != nil {
			return nil, Unexpected(err)
		}
		if err := s.claim(brotliWindow(d.left[0])); err != nil {
			return nil, err
		}
	}
	p, err := d.block(d.r)
	if err != nil && err.Error() == "brotli: excessive input" {
		// The stream has ended. Browsers ignore the bytes after it. The reader sometimes
		// reports this although nothing follows.
		err = io.EOF
	}
	return p, err
}

// brotliWindow returns the window size in the first byte of a stream (RFC 7932 section 9.1).
func brotliWindow(c byte) int64 {
	switch {
	case c&1 == 0:
		return 1 << 16
	case c>>1&7 != 0:
		return 1 << (17 + c>>1&7)
	case c>>4&7 == 0:
		return 1 << 17
	}
	return 1 << (8 + c>>4&7)
}

func (d *brotliDecoder) close() {
	d.reset(nil)
	d.stream = nil
	brotlis.Put(d)
}

// A zstdDecoder reads an empty skippable frame after the input. It stands in for a checksum
// that is cut off, so that the block before it is not lost.
type zstdDecoder struct {
	reader
	ended  bool
	r      *zstd.Decoder
	err    error
	stream *Stream // until its memory is claimed
}

func newZstdDecoder() *zstdDecoder {
	d := &zstdDecoder{}
	d.r, d.err = zstd.NewReader(nil, zstd.IgnoreChecksum(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
	return d
}

func (d *zstdDecoder) open(src source, s *Stream) {
	d.reset(src)
	d.stream, d.ended = s, false
	if d.r != nil {
		d.err = d.r.Reset(d)
	}
}

// skippable is an empty frame without meaning (RFC 8878 section 3.1.2).
const skippable = "\x50\x2A\x4D\x18\x00\x00\x00\x00"

// Read provides the input of the decoder.
func (d *zstdDecoder) Read(p []byte) (int, error) {
	n, err := d.reader.Read(p)
	if err != io.EOF || d.ended || n > 0 {
		return n, err
	}
	d.ended = true
	d.left = []byte(skippable)
	return d.reader.Read(p)
}

func (d *zstdDecoder) next() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	if s := d.stream; s != nil {
		d.stream = nil
		// The window of the first frame; the decoder refuses a larger one.
		if err := s.claim(MaxWindow); err != nil {
			return nil, err
		}
	}
	return d.block(d.r)
}

func (d *zstdDecoder) close() {
	d.reset(nil)
	d.stream = nil
	if d.r != nil && d.r.Reset(nil) == nil {
		zstds.Put(d)
	}
}
