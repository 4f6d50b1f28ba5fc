package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/state"
	"shuultuur/test/redistest"
)

// node is the counter of one gateway.
type node struct {
	pins
	in *Interception
}

func (n *node) refuse(t *testing.T, k pin, want int) {
	t.Helper()
	if got := n.add(t.Context(), n.in, k); got != want {
		t.Errorf("add: got %d refusals, want %d", got, want)
	}
}

func (n *node) expect(t *testing.T, k pin, want int) {
	t.Helper()
	if got := n.count(t.Context(), n.in, k); got != want {
		t.Errorf("count: got %d refusals, want %d", got, want)
	}
}

// eventually waits for effects that reach the other node later.
func (n *node) eventually(t *testing.T, k pin, want int) {
	t.Helper()
	got := -1
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = n.count(t.Context(), n.in, k); got == want {
			return
		}
	}
	t.Errorf("count on the other node: got %d refusals, want %d", got, want)
}

var (
	pinned    = pin{netip.MustParseAddr("192.0.2.1"), "pinned.test"}
	otherHost = pin{pinned.client, "other.test"}
	otherUser = pin{netip.MustParseAddr("192.0.2.2"), pinned.host}
)

func TestRefusalsCountOverTheFleet(t *testing.T) {
	server := redistest.Start(t)
	gateway := func() *node {
		m, err := state.Open(state.Config{Redis: &state.Redis{Config: redis.Config{Addresses: []string{server.Addr}}, Wait: setting.Duration(time.Second)}}, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		return &node{in: &Interception{ExceptAfter: 3, Memory: m}}
	}
	a, b := gateway(), gateway()
	a.refuse(t, pinned, 1)
	b.refuse(t, pinned, 2)
	a.eventually(t, pinned, 2)
	a.refuse(t, pinned, 3)
	a.expect(t, pinned, 3)
	b.eventually(t, pinned, 3)
	for _, k := range []pin{otherHost, otherUser} {
		a.expect(t, k, 0)
		b.expect(t, k, 0)
	}

	// If the client accepts the certificate on one node, both nodes forget the refusals.
	a.refuse(t, otherHost, 1)
	b.eventually(t, otherHost, 1)
	b.forget(t.Context(), b.in, otherHost)
	b.expect(t, otherHost, 0)
	a.eventually(t, otherHost, 0)
	a.refuse(t, otherHost, 1)

	// Without Redis, each node continues with its own counts.
	server.Stop()
	for i := range 3 {
		a.refuse(t, otherUser, i+1)
	}
	a.expect(t, otherUser, 3)
	a.expect(t, pinned, 3)
}

func TestRefusalsOfOneGateway(t *testing.T) {
	m, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for name, in := range map[string]*Interception{
		"a memory":                    {ExceptAfter: 2, Memory: m},
		"no memory":                   {ExceptAfter: 2},
		"a memory, but never let out": {Memory: m},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{in: in}
			n.expect(t, pinned, 0)
			n.refuse(t, pinned, 1)
			n.refuse(t, pinned, 2)
			n.expect(t, pinned, 2)
			n.forget(t.Context(), in, pinned)
			n.expect(t, pinned, 0)
			n.refuse(t, pinned, 1)
			n.expect(t, otherHost, 0)
		})
	}
	t.Run("switched on by a reload", func(t *testing.T) {
		n := &node{in: &Interception{Memory: m}}
		n.refuse(t, otherUser, 1)
		n.in = &Interception{ExceptAfter: 3, Memory: m}
		n.expect(t, otherUser, 1)
		n.refuse(t, otherUser, 2)
		n.expect(t, otherUser, 2)
	})
}

func TestMadeUpNamesDoNotUseUpTheCounters(t *testing.T) {
	m, err := state.New(state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	n := &node{in: &Interception{ExceptAfter: 3, Memory: m}}
	for i := range 2 * maxPins {
		k := pin{pinned.client, fmt.Sprintf("x%d.test", i)}
		n.refuse(t, k, 1)
		n.forget(t.Context(), n.in, pin{pinned.client, "never.test"})
		n.expect(t, k, 1)
	}
	if c := m.Stats().Counters; c > maxPins || c < maxPins/2 {
		t.Errorf("invented names occupy %d counters, want at most %d", c, maxPins)
	}
	if len(n.n) > maxPins {
		t.Errorf("%d pins kept, want at most maxPins", len(n.n))
	}
}
