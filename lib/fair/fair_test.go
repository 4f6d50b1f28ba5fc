package fair

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestClientsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0)
		greedy, modest := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		if ok, waited := s.Acquire(t.Context(), greedy, 1, 0); !ok || waited {
			t.Fatal("the first claim was refused or had to wait")
		}
		served := make(chan string, 20)
		var all sync.WaitGroup
		ask := func(who netip.Addr, name string, wait time.Duration) {
			all.Go(func() {
				ok, _ := s.Acquire(t.Context(), who, 1, wait)
				if !ok {
					name += " in vain"
				}
				served <- name
				if ok {
					time.Sleep(time.Second)
					s.Release(1)
				}
			})
			synctest.Wait()
		}
		for i := range 5 {
			ask(greedy, fmt.Sprint("greedy ", i), time.Minute)
		}
		ask(greedy, "greedy, soon", 1500*time.Millisecond)
		ask(modest, "modest 0", time.Minute)
		ask(modest, "modest 1", time.Minute)
		if n := s.Waiting(); n != 8 {
			t.Errorf("%d claims wait, want 8", n)
		}
		s.Release(1)
		all.Wait()
		close(served)
		var got []string
		for name := range served {
			got = append(got, name)
		}
		want := "greedy 0, modest 0, greedy, soon in vain, greedy 1, modest 1, greedy 2, greedy 3, greedy 4"
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("order of service: got  %s\nwant %s", got, want)
		}
		if s.Used() != 0 || s.Waiting() != 0 || len(s.lines) != 0 || len(s.ring) != 0 {
			t.Errorf("after the last claim: %d units used, %d claims waiting, %d lines, %d in the ring; want none", s.Used(), s.Waiting(), len(s.lines), len(s.ring))
		}
	})
}

func TestALineHasALength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 2)
		ctx, stop := context.WithCancel(t.Context())
		s.Acquire(ctx, netip.Addr{}, 1, 0)
		for range 2 {
			go s.Acquire(ctx, netip.Addr{}, 1, time.Hour)
		}
		synctest.Wait()
		if ok, waited := s.Acquire(ctx, netip.Addr{}, 1, time.Hour); ok || waited {
			t.Error("a third claim was admitted to a queue of two")
		}
		stop()
		synctest.Wait()
		if s.Waiting() != 0 {
			t.Errorf("%d claims wait after all gave up", s.Waiting())
		}
	})
}

// TestALineLeavesRoomForOthers: a client that fills its line is refused, another one waits.
func TestALineLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 8)
		a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		s.Acquire(t.Context(), a, 1, 0)
		var all sync.WaitGroup
		var granted, refused atomic.Int64
		for range 8 {
			all.Go(func() {
				if ok, _ := s.Acquire(t.Context(), a, 1, Forever); !ok {
					refused.Add(1)
				} else {
					granted.Add(1)
					s.Release(1)
				}
			})
		}
		synctest.Wait()
		if refused.Load() != 2 {
			t.Errorf("%d of 8 claims of one client were refused, want 2", refused.Load())
		}
		all.Go(func() {
			if ok, _ := s.Acquire(t.Context(), b, 1, Forever); !ok {
				t.Error("another client found no place")
			} else {
				s.Release(1)
			}
		})
		synctest.Wait()
		s.Release(1)
		all.Wait()
		if granted.Load() != 6 {
			t.Errorf("%d claims were granted, want 6", granted.Load())
		}
	})
}

func TestRequestsOfOneClientAreServedInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns(1, 0)
		a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		s.Acquire(t.Context(), a, 1, 0)
		var all sync.WaitGroup
		var got []string
		for i, who := range []netip.Addr{a, a, a, b} {
			all.Go(func() {
				if ok, _ := s.Acquire(t.Context(), who, 1, time.Minute); ok {
					got = append(got, fmt.Sprint(i))
					s.Return(who, 1)
				}
			})
			synctest.Wait()
		}
		s.Return(a, 1)
		all.Wait()
		if got, want := strings.Join(got, " "), "0 3 1 2"; got != want {
			t.Errorf("served in the order %s, want %s", got, want)
		}
		if len(s.lines) != 0 || len(s.ring) != 0 || s.Used() != 0 {
			t.Errorf("after the last claim: %d lines, %d in the ring, %d units used; want none", len(s.lines), len(s.ring), s.Used())
		}
	})
}

