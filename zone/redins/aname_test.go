package redins

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shuultuur/test/race"
)

// upstream answers with an address that contains the number of lookups.
type upstream struct {
	asked atomic.Int32
	down  atomic.Bool
	ttl   time.Duration
	slow  time.Duration
}

func (u *upstream) Lookup(ctx context.Context, host string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	n := u.asked.Add(1)
	select {
	case <-time.After(u.slow):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	if u.down.Load() {
		return nil, 0, errors.New("no route")
	}
	if host == "none." {
		return nil, u.ttl, nil
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})}, u.ttl, nil
}

func runAliases(t *testing.T, a *Aliases) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func last(t *testing.T, a *Aliases, ctx context.Context) (byte, uint32) {
	t.Helper()
	got, ok := a.Addresses(ctx, "cdn.example.net.", 1)
	if !ok || len(got.Addrs) != 1 || got.Rcode != 0 {
		return 0, 0
	}
	return got.Addrs[0].As4()[3], got.TTL
}

func TestATargetIsLookedUpOnceAndThenAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{ttl: 100 * time.Second, slow: 50 * time.Millisecond}
		a := NewAliases(up)
		if _, ok := a.Addresses(nil, "cdn.example.net.", 1); ok || up.asked.Load() != 0 { //nolint:staticcheck // nil says not to wait
			t.Fatal("Addresses returned or looked up something without waiting, before any lookup")
		}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if n, ttl := last(t, a, t.Context()); n != 1 || ttl != 100 {
					t.Errorf("first lookup: got answer %d, TTL %d, want 1 and 100", n, ttl)
				}
			})
		}
		wg.Wait()
		if n := up.asked.Load(); n != 1 {
			t.Errorf("%d lookups for one target, want 1", n)
		}
		time.Sleep(40 * time.Second)
		if n, ttl := last(t, a, nil); n != 1 || ttl != 60 {
			t.Errorf("after 40 s answer %d, ttl %d, want 1 and 60", n, ttl)
		}
		if got, ok := a.Addresses(t.Context(), "none.", 28); !ok || len(got.Addrs) != 0 {
			t.Errorf("name without addresses: got %v, %v", got, ok)
		}
	})
}

func TestATargetInUseIsLookedUpBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{ttl: 100 * time.Second}
		a := NewAliases(up)
		runAliases(t, a)
		last(t, a, t.Context())
		for range 1000 {
			time.Sleep(time.Second)
			if n, _ := last(t, a, nil); n == 0 {
				t.Fatal("a target in use was not in the cache")
			}
		}
		if n := up.asked.Load(); n < 10 || n > 12 {
			t.Errorf("%d lookups in 1000 s with a TTL of 100 s, want 10 to 12", n)
		}
		time.Sleep(300 * time.Second)
		before := up.asked.Load()
		time.Sleep(2 * time.Hour)
		if up.asked.Load() != before {
			t.Error("a target that no query needs was refreshed")
		}
		a.mu.RLock()
		defer a.mu.RUnlock()
		if len(a.targets) != 0 {
			t.Error("targets that no query needs were kept")
		}
	})
}

func TestOldAddressesAreAnsweredWhenThereAreNoNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{ttl: 10 * time.Second}
		a := NewAliases(up)
		last(t, a, t.Context())
		up.down.Store(true)
		time.Sleep(time.Hour)
		if n, ttl := last(t, a, t.Context()); n != 1 || ttl != staleTTL || a.Stale.Load() == 0 || a.Failed.Load() != 1 {
			t.Errorf("answer %d, ttl %d, want the old one", n, ttl)
		}
		if n, _ := last(t, a, nil); n != 1 { // no lookup for each query
			t.Error("the stale answer is not in the cache shortly after the failure")
		}
		up.down.Store(false)
		time.Sleep(retry)
		if n, ttl := last(t, a, t.Context()); n != 3 || ttl != 10 {
			t.Errorf("after recovery: got answer %d, TTL %d, want 3 and 10", n, ttl)
		}
		up.down.Store(true)
		time.Sleep(maxStale + time.Minute)
		if n, _ := last(t, a, t.Context()); n != 0 {
			t.Error("Addresses returned addresses that expired three days ago")
		}
		asked := up.asked.Load()
		if _, ok := a.Addresses(t.Context(), "new.", 1); ok {
			t.Error("Addresses returned an answer although the upstream fails")
		}
		a.Addresses(t.Context(), "new.", 1) //nolint:errcheck // counted below
		if n := up.asked.Load() - asked; n != 1 {
			t.Errorf("%d lookups within the pause after a failure, want 1", n)
		}
	})
}

func TestAWaitForALookupEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{ttl: time.Minute, slow: time.Hour}
		a := NewAliases(up)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				if _, ok := a.Addresses(ctx, "slow.", 1); ok || time.Since(began) > lookupTime {
					t.Errorf("slow upstream: after %v, Addresses returned %v", time.Since(began), ok)
				}
			})
		}
		wg.Wait()
	})
}

func TestAddressesAtHandDoNotAllocate(t *testing.T) {
	if race.On {
		t.Skip("the race detector allocates memory")
	}
	a := NewAliases(&upstream{ttl: time.Hour})
	last(t, a, t.Context())
	if n := testing.AllocsPerRun(100, func() { a.Addresses(nil, "cdn.example.net.", 1) }); n != 0 { //nolint:errcheck,staticcheck // as a query does
		t.Errorf("%v allocations for a cached target, want none", n)
	}
	got, _ := a.Addresses(nil, "cdn.example.net.", 1) //nolint:staticcheck // nil says not to wait
	if !slices.Equal(got.Addrs, []netip.Addr{netip.MustParseAddr("192.0.2.1")}) {
		t.Errorf("addresses: got %v, want 192.0.2.1", got)
	}
}
