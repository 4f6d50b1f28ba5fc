package exchange

import (
	"context"
	"math/bits"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"shuultuur/content"
	"shuultuur/proxy/fair"
)

// Sizes of blocks, which hold bodies: for a short response, an ordinary page, and the most
// that one read returns.
const (
	small  = 4 << 10
	medium = 16 << 10
	large  = 64 << 10
)

// together is the largest body of known length that is held in one block, so that checks which
// read all of it need no copy.
const together = 1 << 20

// A budget counts the held bytes of all bodies and pools unused blocks.
//
// A client may hold as much as is free: a single client gets half of the total, each of two
// clients a third. So a client that downloads slowly, or pretends to, leaves room for others.
// Every client may hold one body of permitted size.
type budget struct {
	*fair.Semaphore
	one int64 // bytes that a client may always hold

	mu sync.Mutex
	of map[netip.Addr]int64 // bytes held, by client

	small, medium, large sync.Pool                // of pointers to arrays
	longer               [bits.UintSize]sync.Pool // of pointers to first bytes, by the logarithm of the length
}

func newBudget(n, one int64) *budget {
	b := &budget{Semaphore: fair.New(n, 0), one: one, of: map[netip.Addr]int64{}}
	b.small.New = func() any { return new([small]byte) }
	b.medium.New = func() any { return new([medium]byte) }
	b.large.New = func() any { return new([large]byte) }
	return b
}

// claim takes n bytes for a client, unless its share is used up. It does not wait.
func (b *budget) claim(who netip.Addr, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[who]+n > max(b.one, b.Size()-b.Used()) {
		return false
	}
	if ok, _ := b.Acquire(context.Background(), who, n, 0); !ok {
		return false
	}
	b.of[who] += n
	return true
}

// count records that a client holds n more bytes.
func (b *budget) count(who netip.Addr, n int64) {
	b.mu.Lock()
	b.of[who] += n
	b.mu.Unlock()
}

// give releases n bytes of a client.
func (b *budget) give(who netip.Addr, n int64) {
	b.mu.Lock()
	if b.of[who] -= n; b.of[who] == 0 {
		delete(b.of, who)
	}
	b.mu.Unlock()
	b.Release(n)
}

// block returns an empty block for n more bytes, or for as many as a block can have.
func (b *budget) block(n int64) []byte {
	switch {
	case n <= small:
		return b.small.Get().(*[small]byte)[:0]
	case n <= medium:
		return b.medium.Get().(*[medium]byte)[:0]
	}
	return b.large.Get().(*[large]byte)[:0]
}

// longBlock returns an empty block for n bytes, which are more than a large one has.
func (b *budget) longBlock(n int64) []byte {
	size := bits.Len64(uint64(n - 1))
	if first, ok := b.longer[size].Get().(*byte); ok {
		return unsafe.Slice(first, 1<<size)[:0]
	}
	return make([]byte, 0, 1<<size)
}

func (b *budget) release(block []byte) {
	switch cap(block) {
	case small:
		b.small.Put((*[small]byte)(block[:small]))
	case medium:
		b.medium.Put((*[medium]byte)(block[:medium]))
	case large:
		b.large.Put((*[large]byte)(block[:large]))
	default:
		if n := cap(block); n > large && n&(n-1) == 0 {
			b.longer[bits.Len(uint(n-1))].Put(unsafe.SliceData(block))
		}
	}
}

// A hold is the part of a body in memory: blocks are filled at one end and released at the
// other.
type hold struct {
	b      *budget
	who    netip.Addr // the client
	blocks [][]byte
	base   int64 // position in the body of the first block
	end    int64 // position after the last byte
	shown  bool  // others may refer to the first block
	// long is the room before the first block, if all the body is in it: checks that read a
	// whole message put its head there (see [content.Body.SetRoom]). Its capacity is that of
	// the room and the block.
	long []byte
}