// One client has more connections than there are turns, and sends the next request on each as
// soon as it has a response. A turn takes 10 ms, so a round of all of them takes 625 ms: none
// may wait for the 5 s after which it is refused.
func TestNoRequestOfABusyClientStarves(t *testing.T) {
	const connections, turns, took, wait = 500, 8, 10 * time.Millisecond, 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns(turns, 0)
		who := netip.MustParseAddr("10.0.0.1")
		end := time.Now().Add(3 * wait)
		var all sync.WaitGroup
		var refused atomic.Int64
		var longest atomic.Int64
		for range connections {
			all.Go(func() {
				for time.Now().Before(end) {
					asked := time.Now()
					if ok, _ := s.Acquire(t.Context(), who, 1, wait); !ok {
						refused.Add(1)
						continue
					}
					if waited := int64(time.Since(asked)); waited > longest.Load() {
						longest.Store(waited)
					}
					time.Sleep(took)
					s.Return(who, 1)
				}
			})
		}
		all.Wait()
		if most := connections / turns * took * 3 / 2; refused.Load() > 0 || longest.Load() > int64(most) {
			t.Errorf("%d requests refused, the longest wait was %v; want none and at most %v", refused.Load(), time.Duration(longest.Load()), most)
		}
	})
}

// TestWhatIsHeldIsShared: one address holds thousands of turns and gives none back. Everyone else gets
// one at once, as many as there are shares, and it takes all again when nobody else asks.
func TestWhatIsHeldIsShared(t *testing.T) {
	for name, greedy := range map[string]func(i int) netip.Addr{
		"one address": func(int) netip.Addr { return netip.MustParseAddr("10.0.0.1") },
		"one network": func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			const most = 256
			s := NewTurns(most, 0)
			s.pace.ready = func() float64 { return 0 }
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			var held atomic.Int64
			for i := range 2100 {
				all.Go(func() {
					if ok, _ := s.Acquire(ctx, greedy(i), 1, time.Hour); ok {
						held.Add(1)
						<-ctx.Done()
						s.Return(greedy(i), 1)
					}
				})
			}
			time.Sleep(time.Second)
			if n := held.Load(); n < most/2 || n > most*3/4 {
				t.Errorf("%s: one client holds %d of %d turns, want up to three quarters", name, n, most)
			}
			for i := range most / 4 {
				who := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
				if ok, waited := s.Acquire(ctx, who, 1, time.Second); !ok || waited {
					t.Errorf("%s: client %d of %d got a turn: %v, and waited: %v", name, i+1, most/4, ok, waited)
				}
				defer s.Return(who, 1)
			}
			stop()
			all.Wait()
			if len(s.lines) != 0 || len(s.ring) != 0 || s.Waiting() != 0 || len(s.held) != most/4 {
				t.Errorf("%s: at the end %d lines, %d in the ring, %d claims, %d holders", name, len(s.lines), len(s.ring), s.Waiting(), len(s.held))
			}
		})
	}
}

func TestTurnsAreAsManyAsTheProcessorsKeepUpWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTurns(500, 0)
		least, ready := s.Size(), 0.0
		s.pace.ready = func() float64 { return ready } // under the lock of s, as set says it
		set := func(n float64) {
			s.mu.Lock()
			ready = n
			s.mu.Unlock()
		}
		if least >= 500 {
			t.Skip("this machine has so many processors that all turns are granted at first")
		}
		leave := make(chan struct{})
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				who := netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 100)})
				if ok, _ := s.Acquire(t.Context(), who, 1, time.Hour); ok {
					<-leave // an origin that takes long
					s.Return(who, 1)
				}
			})
		}
		synctest.Wait()
		if n := s.Used(); n != least {
			t.Errorf("%d turns taken at first, want %d", n, least)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.Used(); n != 500 {
			t.Errorf("%d turns taken after a second with idle processors, want all 500", n)
		}
		set(1e6)
		time.Sleep(time.Second)
		if n := s.Size(); n != least {
			t.Errorf("%d turns with overloaded processors, want %d", n, least)
		}
		for range 500 { // as many go as came in too many
			leave <- struct{}{}
		}
		synctest.Wait()
		if n := s.Used(); n != least {
			t.Errorf("%d turns taken with overloaded processors, want %d", n, least)
		}
		set(0)
		close(leave)
		all.Wait()
		time.Sleep(time.Second)
		if n := s.Size(); n != least || s.Used() != 0 || s.Waiting() != 0 {
			t.Errorf("at the end: %d turns, %d taken, %d claims waiting; want %d, 0, 0", n, s.Used(), s.Waiting(), least)
		}
	})
}

// stuck starts a proxy with one turn, which a request has until free is closed.

// RFC 6177: whoever has an IPv6 address has its /64.
func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3::4": "2001:db8:1:2::", "2001:db8:1:2:5:6:7:8%eth0": "2001:db8:1:2::",
		"fd00::1:2": "fd00::", "fe80::1:2%eth0": "fe80::1:2%eth0", "fe80::1:2": "fe80::1:2",
	} {
		if got := Client(netip.MustParseAddr(a)); got != netip.MustParseAddr(want) {
			t.Errorf("Client(%s) = %v, want %s", a, got, want)
		}
	}
	if got := Client(netip.Addr{}); got.IsValid() {
		t.Errorf("Client of no address is %v", got)
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0)
		s.Acquire(t.Context(), netip.MustParseAddr("192.0.2.9"), 1, 0)
		var order []string
		var wg sync.WaitGroup
		for _, who := range []string{"2001:db8::1", "2001:db8::2", "2001:db8::3", "192.0.2.1"} {
			wg.Go(func() {
				s.Acquire(t.Context(), netip.MustParseAddr(who), 1, time.Minute)
				order = append(order, who)
				s.Release(1)
			})
			synctest.Wait()
		}
		s.Release(1)
		wg.Wait()
		if len(order) != 4 || order[1] != "192.0.2.1" {
			t.Errorf("turns went to %v, want the other client second", order)
		}
	})
}

