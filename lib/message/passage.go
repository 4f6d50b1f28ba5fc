package message

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"shuultuur/lib/platform"
)

// Sizes of the blocks of a [Passage].
const (
	LargeBlock  = 64 << 10
	MediumBlock = 16 << 10
)

// blocks are unused: an idle connection has none.
var (
	largeBlocks  = sync.Pool{New: func() any { return new([LargeBlock]byte) }}
	mediumBlocks = sync.Pool{New: func() any { return new([MediumBlock]byte) }}
)

// A Budget counts the bytes that are in memory for a client.
type Budget interface {
	// Acquire takes n bytes, or returns false. It does not wait.
	Acquire(who netip.Addr, n int64) bool
	Release(who netip.Addr, n int64)
}

// A Passage lends blocks for bytes that are only passed on, one block at a time. A block is kept for as
// long as the receiver takes nothing. So it is a large one if the client's share has it; otherwise it
// is of medium size, and nobody takes one before the receiver has room for it.
//
// The zero Passage is ready for use, and counts for nobody.
type Passage struct {
	Budget Budget
	Client netip.Addr

	block  []byte // nil while none is lent
	scarce bool   // the client's share had no large block
}

// A Receiver takes bytes that are passed on.
type Receiver interface {
	// AwaitRoom waits until there is room for more. It fails when the receiver has been silent for as
	// long as it may be: what follows has no limit of its own.
	AwaitRoom() error
}

// Next returns the block for the next bytes, which may be the same one again: the caller must be done with
// what it held. It fails if the receiver has no room for it.
func (p *Passage) Next(to Receiver) ([]byte, error) {
	if len(p.block) == LargeBlock {
		return p.block, nil
	}
	p.Free()
	if p.scarce {
		if err := to.AwaitRoom(); err != nil {
			return nil, err
		}
	}
	return p.Take(LargeBlock), nil
}

// Take is [Passage.Next] for callers that ask [Passage.Scarce] before they wait for bytes, and Free each
// block. The block has the size of LargeBlock or MediumBlock, as asked, or less if memory is scarce.
func (p *Passage) Take(size int) []byte {
	p.scarce = p.Budget != nil && !p.Budget.Acquire(p.Client, int64(size))
	if size == LargeBlock && !p.scarce {
		p.block = largeBlocks.Get().(*[LargeBlock]byte)[:]
	} else {
		p.block = mediumBlocks.Get().(*[MediumBlock]byte)[:]
	}
	return p.block
}

// Scarce reports whether memory was scarce at the last block: then the receiver should have room before
// the next one is taken.
func (p *Passage) Scarce() bool { return p.scarce }

// Free takes the block back, if one is lent.
func (p *Passage) Free() {
	if p.block == nil {
		return
	}
	if p.Budget != nil && !p.scarce {
		p.Budget.Release(p.Client, int64(len(p.block)))
	}
	if len(p.block) == LargeBlock {
		largeBlocks.Put((*[LargeBlock]byte)(p.block))
	} else {
		mediumBlocks.Put((*[MediumBlock]byte)(p.block))
	}
	p.block = nil
}

// CopyRead copies at most most bytes from src to w. If w is a [Steady] with a Passage, that lends the
// blocks.
func CopyRead(w io.Writer, src io.Reader, most int64) (n int64, err error) {
	var own Passage
	way, to := &own, Receiver(nil)
	if s, ok := w.(*Steady); ok && s.Passage != nil {
		way, to = s.Passage, s
	}
	defer way.Free()
	for n < most {
		block, err := way.Next(to)
		if err != nil {
			return n, err
		}
		m, rerr := src.Read(block[:min(int64(len(block)), most-n)])
		if m > 0 {
			m, err = w.Write(block[:m])
			if n += int64(m); err != nil {
				return n, err
			}
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
	}
	return n, nil
}

// AwaitRoom waits until c, or the TCP connection below it, takes a block of bytes. Arm sets the deadline
// for writing. When it passes although the peer has taken some bytes, it is set again: else AwaitRoom
// fails. Of another failure the next write may be the first to know.
func AwaitRoom(c net.Conn, arm func()) error {
	arm()
	if to, ok := c.(Receiver); ok {
		return to.AwaitRoom()
	}
	tcp := TCP(c)
	if tcp == nil {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var queued int
	measure := func(socket uintptr) { queued = platform.Queued(socket) }
	_ = raw.Control(measure)
	for {
		err := raw.Write(platform.HasRoom)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		before := queued
		if _ = raw.Control(measure); queued >= before {
			return err
		}
		arm()
	}
}

// TCP returns the TCP connection below c; nil if there is none, or if bytes from it are held above it.
func TCP(c net.Conn) *net.TCPConn {
	for {
		if tcp, ok := c.(*net.TCPConn); ok {
			return tcp
		}
		above, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = above.NetConn()
	}
}
