package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// purse is a Budget of so many bytes.
type purse int64

func (p *purse) Acquire(_ netip.Addr, n int64) bool {
	if int64(*p) < n {
		return false
	}
	*p -= purse(n)
	return true
}

func (p *purse) Release(_ netip.Addr, n int64) { *p += purse(n) }

// gateTo is a Receiver that knows whose room is waited for.
type gateTo struct {
	t     *testing.T
	p     *Passage
	waits int
	err   error
}

func (g *gateTo) AwaitRoom() error {
	g.waits++
	if g.p.block != nil {
		g.t.Errorf("while the receiver has no room, a block of %d bytes is kept", len(g.p.block))
	}
	return g.err
}

func next(t *testing.T, p *Passage, to Receiver) int {
	t.Helper()
	block, err := p.Next(to)
	if err != nil {
		t.Fatal(err)
	}
	return len(block)
}

func TestNobodyKeepsABlockForAReceiverWithoutRoomWhileMemoryIsScarce(t *testing.T) {
	b := purse(LargeBlock)
	first, p := Passage{Budget: &b}, Passage{Budget: &b}
	to := &gateTo{t: t, p: &p}
	if n := next(t, &first, to); n != LargeBlock || to.waits > 0 {
		t.Fatalf("with all of the share: a block of %d bytes after %d waits", n, to.waits)
	}
	if n := next(t, &first, to); n != LargeBlock || b != 0 || to.waits > 0 {
		t.Errorf("the next block: %d bytes after %d waits, %d bytes left", n, to.waits, b)
	}
	if n := next(t, &p, to); n != MediumBlock || to.waits > 0 {
		t.Errorf("without a share: a block of %d bytes after %d waits", n, to.waits)
	}
	if n := next(t, &p, to); n != MediumBlock || to.waits != 1 {
		t.Errorf("the next block without a share: %d bytes after %d waits", n, to.waits)
	}
	to.err = os.ErrDeadlineExceeded
	if block, err := p.Next(to); err != to.err || block != nil {
		t.Errorf("for a receiver that is silent: a block of %d bytes, %v", len(block), err)
	}
	to.err = nil
	first.Free()
	if n := next(t, &p, to); n != LargeBlock || to.waits != 3 {
		t.Errorf("when there is room again: a block of %d bytes after %d waits", n, to.waits)
	}
	p.Free()
	p.Free()
	if n := len(p.Take(MediumBlock)); n != MediumBlock || p.Scarce() || b != LargeBlock-MediumBlock {
		t.Errorf("a block of medium size has %d bytes, scarce is %v, %d bytes left", n, p.Scarce(), b)
	}
	if p.Free(); b != LargeBlock {
		t.Errorf("%d bytes of the share are left at the end, want all %d", b, LargeBlock)
	}
}

