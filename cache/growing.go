package cache

import (
	"errors"
	"io"
	"math"
	"sync"

	"shuultuur/lib/message"
)

// errCut reports that a body ended before it was complete.
var errCut = errors.New("cache: the fetch that this response shares has failed")

// A growingBody is a body that is fetched, stored, and read by several clients at the same time.
// No goroutine fetches it: the reader that has read all available bytes fetches the next
// piece, so that a slow client does not delay others. The first reader owns the source: when
// it leaves while others still read, it fetches the rest for them.
type growingBody struct {
	budget *budget
	finish func(*blocks) // called once, with the whole body or nil if none is stored
	most   int64         // limit of stored bytes
	total  int64         // length of the body; negative if unknown

	mu       sync.Mutex
	moved    sync.Cond
	src      message.Body
	fetching bool // a reader reads from src, without holding mu
	blocks   *blocks
	n        int64
	taken    int64 // of budget
	readers  int
	alone    bool // too large to be stored: the first reader reads src directly
	ended    bool
	err      error // after its end
}

// A budget limits the bytes of all bodies that are being fetched.
type budget struct {
	mu         sync.Mutex
	used, most int64
	reported   int64       // value of used at the last call of changed
	changed    func(int64) // occasionally called with the number of used bytes; may be nil
}

func (b *budget) take(n int64) bool {
	b.mu.Lock()
	if b.used+n > b.most {
		b.mu.Unlock()
		return false
	}
	b.use(n)
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.use(-n)
}

// now returns the number of used bytes.
func (b *budget) now() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// use adds n to the used bytes and unlocks mu.
func (b *budget) use(n int64) {
	b.used += n
	used := b.used
	tell := b.changed != nil && max(used-b.reported, b.reported-used) > b.most/32
	if tell {
		b.reported = used
	}
	b.mu.Unlock()
	if tell {
		b.changed(used)
	}
}

const (
	firstBlock = 16 << 10 // of a body of unknown length
	nextBlock  = 256 << 10
)

func newGrowing(src message.Body, most int64, b *budget, finish func(*blocks)) *growingBody {
	g := &growingBody{src: src, most: most, budget: b, finish: finish, total: src.Remaining(), blocks: newBlocks()}
	g.moved.L = &g.mu
	return g
}

// reader returns a body with all of g, nil if it is too late for one.
func (g *growingBody) reader() *bodyReader {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended && g.err != nil || g.alone || !g.blocks.hold() {
		return nil
	}
	g.readers++
	return &bodyReader{g: g}
}

// room returns memory for the next piece, nil if there is none.
func (g *growingBody) room() []byte {
	if b := g.blocks.last(); len(b) < cap(b) {
		return b[len(b):min(cap(b), len(b)+int(min(g.missing(), 1<<20)))]
	}
	size := int64(firstBlock)
	switch {
	case g.total >= 0:
		size = min(g.missing(), 4*nextBlock)
	case g.n > 0:
		size = nextBlock
	}
	if g.n+1 > g.most || !g.budget.take(size) {
		return nil
	}
	g.taken += size
	return g.blocks.add(int(size))[:size]
}

// missing returns how many bytes may come at most: one at the end, where the source has yet to
// report it.
func (g *growingBody) missing() int64 {
	if g.total < 0 {
		return math.MaxInt64
	}
	return max(1, g.total-g.n)
}

// grew adds m bytes written to room.
func (g *growingBody) grew(m int) {
	if m > 0 {
		g.blocks.grow(m)
		g.n += int64(m)
	}
	if g.src.AtEnd() {
		g.end(nil)
	}
	g.moved.Broadcast()
}

// end ends the body. The caller holds mu.
func (g *growingBody) end(err error) {
	if g.ended {
		return
	}
	g.ended, g.err = true, err
	if err == nil && g.total >= 0 && g.n != g.total {
		g.err = io.ErrUnexpectedEOF
	}
	g.budget.give(g.taken) // a stored body counts as stored
	g.taken = 0
	if g.err == nil {
		g.finish(g.blocks)
		g.blocks.free()
	} else {
		g.finish(nil)
	}
	g.moved.Broadcast()
}

// atHand takes the available bytes from the source. The caller holds mu.
func (g *growingBody) atHand() {
	if g.ended || g.fetching || g.alone {
		return
	}
	var vec [4][]byte
	for _, p := range g.src.Ready(vec[:0]) {
		for len(p) > 0 {
			b := g.room()
			if b == nil {
				return
			}
			m := copy(b, p)
			p = p[m:]
			g.src.Skip(m)
			g.grew(m)
			if g.ended {
				return
			}
		}
	}
	// Bytes in the kernel are sent together with the head.
	if src, ok := g.src.(message.ArrivedReader); ok && g.total >= 0 {
		if b := g.room(); b != nil {
			g.grew(src.ReadArrived(b))
		}
	}
}

