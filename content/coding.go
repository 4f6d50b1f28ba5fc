package content

import (
	"bytes"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"iter"
	"runtime"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	maxCodings = 3        // applied one after another
	blockSize  = 32 << 10 // decoded at a time
	partSize   = 8 << 10  // of a piece, given to a decoder at a time
	maxWindow  = 8 << 20  // zstd; RFC 9659 allows no more
	bombFloor  = 1 << 20  // below this no ratio is suspicious
)

// A source hands out a body block by block. A block is valid until the next
// is asked for; the end is io.EOF.
type source interface {
	next() ([]byte, error)
}

// A decoder undoes one content coding. It comes from a pool: open takes it
// into use, close gives it back.
type decoder interface {
	source
	open(src source)
	close()
}

// A stream is one pass over the pieces of a body with its codings undone. It
// pulls: the decoders ask for pieces. Where the body is complete that is all.
// Where it is not, they run in a coroutine that stops when they ask for a
// piece that has not come yet.
type stream struct {
	body   *Body
	at     int    // the next piece
	left   []byte // of the one before it
	wire   int64  // bytes handed out
	opened bool
	err    error // sticky, io.EOF included

	stages [maxCodings]stage
	n      int

	resume func() ([]byte, bool) // the coroutine, nil where none is needed
	stop   func()
	yield  func([]byte) bool
	hungry bool // it stopped for want of a piece
	gate   chan struct{}
}

// A stage counts what a decoder gives.
type stage struct {
	decoder
	coding string
	out    int64
	stream *stream
}

var (
	errCut     = errors.New("limit reached")
	errStopped = errors.New("stopped")
)

func (g *stage) next() ([]byte, error) {
	p, err := g.decoder.next()
	g.out += int64(len(p))
	lim := &g.stream.body.lim
	if g.out > bombFloor && g.out/int64(lim.Ratio) > g.stream.wire {
		return nil, ErrBomb
	}
	if over := g.out - lim.Decoded; over > 0 {
		return p[:max(0, int64(len(p))-over)], errCut
	}
	if err != nil && !errors.Is(err, io.EOF) && !isFinal(err) {
		err = fmt.Errorf("undoing content coding %s after %d bytes: %w", g.coding, g.out, err)
	}
	return p, err
}

func isFinal(err error) bool {
	return errors.Is(err, errStopped) || errors.Is(err, errCut) || errors.Is(err, ErrBomb)
}

// next is the source that the first decoder reads: the pieces.
func (s *stream) next() ([]byte, error) {
	for {
		if p := s.part(); p != nil {
			return p, nil
		}
		if s.body.done {
			return nil, io.EOF
		}
		if !s.yield(nil) {
			return nil, errStopped
		}
	}
}

// piece returns the next piece, nil when it has not come.
func (s *stream) piece() []byte {
	if s.at == len(s.body.pieces) {
		return nil
	}
	p := s.body.pieces[s.at]
	s.at++
	s.wire += int64(len(p))
	return p
}

