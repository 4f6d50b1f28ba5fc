package exchange

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"shuultuur/proxy/fair"
)

// Blocks hold bodies. Their sizes are those of a short answer, an ordinary
// page and what one read brings at most.
const (
	small  = 4 << 10
	medium = 16 << 10
	large  = 64 << 10
)

// A budget counts the held bytes of all bodies and keeps the blocks that nobody
// uses.
//
// A client may hold as much as is free: alone, it gets a half, and of two
// clients each gets a third. So one that downloads slowly, or pretends to,
// leaves room for others. What fits one body it may hold in any case.
type budget struct {
	*fair.Share
	one int64 // what a client may hold in any case

	mu sync.Mutex
	of map[netip.Addr]int64 // held by each client

	small, medium, large sync.Pool // of pointers to arrays
}

func newBudget(n, one int64) *budget {
	b := &budget{Share: fair.New(n, 0), one: one, of: map[netip.Addr]int64{}}
	b.small.New = func() any { return new([small]byte) }
	b.medium.New = func() any { return new([medium]byte) }
	b.large.New = func() any { return new([large]byte) }
	return b
}

// claim takes n bytes for a client, if its share is not used up. It does not
// wait.
func (b *budget) claim(who netip.Addr, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[who]+n > max(b.one, b.Size()-b.Used()) {
		return false
	}
	if ok, _ := b.Take(context.Background(), who, n, 0); !ok {
		return false
	}
	b.of[who] += n
	return true
}

// count notes that a client holds n bytes more, which were taken.
func (b *budget) count(who netip.Addr, n int64) {
	b.mu.Lock()
	b.of[who] += n
	b.mu.Unlock()
}

// give returns n bytes of a client's.
func (b *budget) give(who netip.Addr, n int64) {
	b.mu.Lock()
	if b.of[who] -= n; b.of[who] == 0 {
		delete(b.of, who)
	}
	b.mu.Unlock()
	b.Give(n)
}

// block returns an empty block for n more bytes, as far as they fit.
func (b *budget) block(n int64) []byte {
	switch {
	case n <= small:
		return b.small.Get().(*[small]byte)[:0]
	case n <= medium:
		return b.medium.Get().(*[medium]byte)[:0]
	}
	return b.large.Get().(*[large]byte)[:0]
}

func (b *budget) release(block []byte) {
	switch cap(block) {
	case small:
		b.small.Put((*[small]byte)(block[:small]))
	case medium:
		b.medium.Put((*[medium]byte)(block[:medium]))
	case large:
		b.large.Put((*[large]byte)(block[:large]))
	}
}

// A hold is a body on its way through memory: blocks are filled at one end and
// given back at the other.
type hold struct {
	b      *budget
	who    netip.Addr // the client
	blocks [][]byte
	base   int64 // where in the body blocks begin
	end    int64 // and where they end
}

// first makes sure that there is a block, for which it waits.
func (h *hold) first(ctx context.Context, left int64, wait time.Duration) (ok, waited bool) {
	if left < 0 || left > medium {
		left = medium
	}
	blk := h.b.block(left)
	if ok, waited = h.b.Take(ctx, h.who, int64(cap(blk)), wait); !ok {
		h.b.release(blk)
		return ok, waited
	}
	h.b.count(h.who, int64(cap(blk)))
	h.blocks = append(h.blocks, blk)
	return ok, waited
}

// room returns the free end of the last block, or of a new one; left is how
// much is still to come, negative where that is not known. It returns nil when
// the client holds as much as it may.
func (h *hold) room(left int64) []byte {
	if k := len(h.blocks); k > 0 {
		if last := h.blocks[k-1]; len(last) < cap(last) {
			return last[len(last):cap(last)]
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

// wrote says that n bytes were read into what room returned.
func (h *hold) wrote(n int) {
	k := len(h.blocks) - 1
	h.blocks[k] = h.blocks[k][:len(h.blocks[k])+n]
	h.end += int64(n)
}

// slices appends what is held of the body from one place to another.
func (h *hold) slices(dst [][]byte, from, to int64) [][]byte {
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

// drop gives back what comes before a place. The last block stays, with what
// is still needed of it at its beginning.
func (h *hold) drop(before int64) {
	k := 0
	for k < len(h.blocks)-1 && h.base+int64(len(h.blocks[k])) <= before {
		h.base += int64(len(h.blocks[k]))
		h.give(h.blocks[k])
		k++
	}
	n := copy(h.blocks, h.blocks[k:])
	clear(h.blocks[n:])
	h.blocks = h.blocks[:n]
	if n == 1 && before > h.base && len(h.blocks[0]) == cap(h.blocks[0]) {
		b := h.blocks[0]
		h.blocks[0] = b[:copy(b, b[before-h.base:])]
		h.base = before
	}
}

func (h *hold) give(block []byte) {
	h.b.give(h.who, int64(cap(block)))
	h.b.release(block)
}

// free gives everything back.
func (h *hold) free() {
	for i, b := range h.blocks {
		h.give(b)
		h.blocks[i] = nil
	}
	*h = hold{blocks: h.blocks[:0]}
}

// windows is the memory that the decoders of one client's body need while they
// wait for more of it.
type windows struct {
	b   *budget
	who netip.Addr
}

// Take implements [content.Budget].
func (w *windows) Take(n int64) bool { return w.b.claim(w.who, n) }

// Give implements [content.Budget].
func (w *windows) Give(n int64) { w.b.give(w.who, n) }