// first ensures that there is a block, and waits for it if necessary.
func (h *hold) first(ctx context.Context, left int64, wait time.Duration) (ok, waited bool) {
	if left < 0 || left > medium {
		left = medium
	}
	blk := h.b.block(left)
	if ok, waited = h.b.Acquire(ctx, h.who, int64(cap(blk)), wait); !ok {
		h.b.release(blk)
		return ok, waited
	}
	h.b.count(h.who, int64(cap(blk)))
	h.blocks = append(h.blocks, blk)
	return ok, waited
}

// room returns the free end of the last block, or of a new one; left is the number of bytes
// still to come, negative if unknown. It returns nil if the client holds as much as it may.
func (h *hold) room(left int64) []byte {
	if k := len(h.blocks); k > 0 {
		if last := h.blocks[k-1]; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
	}
	if left > 0 && len(h.blocks) == 1 && !h.shown && h.end+left > large && h.end+left <= together-content.Headroom {
		if blk := h.move(h.end + left); blk != nil {
			return blk
		}
	}
	if left < 0 {
		left = large
	}
	blk := h.b.block(left)
	if !h.b.claim(h.who, int64(cap(blk))) {
		h.b.release(blk)
		return nil
	}
	h.blocks = append(h.blocks, blk)
	return blk[:cap(blk)]
}

// move moves the bytes of the only block to one for n bytes, and returns the rest of that. It
// returns nil if the client must not hold as much.
func (h *hold) move(n int64) []byte {
	whole := h.b.longBlock(content.Headroom + n)
	if !h.b.claim(h.who, int64(cap(whole))) {
		h.b.release(whole)
		return nil
	}
	room, rest := whole[:content.Headroom], whole[content.Headroom:content.Headroom]
	blk := append(rest, h.blocks[0]...)
	h.give(h.blocks[0])
	h.blocks[0], h.long = blk, room
	return blk[len(blk):cap(blk)]
}

// wrote records that n bytes were read into the slice returned by room.
func (h *hold) wrote(n int) {
	k := len(h.blocks) - 1
	h.blocks[k] = h.blocks[k][:len(h.blocks[k])+n]
	h.end += int64(n)
}

// slices appends the held parts of the body between two positions.
func (h *hold) slices(dst [][]byte, from, to int64) [][]byte {
	h.shown = true
	at := h.base
	for _, b := range h.blocks {
		next := at + int64(len(b))
		if lo, hi := max(from, at), min(to, next); lo < hi {
			dst = append(dst, b[lo-at:hi-at])
		}
		at = next
	}
	return dst
}

// drop releases the bytes before a position. It keeps the last block, and moves the bytes
// still needed to its beginning.
func (h *hold) drop(to int64) {
	k := 0
	for k < len(h.blocks)-1 && h.base+int64(len(h.blocks[k])) <= to {
		h.base += int64(len(h.blocks[k]))
		h.give(h.blocks[k])
		k++
	}
	n := copy(h.blocks, h.blocks[k:])
	clear(h.blocks[n:])
	h.blocks = h.blocks[:n]
	switch {
	case n != 1 || to <= h.base:
	case h.long != nil: // more may be read into its end now
		h.blocks[0] = h.blocks[0][to-h.base:]
		h.base = to
	case len(h.blocks[0]) == cap(h.blocks[0]):
		b := h.blocks[0]
		h.blocks[0] = b[:copy(b, b[to-h.base:])]
		h.base = to
	}
}

func (h *hold) give(block []byte) {
	if h.long != nil {
		block, h.long = h.long, nil
	}
	h.b.give(h.who, int64(cap(block)))
	h.b.release(block)
}

// free releases everything.
func (h *hold) free() {
	for i, b := range h.blocks {
		h.give(b)
		h.blocks[i] = nil
	}
	*h = hold{blocks: h.blocks[:0]}
}

// windows is the memory that the decoders of a body need while they wait for more of it.
type windows struct {
	b   *budget
	who netip.Addr
}

// Acquire implements [content.Budget].
func (w *windows) Acquire(n int64) bool { return w.b.claim(w.who, n) }

// Release implements [content.Budget].
func (w *windows) Release(n int64) { w.b.give(w.who, n) }
