// Package held is the memory in which bodies and frames wait. A [Budget] counts what clients
// hold, so that each leaves room for others, and pools the blocks that nobody uses. A [Body] is
// the part of one body that is in memory: blocks are filled at one end and released at the other.
package held

import (
	"math/bits"
	"net/netip"
	"sync"
	"unsafe"

	"shuultuur/lib/fair"
)

// Sizes of blocks: for a short response, an ordinary page, and the most that one read returns.
const (
	small  = 4 << 10
	Medium = 16 << 10
	Large  = 64 << 10
)

// A Budget counts the held bytes of all bodies and pools unused blocks.
//
// A client may hold as much as is free: a single client gets half of the total, each of two
// clients a third. For the first blocks of bodies, which wait, a client gets up to three quarters.
// So a client that downloads slowly, or pretends to, leaves room for others.
// Every client may hold one body of permitted size.
type Budget struct {
	*fair.Semaphore

	small, medium, large sync.Pool                // of pointers to arrays
	longer               [bits.UintSize]sync.Pool // of pointers to first bytes, by the logarithm of the length
}

// New returns a budget of n bytes, of which a client may always hold one.
func New(n, one int64) *Budget {
	b := &Budget{Semaphore: fair.NewShared(n, one)}
	b.small.New = func() any { return new([small]byte) }
	b.medium.New = func() any { return new([Medium]byte) }
	b.large.New = func() any { return new([Large]byte) }
	return b
}

// Block returns an empty block for n bytes, or for as many as a block can have: [Large]. It
// counts for no client. Return it with Free.
func (b *Budget) Block(n int64) []byte {
	switch {
	case n <= small:
		return b.small.Get().(*[small]byte)[:0]
	case n <= Medium:
		return b.medium.Get().(*[Medium]byte)[:0]
	}
	return b.large.Get().(*[Large]byte)[:0]
}

// longBlock returns an empty block for n bytes, which are more than a large one has.
func (b *Budget) longBlock(n int64) []byte {
	size := bits.Len64(uint64(n - 1))
	if first, ok := b.longer[size].Get().(*byte); ok {
		return unsafe.Slice(first, 1<<size)[:0]
	}
	return make([]byte, 0, 1<<size)
}

// Free returns a block.
func (b *Budget) Free(block []byte) {
	switch cap(block) {
	case small:
		b.small.Put((*[small]byte)(block[:small]))
	case Medium:
		b.medium.Put((*[Medium]byte)(block[:Medium]))
	case Large:
		b.large.Put((*[Large]byte)(block[:Large]))
	default:
		if n := cap(block); n > Large && n&(n-1) == 0 {
			b.longer[bits.Len(uint(n-1))].Put(unsafe.SliceData(block))
		}
	}
}

// Origins is the memory for what HTTP/2 origins send before it is read, and for bytes on their way. It
// comes from the clients' shares, and is at most half of all, because a window is kept as long as its stream:
// bodies that have to be judged need the other half.
type Origins struct{ b *Budget }

// Origins returns the part of the budget for HTTP/2 origins.
func (b *Budget) Origins() Origins { return Origins{b} }

// Acquire takes n bytes for a client, or returns false.
func (o Origins) Acquire(who netip.Addr, n int64) bool {
	return o.b.Used()+n <= o.b.Size()/2 && o.b.Claim(who, n)
}

// Release gives n bytes of a client back.
func (o Origins) Release(who netip.Addr, n int64) { o.b.Return(who, n) }

// Windows is the memory that the decoders of a body need while they wait for more of it.
type Windows struct {
	Memory *Budget
	Client netip.Addr
}

// Acquire takes n bytes, or returns false.
func (w *Windows) Acquire(n int64) bool { return w.Memory.Claim(w.Client, n) }

// Release gives n bytes back.
func (w *Windows) Release(n int64) { w.Memory.Return(w.Client, n) }

// Spare is the memory for the text of bodies, which can be judged without it, by what came last. It
// leaves half of all to the bodies themselves.
type Spare Windows

// Acquire takes n bytes, or returns false.
func (s *Spare) Acquire(n int64) bool { return s.Memory.Origins().Acquire(s.Client, n) }

// Release gives n bytes back.
func (s *Spare) Release(n int64) { s.Memory.Return(s.Client, n) }
