package redins

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/zone"
)

// An Upstream finds the addresses of a name elsewhere, and their TTL. No address and no error
// means that there are none of that type.
type Upstream interface {
	Lookup(ctx context.Context, host string, qtype uint16) ([]netip.Addr, time.Duration, error)
}

const (
	// lookupTime bounds one lookup; a client waits for the first.
	lookupTime = 3 * time.Second
	// staleTTL is the TTL of stale answers, maxStale the longest time after expiry at which they
	// are used (RFC 8767).
	staleTTL = 30
	maxStale = 72 * time.Hour
	// retry is the shortest time between a failed lookup and the next.
	retry = 5 * time.Second
	// unused is how long a target is kept that no query needs.
	unused = time.Hour
	// maxTargets bounds the cache; maxLookup the background lookups.
	maxTargets  = 100_000
	maxLookup   = 8
	leastTTL    = 1 * time.Second
	mostTTL     = 24 * time.Hour
	refreshTick = time.Second
)

// Aliases caches the addresses of ANAME targets outside our zones. It implements
// zone.Resolver. After the first lookup the addresses stay available: they are refreshed
// shortly before they expire as long as queries need them, and kept when that fails.
type Aliases struct {
	upstream Upstream

	mu      sync.RWMutex
	targets map[aliasKey]*target

	Lookups, Failed, Stale atomic.Uint64
}

type aliasKey struct {
	name string
	typ  uint16
}

type target struct {
	found  atomic.Pointer[lookupResult]
	failed atomic.Int64 // when the last lookup failed, in unix ns; 0 after one that did not
	used   atomic.Int64 // last use, in Unix seconds
	one    chan struct{}
}

// A lookupResult is the result of a lookup.
type lookupResult struct {
	addrs []netip.Addr
	ttl   time.Duration
	until time.Time
}

// NewAliases returns a cache in front of an upstream.
func NewAliases(up Upstream) *Aliases {
	return &Aliases{upstream: up, targets: map[aliasKey]*target{}}
}

// adopt takes over the contents of another cache.
func (a *Aliases) adopt(previous *Aliases) {
	previous.mu.RLock()
	defer previous.mu.RUnlock()
	a.targets = maps.Clone(previous.targets)
}

// Addresses implements zone.Resolver.
func (a *Aliases) Addresses(ctx context.Context, name string, typ uint16) (zone.Addresses, bool) {
	key := aliasKey{name, typ}
	a.mu.RLock()
	t := a.targets[key]
	a.mu.RUnlock()
	if t == nil {
		if ctx == nil {
			return zone.Addresses{}, false
		}
		t = a.enter(key)
	}
	now := time.Now()
	if s := now.Unix(); t.used.Load() != s {
		t.used.Store(s)
	}
	if got, ok := a.atHand(t, now); ok || ctx == nil {
		return got, ok
	}
	select { // one lookup for all that wait
	case t.one <- struct{}{}:
	case <-ctx.Done():
		return a.stale(t, now)
	}
	defer func() { <-t.one }()
	now = time.Now()
	if got, ok := a.atHand(t, now); ok {
		return got, true
	}
	if now.UnixNano()-t.failed.Load() < int64(retry) || !a.lookup(ctx, key, t) {
		return a.stale(t, now)
	}
	return a.atHand(t, now)
}

// atHand returns the addresses that are known at once: valid addresses, or stale ones shortly
// after a failed lookup.
func (a *Aliases) atHand(t *target, now time.Time) (zone.Addresses, bool) {
	f := t.found.Load()
	if f == nil {
		return zone.Addresses{}, false
	}
	if left := min(f.until.Sub(now), f.ttl); left > 0 {
		return zone.Addresses{Addrs: f.addrs, TTL: uint32((left + time.Second - 1) / time.Second)}, true
	}
	if t.failed.Load() != 0 && now.UnixNano()-t.failed.Load() < int64(retry) {
		return a.stale(t, now)
	}
	return zone.Addresses{}, false
}

func (a *Aliases) stale(t *target, now time.Time) (zone.Addresses, bool) {
	f := t.found.Load()
	if f == nil || now.Sub(f.until) > maxStale {
		return zone.Addresses{}, false
	}
	a.Stale.Add(1)
	return zone.Addresses{Addrs: f.addrs, TTL: staleTTL}, true
}

func (a *Aliases) enter(key aliasKey) *target {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.targets[key]
	if t == nil {
		t = &target{one: make(chan struct{}, 1)}
		if len(a.targets) < maxTargets { // otherwise it is looked up each time
			a.targets[key] = t
		}
	}
	return t
}

func (a *Aliases) lookup(ctx context.Context, key aliasKey, t *target) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	a.Lookups.Add(1)
	addrs, ttl, err := a.upstream.Lookup(ctx, key.name, key.typ)
	if err != nil {
		a.Failed.Add(1)
		t.failed.Store(time.Now().UnixNano())
		return false
	}
	ttl = min(max(ttl, leastTTL), mostTTL)
	t.found.Store(&lookupResult{addrs, ttl, time.Now().Add(ttl)})
	t.failed.Store(0)
	return true
}

// Run refreshes targets in use that are about to expire, and removes unused ones, until ctx
// ends.
func (a *Aliases) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(refreshTick)
	defer tick.Stop()
	slots := make(chan struct{}, maxLookup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for key, t := range a.dueTargets(time.Now()) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { <-slots }()
				select {
				case t.one <- struct{}{}:
					a.lookup(ctx, key, t)
					<-t.one
				default: // a query is looking it up
				}
			})
		}
	}
}

// dueTargets returns the targets to refresh, and removes unused ones.
func (a *Aliases) dueTargets(now time.Time) map[aliasKey]*target {
	due, forget := map[aliasKey]*target{}, []aliasKey(nil)
	a.mu.RLock()
	for key, t := range a.targets {
		used := time.Unix(t.used.Load()+1, 0)
		if now.Sub(used) > unused {
			forget = append(forget, key)
			continue
		}
		f := t.found.Load()
		if f == nil || now.UnixNano()-t.failed.Load() < int64(retry) {
			continue
		}
		ahead := max(f.ttl/10, 2*refreshTick)
		if since := f.until.Add(-f.ttl); f.until.Sub(now) < ahead && used.After(since) {
			due[key] = t
		}
	}
	a.mu.RUnlock()
	if forget != nil {
		a.mu.Lock()
		for _, key := range forget {
			delete(a.targets, key)
		}
		a.mu.Unlock()
	}
	return due
}
