package places

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// TestGateTakesTurns: the next place is for the client that has the fewest, and after 503 the server
// has fewer connections, for a while.
func TestGateTakesTurns(t *testing.T) {
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var g Gate
	g.Limit(2)
	for range 2 {
		if err := g.Take(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan netip.Addr)
	wait := func(who netip.Addr, n int) {
		go func() {
			if g.Take(t.Context(), who) == nil {
				got <- who
			}
		}()
		for g.mu.Lock(); len(g.waiting) < n; g.mu.Lock() {
			g.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
		g.mu.Unlock()
	}
	wait(a, 1)
	wait(a, 2)
	wait(b, 3)
	if g.Give(a); <-got != b {
		t.Error("the client with two places gets the next one before the one without")
	}
	for _, who := range []netip.Addr{a, b} {
		if g.Give(who); <-got != a {
			t.Error("who waits gets no place")
		}
	}
	if g.Busy(); g.now != 1 || !g.Full() {
		t.Errorf("a busy server with 2 connections may have %d, want 1", g.now)
	}
	g.Give(a)
	g.Give(a)
	if g.Limit(2); g.now != 1 {
		t.Errorf("OPTIONS permit %d connections to a busy server, want 1", g.now)
	}
	g.changed = time.Now().Add(-BusyFor)
	if g.Full() || g.now != 2 {
		t.Errorf("a server that is busy no more may have %d connections, want 2", g.now)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if g.Limit(1); g.Take(t.Context(), a) != nil || g.Take(ctx, b) == nil || len(g.waiting) != 0 {
		t.Error("a message waits although nobody needs it any more")
	}
}

// TestSlowBodiesOfAClientLeavePlaces: a client has at most three quarters of the connections for bodies
// that are still arriving.
func TestSlowBodiesOfAClientLeavePlaces(t *testing.T) {
	a, b, c := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	var g Gate
	g.Limit(32)
	count := func(who netip.Addr) (n int) {
		for g.Stream(who) {
			n++
		}
		return n
	}
	if x, y, z := count(a), count(b), count(c); x != 12 || y != 4 || z != 0 {
		t.Errorf("three clients get %d, %d and %d places for bodies that are still arriving, want 12, 4 and 0", x, y, z)
	}
	if g.EndStream(a); !g.Stream(c) || g.Stream(b) {
		t.Error("a place that is free again is not for the client without one")
	}
}