// TestAClientOfDearBodiesDelaysNobody: 16 bodies of one client, each judged for 100 ms, are always there. Another
// client's, judged for a millisecond, come at such a pace that every second turn would not do.
func TestAClientOfDearBodiesDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0).ByTime()
		dear, cheap := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		judge := func(who netip.Addr, took time.Duration) (waited time.Duration) {
			begun := time.Now()
			if ok, _ := s.Acquire(ctx, who, 1, Forever); !ok {
				return 0
			}
			waited = time.Since(begun)
			time.Sleep(took)
			s.Charge(who, took)
			s.Release(1)
			return waited
		}
		var dearDone atomic.Int64
		for range 16 {
			all.Go(func() {
				for ctx.Err() == nil {
					judge(dear, 100*time.Millisecond)
					dearDone.Add(1)
				}
			})
		}
		time.Sleep(5 * time.Second)
		worst := atomic.Int64{}
		for range 400 {
			all.Go(func() {
				w := int64(judge(cheap, time.Millisecond))
				for was := worst.Load(); w > was && !worst.CompareAndSwap(was, w); was = worst.Load() {
				}
			})
			time.Sleep(25 * time.Millisecond)
		}
		stop()
		all.Wait()
		if w := time.Duration(worst.Load()); w > 150*time.Millisecond {
			t.Errorf("a cheap body waited for %v, want one dear body at most", w)
		}
		if dearDone.Load() < 100 {
			t.Errorf("%d dear bodies were judged in 15 s, want most of the time for them", dearDone.Load())
		}
	})
}

// TestTimeThatWasUsedIsForgotten: two clients get the same share, whatever one has used long ago.
func TestTimeThatWasUsedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 0).ByTime()
		a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		s.Charge(a, time.Minute)
		time.Sleep(30 * time.Second)
		done := map[netip.Addr]int{}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, who := range []netip.Addr{a, b, a, b} {
			all.Go(func() {
				for ctx.Err() == nil {
					if ok, _ := s.Acquire(ctx, who, 1, Forever); ok {
						time.Sleep(10 * time.Millisecond)
						done[who]++ // one at a time has the turn
						s.Charge(who, 10*time.Millisecond)
						s.Release(1)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
		if x, y := done[a], done[b]; x < 450 || y < 450 {
			t.Errorf("of 1,000 turns one client had %d and the other %d, want half each", x, y)
		}
		if len(s.used) > 2 {
			t.Errorf("%d clients are remembered", len(s.used))
		}
	})
}

// TestASmallClaimOvertakesNoLargeOne: where units are held for long, too. It does overtake those that wait
// because their client holds its share.
func TestASmallClaimOvertakesNoLargeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(100, 10)
		greedy, large, small := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
		for range 75 {
			if ok, _ := s.Acquire(t.Context(), greedy, 1, 0); !ok {
				t.Fatal("three quarters of all are refused")
			}
		}
		got := make(chan string, 3)
		ask := func(who netip.Addr, name string, n int64) {
			go func() {
				if ok, _ := s.Acquire(t.Context(), who, n, time.Hour); ok {
					got <- name
				}
			}()
			synctest.Wait()
		}
		ask(greedy, "more", 1)
		if ok, waited := s.Acquire(t.Context(), small, 5, time.Second); !ok || waited {
			t.Errorf("beside a client that holds its share: %v, it waited: %v", ok, waited)
		}
		s.Return(small, 5)
		for i := range byte(2) {
			if ok, _ := s.Acquire(t.Context(), netip.AddrFrom4([4]byte{10, 0, 1, i}), 10, 0); !ok {
				t.Fatal("a client that holds nothing is refused")
			}
		}
		ask(large, "large", 10)
		ask(small, "small", 5)
		if len(got) != 0 {
			t.Errorf("%s overtook a claim that waits for units", <-got)
		}
		s.Return(greedy, 10)
		synctest.Wait()
		if len(got) != 2 {
			t.Errorf("%d claims were served, want those of the two others", len(got))
		}
		for range len(got) {
			if name := <-got; name == "more" {
				t.Error("the client that held its share was served, and another one was not")
			}
		}
		s.Return(greedy, 30)
		synctest.Wait()
		if name := <-got; name != "more" {
			t.Errorf("at last %s was served", name)
		}
	})
}