// waitBeyond waits until there are more than n bytes, and fetches them unless another reader does.
// The caller holds mu.
func (g *growingBody) waitBeyond(n int64) {
	for !g.ended && g.n <= n && !g.alone {
		if g.fetching {
			g.moved.Wait()
			continue
		}
		b := g.room()
		if b == nil {
			g.tooLarge()
			return
		}
		g.fetching = true
		g.mu.Unlock()
		m, err := g.src.Read(b)
		g.mu.Lock()
		g.fetching = false
		if err != nil && err != io.EOF {
			g.grew(m)
			g.end(err)
			return
		}
		g.grew(m)
		if err == io.EOF {
			g.end(nil)
		}
	}
}

// tooLarge stops storing a body that has grown too large. A single reader continues; of
// several, none can get all of it.
func (g *growingBody) tooLarge() {
	if g.readers > 1 {
		g.end(errCut)
		return
	}
	g.alone = true
	g.finish(nil)
	g.budget.give(g.taken)
	g.taken = 0
}

// A bodyReader is one reader of a growing body.
type bodyReader struct {
	g      *growingBody
	pos    int64
	block  int // of pos
	off    int // in block
	owner  bool
	closed bool
	vec    [][]byte
}

// direct reports whether the reader has read all stored bytes of a body that is not stored
// further.
func (r *bodyReader) direct() bool { return r.g.alone && r.pos == r.g.n }

// ready appends the stored bytes after pos. The caller holds mu.
func (r *bodyReader) ready(dst [][]byte) [][]byte {
	off := r.off
	for i := r.block; i < len(r.g.blocks.list); i++ {
		if b := r.g.blocks.list[i]; off < len(b) {
			dst = append(dst, b[off:])
		}
		off = 0
	}
	return dst
}

func (r *bodyReader) skip(n int) {
	r.pos += int64(n)
	r.off += n
	for r.block < len(r.g.blocks.list) && r.off >= cap(r.g.blocks.list[r.block]) {
		r.off -= cap(r.g.blocks.list[r.block])
		r.block++
	}
}

// Ready implements [message.Body].
func (r *bodyReader) Ready(dst [][]byte) [][]byte {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.direct() {
		return g.src.Ready(dst)
	}
	g.atHand()
	return r.ready(dst)
}

// Skip implements [message.Body].
func (r *bodyReader) Skip(n int) {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.direct() {
		g.src.Skip(n)
		return
	}
	r.skip(n)
}

// next waits for bytes and returns them; none at the end.
func (r *bodyReader) next() (parts [][]byte, direct bool, err error) {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waitBeyond(r.pos)
	if r.direct() {
		return nil, true, nil
	}
	r.vec = r.ready(r.vec[:0])
	if len(r.vec) == 0 && g.ended {
		err = g.err
		if err == nil {
			err = io.EOF
		}
	}
	return r.vec, false, err
}

// Read implements [message.Body].
func (r *bodyReader) Read(p []byte) (n int, err error) {
	parts, direct, err := r.next()
	if direct {
		return r.g.src.Read(p)
	}
	if err != nil {
		return 0, err
	}
	for _, b := range parts {
		n += copy(p[n:], b)
	}
	r.Skip(n)
	return n, nil
}

// Copy implements [message.Body].
func (r *bodyReader) Copy(w io.Writer, most int64) (n int64, err error) {
	for n < most && !r.AtEnd() {
		parts, direct, err := r.next()
		if direct {
			m, err := r.g.src.Copy(w, most-n)
			return n + m, err
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		for _, b := range parts {
			b = b[:min(int64(len(b)), most-n)]
			if len(b) == 0 {
				break
			}
			m, err := w.Write(b)
			n += int64(m)
			r.Skip(m)
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Remaining implements [message.Body].
func (r *bodyReader) Remaining() int64 {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.ended && g.err == nil:
		return g.n - r.pos
	case r.direct():
		return g.src.Remaining()
	case g.total >= 0:
		return g.total - r.pos
	}
	return g.total
}

// AtEnd implements [message.Body].
func (r *bodyReader) AtEnd() bool {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.direct() {
		return g.src.AtEnd()
	}
	return g.ended && g.err == nil && r.pos == g.n
}

// Trailer implements [message.Body]: stored bodies have none.
func (r *bodyReader) Trailer() message.Fields { return nil }

// Close implements [message.Body]. The owner fetches the rest while others still read.
func (r *bodyReader) Close() error {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	g.readers--
	if g.ended && g.err == nil && r.pos == g.n { // the bytes read are not in use any more
		g.blocks.free()
	}
	if !r.owner {
		return nil
	}
	for !g.ended && !g.alone && (g.readers > 0 || g.fetching) {
		g.waitBeyond(g.n)
	}
	if !g.ended && !g.alone {
		g.end(errCut)
	}
	return g.src.Close()
}
