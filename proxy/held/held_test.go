package held

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetServesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 100)
		ctx := context.Background()
		take := func(n int64, wait time.Duration) bool { ok, _ := b.Acquire(ctx, netip.Addr{}, n, wait); return ok }
		if !take(60, 0) || take(60, 0) || take(60, time.Second) {
			t.Fatal("claims of 60 units of 100: want the first granted, the others refused")
		}
		got := make(chan string, 2)
		go func() {
			if take(80, time.Minute) {
				got <- "large"
			}
		}()
		synctest.Wait()
		go func() {
			if take(30, time.Minute) {
				got <- "small"
			}
		}()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("a small claim overtook a large one that came before it")
		}
		b.Return(netip.Addr{}, 60)
		if s := <-got; s != "large" {
			t.Errorf("the %s claim was served first, want the large one", s)
		}
		b.Return(netip.Addr{}, 80)
		if s := <-got; s != "small" {
			t.Errorf("the %s claim was served second, want the small one", s)
		}
		b.Return(netip.Addr{}, 30)
		if b.Used() != 0 {
			t.Errorf("%d units in use after all were returned", b.Used())
		}
	})
}

func TestHoldIsFilledAtOneEndAndGivenBackAtTheOther(t *testing.T) {
	for name, c := range map[string]struct {
		room   int64
		length bool // known
		shown  int64
		blocks int
	}{
		"length unknown":      {1 << 20, false, 0, 6},
		"length known":        {1 << 20, true, 0, 1},
		"little room":         {512 << 10, true, 0, 6},
		"part already in use": {1 << 20, true, 1, 6},
	} {
		t.Run(name, func(t *testing.T) { fillAndDrop(t, c.room, c.length, c.shown, c.blocks) })
	}
}

func fillAndDrop(t *testing.T, room int64, length bool, shown int64, blocks int) {
	b := New(room, room)
	h := Body{memory: b}
	if ok, _ := h.First(t.Context(), 300_000, 0); !ok {
		t.Fatalf("first: no block of 300,000 bytes within a budget of %d", room)
	}
	byteAt := func(at int64) byte { return byte(at % 251) }
	for left := int64(300_000); left > 0; {
		known := left
		if !length {
			known = -1
		}
		p := h.Room(known)
		n := min(int64(len(p)), left, 1000)
		for i := range p[:n] {
			p[i] = byteAt(h.End + int64(i))
		}
		h.Wrote(int(n))
		left -= n
		if shown > 0 {
			_ = h.Slices(nil, 0, shown)
		}
	}
	check := func(from, to int64) {
		t.Helper()
		at := from
		for _, p := range h.Slices(nil, from, to) {
			for _, c := range p {
				if c != byteAt(at) {
					t.Fatalf("wrong byte at position %d", at)
				}
				at++
			}
		}
		if at != to {
			t.Errorf("slices(%d, %d) end at %d", from, to, at)
		}
	}
	check(0, 300_000)
	check(70_001, 200_003)
	if len(h.blocks) != blocks || b.Used() > 512<<10 {
		t.Errorf("%d bytes of the budget in use in %d blocks, want %d blocks", b.Used(), len(h.blocks), blocks)
	}
	h.Drop(250_000)
	check(250_000, 300_000)
	h.Drop(299_000)
	check(299_000, 300_000)
	if b.Used() > Large && blocks > 1 {
		t.Errorf("%d bytes of the budget in use for 1,000 bytes, want at most one block", b.Used())
	}
	p := h.Room(1) // more may follow
	p[0] = byteAt(300_000)
	h.Wrote(1)
	check(299_000, 300_001)
	h.Free()
	if b.Used() != 0 {
		t.Errorf("%d bytes of the budget in use after free", b.Used())
	}
}

func TestAClientLeavesRoomForOthers(t *testing.T) {
	b := New(64<<20, 2<<20)
	greedy, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	n := 0
	for b.Claim(greedy, Large) {
		n++
	}
	if got := n * Large; got < 31<<20 || got > 33<<20 {
		t.Errorf("a single client holds %d bytes of 64 MiB, want half", got)
	}
	m := 0
	for b.Claim(other, Large) {
		m++
	}
	if got := m * Large; got < 15<<20 {
		t.Errorf("a second client holds %d bytes, want half of the rest", got)
	}
	b.Return(greedy, int64(n)*Large)
	b.Return(other, int64(m)*Large)
	if b.Used() != 0 {
		t.Errorf("after free, clients still hold %d bytes", b.Used())
	}
}

func TestAddressesOfOneNetworkHaveOneShare(t *testing.T) {
	b := New(64<<20, 2<<20)
	first, second := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for b.Claim(first, Large) {
	}
	if used := b.Used(); b.Claim(second, Large) || used > 33<<20 {
		t.Errorf("after %d bytes of one address another one of its network gets more", used)
	}
	for b.Used() > 0 {
		b.Return(second, Large)
	}
	if b.Used() != 0 {
		t.Errorf("after free, clients still hold %d bytes", b.Used())
	}
}

// TestSlowBodiesOfOneClientLeaveRoom: bodies that hardly come hold one block each. However many of them one
// client has, and has waiting, the bodies of others begin at once, and a body of one's own has its room.
func TestSlowBodiesOfOneClientLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(64<<20, 2<<20)
		ctx, stop := context.WithCancel(t.Context())
		greedy := netip.MustParseAddr("192.0.2.1")
		begun := make(chan *Body, 10_000)
		for range 5000 {
			go func() {
				h := &Body{memory: b, client: greedy}
				if ok, _ := h.First(ctx, -1, time.Hour); ok {
					begun <- h
				}
			}()
		}
		synctest.Wait()
		if n := len(begun) * Medium; n > 48<<20 || n < 40<<20 {
			t.Errorf("one client holds %d bytes of 64 MiB, want three quarters", n)
		}
		for i := range byte(8) {
			h := &Body{memory: b, client: netip.AddrFrom4([4]byte{192, 0, 2, 10 + i})}
			if ok, waited := h.First(t.Context(), -1, time.Second); !ok || waited {
				t.Fatalf("the body of client %d begins: %v; it waited: %v", i, ok, waited)
			}
			for h.End < 1<<20 {
				p := h.Room(-1)
				if p == nil {
					t.Fatalf("client %d has room for %d bytes, want 1 MiB", i, h.End)
				}
				h.Wrote(len(p))
			}
			h.Free()
		}
		stop()
		synctest.Wait()
		for range len(begun) {
			(<-begun).Free()
		}
		if b.Used() != 0 || b.Waiting() != 0 {
			t.Errorf("at the end %d bytes are held, and %d claims wait", b.Used(), b.Waiting())
		}
	})
}
