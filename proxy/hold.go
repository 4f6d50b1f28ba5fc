package proxy

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Blocks hold bodies. Their sizes are those of a short answer, an ordinary
// page and what one read brings at most.
const (
	small  = 4 << 10
	medium = 16 << 10
	large  = 64 << 10
)

// A budget is the one count of held bytes of the process, and the blocks
// nobody uses.
type budget struct {
	*share

	small, medium, large sync.Pool // of pointers to arrays
}

func newBudget(n int64) *budget {
	b := &budget{share: newShare(n, 0)}
	b.small.New = func() any { return new([small]byte) }
	b.medium.New = func() any { return new([medium]byte) }
	b.large.New = func() any { return new([large]byte) }
	return b
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

// A hold is one body on its way into memory: the blocks and the bytes it has
// claimed of the budget.
type hold struct {
	blocks  [][]byte
	n       int64 // bytes in blocks
	claimed int64
	b       *budget
	who     netip.Addr // whose turn it is
}

// grow makes room for more and returns the free end of the last block; left is
// how much is still to come, as far as known. It returns nil when the budget
// has no more.
func (h *hold) grow(ctx context.Context, left int64, wait time.Duration) []byte {
	if k := len(h.blocks); k > 0 {
		if last := h.blocks[k-1]; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
	}
	var size int64
	for _, b := range h.blocks {
		size += int64(cap(b))
	}
	b := h.b.block(left)
	if more := size + int64(cap(b)) - h.claimed; more > 0 {
		if ok, _ := h.b.take(ctx, h.who, more, wait); !ok {
			h.b.release(b)
			return nil
		}
		h.claimed += more
	}
	h.blocks = append(h.blocks, b)
	return b[:cap(b)]
}

// wrote says that n bytes were read into what grow returned.
func (h *hold) wrote(n int) {
	k := len(h.blocks) - 1
	h.blocks[k] = h.blocks[k][:len(h.blocks[k])+n]
	h.n += int64(n)
}

// claim takes room for n bytes at once, before the first of them comes. It says
// whether it got it and whether it had to wait.
func (h *hold) claim(ctx context.Context, n int64, wait time.Duration) (ok, waited bool) {
	switch { // as the blocks will be
	case n <= small:
		n = small
	case n <= medium:
		n = medium
	default:
		n = (n + large - 1) / large * large
	}
	if ok, waited = h.b.take(ctx, h.who, n, wait); ok {
		h.claimed += n
	}
	return ok, waited
}

// shrink gives back what was claimed and not used: a sender that is slow on
// purpose must not sit on room for which it sends nothing.
func (h *hold) shrink() {
	var size int64
	for _, b := range h.blocks {
		size += int64(cap(b))
	}
	if spare := h.claimed - size; spare > 0 {
		h.b.give(spare)
		h.claimed = size
	}
}

// free gives all blocks and claims back.
func (h *hold) free() {
	for i, b := range h.blocks {
		h.b.release(b)
		h.blocks[i] = nil
	}
	h.blocks = h.blocks[:0]
	h.b.give(h.claimed)
	h.n, h.claimed = 0, 0
}

// pair frees the blocks and returns two large empty ones, which stay in the
// hold; room for them is taken even if there is none.
func (h *hold) pair() (a, b []byte) {
	for i, blk := range h.blocks {
		h.b.release(blk)
		h.blocks[i] = nil
	}
	h.b.give(h.claimed - 2*large)
	h.claimed, h.n = 2*large, 0
	a, b = h.b.block(large), h.b.block(large)
	h.blocks = append(h.blocks[:0], a, b)
	return a, b
}
