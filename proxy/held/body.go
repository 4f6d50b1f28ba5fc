package held

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/content"
)

// together is the largest body of known length that is held in one block, so that checks which
// read all of it need no copy.
const together = 1 << 20

// A Body is the part of a body in memory: blocks are filled at one end and released at the
// other.
type Body struct {
	memory *Budget
	client netip.Addr
	blocks [][]byte
	Base   int64 // position in the body of the first block
	End    int64 // position after the last byte
	shown  bool  // others may refer to the first block
	// Long is the room before the first block, if all the body is in it: checks that read a
	// whole message put its head there (see [content.Body.SetRoom]). Its capacity is that of
	// the room and the block.
	Long []byte
}

// Begin prepares h for a body of a client.
func (h *Body) Begin(m *Budget, client netip.Addr) { h.memory, h.client = m, client }

// First ensures that there is a block, and waits for it if necessary.
func (h *Body) First(ctx context.Context, left int64, wait time.Duration) (ok, waited bool) {
	if left < 0 || left > Medium {
		left = Medium
	}
	blk := h.memory.Block(left)
	if ok, waited = h.memory.Acquire(ctx, h.client, int64(cap(blk)), wait); !ok {
		h.memory.Free(blk)
		return ok, waited
	}
	h.blocks = append(h.blocks, blk)
	return ok, waited
}

// Room returns the free end of the last block, or of a new one; left is the number of bytes
// still to come, negative if unknown. It returns nil if the client holds as much as it may.
func (h *Body) Room(left int64) []byte {
	if k := len(h.blocks); k > 0 {
		if last := h.blocks[k-1]; len(last) < cap(last) {
			return last[len(last):cap(last)]
		}
	}
	if left > 0 && len(h.blocks) == 1 && !h.shown && h.End+left > Large && h.End+left <= together-content.Headroom {
		if blk := h.move(h.End + left); blk != nil {
			return blk
		}
	}
	if left < 0 {
		left = Large
	}
	blk := h.memory.Block(left)
	if !h.memory.Claim(h.client, int64(cap(blk))) {
		h.memory.Free(blk)
		return nil
	}
	h.blocks = append(h.blocks, blk)
	return blk[:cap(blk)]
}

// move moves the bytes of the only block to one for n bytes, and returns the rest of that. It
// returns nil if the client must not hold as much.
func (h *Body) move(n int64) []byte {
	whole := h.memory.longBlock(content.Headroom + n)
	if !h.memory.Claim(h.client, int64(cap(whole))) {
		h.memory.Free(whole)
		return nil
	}
	room, rest := whole[:content.Headroom], whole[content.Headroom:content.Headroom]
	blk := append(rest, h.blocks[0]...)
	h.give(h.blocks[0])
	h.blocks[0], h.Long = blk, room
	return blk[len(blk):cap(blk)]
}

// Wrote records that n bytes were read into the slice returned by Room.
func (h *Body) Wrote(n int) {
	k := len(h.blocks) - 1
	h.blocks[k] = h.blocks[k][:len(h.blocks[k])+n]
	h.End += int64(n)
}

// Slices appends the held parts of the body between two positions.
func (h *Body) Slices(dst [][]byte, from, to int64) [][]byte {
	h.shown = true
	at := h.Base
	for _, b := range h.blocks {
		next := at + int64(len(b))
		if lo, hi := max(from, at), min(to, next); lo < hi {
			dst = append(dst, b[lo-at:hi-at])
		}
		at = next
	}
	return dst
}

// Drop releases the bytes before a position. It keeps the last block, and moves the bytes
// still needed to its beginning.
func (h *Body) Drop(to int64) {
	k := 0
	for k < len(h.blocks)-1 && h.Base+int64(len(h.blocks[k])) <= to {
		h.Base += int64(len(h.blocks[k]))
		h.give(h.blocks[k])
		k++
	}
	n := copy(h.blocks, h.blocks[k:])
	clear(h.blocks[n:])
	h.blocks = h.blocks[:n]
	switch {
	case n != 1 || to <= h.Base:
	case h.Long != nil: // more may be read into its end now
		h.blocks[0] = h.blocks[0][to-h.Base:]
		h.Base = to
	case len(h.blocks[0]) == cap(h.blocks[0]):
		b := h.blocks[0]
		h.blocks[0] = b[:copy(b, b[to-h.Base:])]
		h.Base = to
	}
}

func (h *Body) give(block []byte) {
	if h.Long != nil {
		block, h.Long = h.Long, nil
	}
	h.memory.Return(h.client, int64(cap(block)))
	h.memory.Free(block)
}

// Free releases everything.
func (h *Body) Free() {
	for i, b := range h.blocks {
		h.give(b)
		h.blocks[i] = nil
	}
	*h = Body{blocks: h.blocks[:0]}
}