// part is piece for decoders: by small parts, so that a bomb's ratio shows
// early.
func (s *stream) part() []byte {
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

// pull returns the next decoded block, valid until the next call; nil without
// an error when more pieces are needed for one.
func (s *stream) pull() ([]byte, error) {
	if s.err != nil {
		return nil, s.err
	}
	if !s.opened {
		s.opened = true
		if s.err = s.open(); s.err != nil {
			return nil, s.err
		}
	}
	p, err := s.block()
	if err != nil {
		s.err = err
		s.close()
		if errors.Is(err, errCut) {
			s.body.cut = true
			s.err = io.EOF
		}
	}
	return p, s.err
}

func (s *stream) block() ([]byte, error) {
	if s.n == 0 {
		return s.identity()
	}
	if s.resume == nil {
		return s.stages[s.n-1].next()
	}
	if s.hungry && s.at == len(s.body.pieces) && !s.body.done {
		return nil, nil
	}
	p, ok := s.resume()
	if !ok {
		return nil, s.err
	}
	s.hungry = p == nil
	return p, nil
}

func (s *stream) identity() ([]byte, error) {
	p := s.piece()
	if p == nil && s.body.done {
		return nil, io.EOF
	}
	if over := s.wire - s.body.lim.Decoded; over > 0 {
		return p[:max(0, int64(len(p))-over)], errCut
	}
	return p, nil
}

// open takes the decoders into use that Content-Encoding names, the last
// applied first.
func (s *stream) open() error {
	rest := s.body.coding
	var codings [maxCodings]string
	n := 0
	for len(rest) > 0 {
		var one []byte
		one, rest, _ = bytes.Cut(rest, []byte(","))
		name, err := codingName(bytes.Trim(one, " \t"))
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if n == maxCodings {
			return fmt.Errorf("content coding %q: more than %d one upon another", s.body.coding, maxCodings)
		}
		codings[n] = name
		n++
	}
	if n == 0 {
		return nil
	}
	if s.body.forgotten {
		return fmt.Errorf("content coding %q: its beginning was forgotten before it was asked for", s.body.coding)
	}
	if err := s.enter(codings[:n]); err != nil {
		return err
	}
	var src source = s
	for ; n > 0; n-- {
		g := &s.stages[s.n]
		*g = stage{decoder: newDecoder(codings[n-1]), coding: codings[n-1], stream: s}
		g.open(src)
		src = g
		s.n++
	}
	if !s.body.done {
		s.resume, s.stop = iter.Pull(s.run)
	}
	return nil
}

// Decoders of br and zstd hold a window of up to 16 MiB. A complete body is
// decoded within one call, and no more of these run at once than there are
// processors. A body that comes in pieces holds its decoder between calls, so
// those are counted too; one too many is an error, not a wait that nobody ends.
var (
	running = make(chan struct{}, runtime.GOMAXPROCS(0))
	held    = make(chan struct{}, 8)
)

// enter waits until decoders for codings may be taken into use.
func (s *stream) enter(codings []string) error {
	large := false
	for _, c := range codings {
		large = large || c == "br" || c == "zstd"
	}
	if !large {
		return nil
	}
	if s.body.done {
		running <- struct{}{}
		s.gate = running
		return nil
	}
	select {
	case held <- struct{}{}:
		s.gate = held
		return nil
	default:
		return fmt.Errorf("content coding %q: %d bodies are being decoded piece by piece already", s.body.coding, cap(held))
	}
}

// run is the coroutine.
func (s *stream) run(yield func([]byte) bool) {
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

// close ends the coroutine and gives the decoders back.
func (s *stream) close() {
	if s.stop != nil {
		s.stop()
	}
	for i := range s.n {
		s.stages[i].close()
		s.stages[i] = stage{}
	}
	s.n = 0
	s.resume, s.stop, s.yield = nil, nil, nil
	if s.gate != nil {
		<-s.gate
		s.gate = nil
	}
}

// forget drops the pieces, which have been read as far as they will be.
func (s *stream) forget() { s.at, s.left = 0, nil }

// reset closes s and makes it ready for a pass over b.
func (s *stream) reset(b *Body) {
	s.close()
	*s = stream{body: b}
}

// codingName returns the decoder's name of a content coding, "" for identity.
func codingName(v []byte) (string, error) {
	switch {
	case len(v) == 0, equalLower(v, "identity"):
		return "", nil
	case equalLower(v, "gzip"), equalLower(v, "x-gzip"):
		return "gzip", nil
	case equalLower(v, "deflate"):
		return "deflate", nil
	case equalLower(v, "br"):
		return "br", nil
	case equalLower(v, "zstd"):
		return "zstd", nil
	}
	return "", fmt.Errorf("content coding %q is not known", v)
}

// Decoders cost much to make and little to use again. There are never more in
// the pools than were at work at once, which enter bounds for large ones.
var gzips, deflates, brotlis, zstds sync.Pool

func newDecoder(coding string) decoder {
	switch coding {
	case "gzip":
		if d, ok := gzips.Get().(*gzipDecoder); ok {
			return d
		}
		return &gzipDecoder{}
	case "deflate":
		if d, ok := deflates.Get().(*deflateDecoder); ok {
			return d
		}
		return &deflateDecoder{sum: adler32.New()}
	case "br":
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

// A reader lets a decoder that wants an io.Reader read a source.
type reader struct {
	src  source
	left []byte
	buf  [blockSize]byte // what it gives
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

// unexpected makes the end of input an error where there should be more.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

type brotliDecoder struct {
	reader
	r *brotli.Reader
}

func (d *brotliDecoder) open(src source) {
	d.reset(src)
	_ = d.r.Reset(&d.reader) // never fails (brotli)
}

func (d *brotliDecoder) next() ([]byte, error) { return d.block(d.r) }

func (d *brotliDecoder) close() {
	d.reset(nil)
	brotlis.Put(d)
}

type zstdDecoder struct {
	reader
	r   *zstd.Decoder
	err error
}

func newZstdDecoder() *zstdDecoder {
	d := &zstdDecoder{}
	d.r, d.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return d
}

func (d *zstdDecoder) open(src source) {
	d.reset(src)
	if d.r != nil {
		d.err = d.r.Reset(&d.reader)
	}
}

func (d *zstdDecoder) next() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	return d.block(d.r)
}

func (d *zstdDecoder) close() {
	d.reset(nil)
	if d.r != nil && d.r.Reset(nil) == nil {
		zstds.Put(d)
	}
}
