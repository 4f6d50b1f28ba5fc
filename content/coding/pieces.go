package coding

import (
	"bytes"

	"shuultuur/content/limit"
)

// Pieces are the bytes of a body as received. They are read by streams, each of which is a pass over
// them. The zero Pieces are those of a body that has not begun.
type Pieces struct {
	Limits limit.Limits

	pieces    [][]byte
	len       int64
	done      bool
	forgotten bool // some were dropped: a pass that begins now lacks them
	why       limit.Reason
	claim     claim
}

// All returns the pieces that were not forgotten. They must not be changed.
func (b *Pieces) All() [][]byte { return b.pieces }

// Append adds a piece. It is not copied.
func (b *Pieces) Append(p []byte) {
	if len(p) == 0 {
		return
	}
	b.pieces = append(b.pieces, p)
	b.len += int64(len(p))
}

// Forget drops the pieces, which all streams have read. It copies the few bytes of a body whose
// codings are still in doubt.
func (b *Pieces) Forget() {
	if b.keeps() {
		b.pieces = append(b.pieces[:0], bytes.Join(b.pieces, nil))
		return
	}
	b.forgotten = b.forgotten || len(b.pieces) > 0
	clear(b.pieces)
	b.pieces = b.pieces[:0]
	if cap(b.pieces) > 1<<12 {
		b.pieces = nil
	}
}

// keeps reports whether Forget leaves the bytes so far, as one piece, for the passes that cannot
// begin before it is known which codings the body has.
func (b *Pieces) keeps() bool { return b.claim == doubted && b.len < mostTried && len(b.pieces) > 0 }

// Finish says that no piece follows.
func (b *Pieces) Finish() { b.done = true }

// FinishAt says that no piece follows, and that the body has n bytes, which no stream reads.
func (b *Pieces) FinishAt(n int64) { b.done, b.len = true, n }

// Complete reports whether no piece follows.
func (b *Pieces) Complete() bool { return b.done }

// Len returns the number of bytes so far.
func (b *Pieces) Len() int64 { return b.len }

// Forgotten reports whether a pass that begins now lacks pieces.
func (b *Pieces) Forgotten() bool { return b.forgotten }

// Stop keeps the first reason why not all is read.
func (b *Pieces) Stop(why limit.Reason) {
	if b.why == limit.AllRead {
		b.why = why
	}
}

// Unread returns the first reason why not all is read.
func (b *Pieces) Unread() limit.Reason { return b.why }

// Reset prepares b for another body.
func (b *Pieces) Reset() {
	b.claim = believed
	b.Forget()
	*b = Pieces{pieces: b.pieces}
}