func TestACopyWaitsForAReaderThatStops(t *testing.T) {
	for _, share := range []purse{0, LargeBlock} {
		b := share
		to, from := pair(t)
		body := content(4 << 20)
		s := &Steady{Conn: to, Arm: func() { to.SetWriteDeadline(time.Now().Add(20 * time.Second)) }, Passage: &Passage{Budget: &b}}
		done := make(chan error, 1)
		go func() {
			n, err := CopyRead(s, bytes.NewReader(body), 1<<62)
			if err == nil && n != int64(len(body)) {
				err = fmt.Errorf("%d of %d bytes", n, len(body))
			}
			to.Close()
			done <- err
		}()
		select {
		case err := <-done:
			t.Fatalf("before anything is read: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		got, err := io.ReadAll(from)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("got %d bytes (%v), want the %d that were sent", len(got), err, len(body))
		}
		if err := <-done; err != nil || b != share {
			t.Errorf("copy: %v; %d bytes of %d are left of the share", err, b, share)
		}
	}
}

// A full connection has no room for as long as it may be silent.
type full struct {
	net.Conn
	waits, writes int
}

func (c *full) AwaitRoom() error { c.waits++; return os.ErrDeadlineExceeded }

func (c *full) Write(p []byte) (int, error) { c.writes++; return len(p), nil }

func TestAReaderThatIsSilentHasOneLimitWhileMemoryIsScarce(t *testing.T) {
	b := purse(0)
	arms, to := 0, &full{}
	s := &Steady{Conn: to, Arm: func() { arms++ }, Passage: &Passage{Budget: &b}}
	_, err := CopyRead(s, strings.NewReader(strings.Repeat("x", 64<<20)), 1<<62)
	if !errors.Is(err, os.ErrDeadlineExceeded) || to.waits != 1 || to.writes != 1 || arms != 2 {
		t.Errorf("somebody who reads nothing was written to %d times and waited for %d times, with %d deadlines (%v); want one of each but a deadline for both", to.writes, to.waits, arms, err)
	}
}

func TestAReaderThatIsSlowIsNotSilentWhileMemoryIsScarce(t *testing.T) {
	to, from := pair(t)
	to.SetWriteBuffer(1 << 20) // the system says that there is room once a third of what it grants is empty
	fill(to)
	armed := make(chan bool, 100)
	s := &Steady{Conn: to, Arm: func() { armed <- true; to.SetWriteDeadline(time.Now().Add(silence)) }}
	done := make(chan error, 1)
	go func() { done <- s.AwaitRoom() }()
	<-armed
	if _, err := io.ReadFull(from, make([]byte, 100<<10)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-armed: // though there is no room yet
	case err := <-done:
		t.Fatalf("a reader that had taken 100 KiB was waited for until: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, from) }()
	if err := <-done; err != nil {
		t.Errorf("a reader that took everything: %v", err)
	}
}

// fill writes to c until neither end takes anything more.
func fill(c *net.TCPConn) {
	for n := 1; n > 0; {
		c.SetWriteDeadline(time.Now().Add(silence / 5))
		n, _ = c.Write(make([]byte, 64<<10))
	}
}

func TestAFramedChunkIsThatOfAppendChunk(t *testing.T) {
	trailer := Fields{{Name: []byte("Expires"), Value: []byte("never")}}
	for _, size := range []int{MediumBlock, LargeBlock} {
		block := make([]byte, size)
		room := ChunkRoom(block)
		for _, n := range []int{0, 1, 9, 15, 16, 255, 4096, len(room) - 1, len(room)} {
			for _, last := range []bool{false, true} {
				for _, fields := range []Fields{nil, trailer} {
					if n == 0 && !last {
						continue
					}
					data := content(n)
					copy(room, data)
					var want []byte
					if n > 0 {
						want = append(append(AppendChunk(nil, n), data...), "\r\n"...)
					}
					if last {
						want = AppendLastChunk(want, fields)
					}
					if got := FrameChunk(block, n, last, fields); !bytes.Equal(got, want) {
						t.Errorf("%d bytes, last %v: %d bytes framed, want %d", n, last, len(got), len(want))
					}
				}
			}
		}
	}
}

// TestAReaderWithoutABufferReadsOn reads messages with a body that ends in the middle of a buffer.
func TestAReaderWithoutABufferReadsOn(t *testing.T) {
	for _, size := range []int{1024, fewBytes, manyBytes} {
		in := strings.Repeat(post("5\r\nhello\r\n2000\r\n"+strings.Repeat("x", 0x2000)+"\r\n0\r\n\r\n"), 5)
		r := NewReader(strings.NewReader(in), size, 8<<10)
		for i := range 5 {
			var q Request
			r.Release() // with the beginning of the next in the buffer, or without a buffer
			if err := r.ReadRequest(&q); err != nil {
				t.Fatalf("buffer of %d bytes, message %d: %v", size, i, err)
			}
			got := make([]byte, 0, 20<<10)
			for {
				n, err := q.Body.Read(got[len(got):cap(got)])
				if got = got[:len(got)+n]; err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("buffer of %d bytes, message %d: %v", size, i, err)
				}
				r.Release()
			}
			if want := "hello" + strings.Repeat("x", 0x2000); string(got) != want {
				t.Errorf("buffer of %d bytes, message %d: %d bytes of body, want %d", size, i, len(got), len(want))
			}
		}
	}
}
