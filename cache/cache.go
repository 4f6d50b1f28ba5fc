// Package cache stores responses and answers requests with them (RFC 9111), in front of the
// transport to origins.
//
// A request comes to [RoundTripper.RoundTrip] (roundtrip.go) and gets a name (key.go), by
// which an object (object.go) is looked up in memory and on the disk. If the rules of HTTP
// permit it (package protocol), the object answers the request. If it may be stale, the origin
// is asked with conditions. If there is none, the request goes to the origin, and others with
// the same name wait for it. The body of the response goes to the client and into an object at
// the same time (growing.go). Memory takes every object; the disk (package disk) takes those
// that are worth it (package admission).
//
// All clients share the objects, but not the verdicts of policies on them: these are stored
// with the object under keys that only the same rules and lists produce ([filter.Stored]).
// Without a verdict the body is judged like any other.
package cache

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

// An Origin sends requests to origins.
type Origin interface {
	RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error)
}

// Parts are the parts that a cache is built from besides its settings.
type Parts struct {
	// Data is the data folder.
	Data string
	// Stores reports whether the response to a request that was encrypted on its way here may
	// be stored. nil means no.
	Stores func(*filter.Transaction) bool
	// Trial says not to write anything, because another process may.
	Trial bool
	// Previous is the cache whose objects the new one takes over, whatever its settings say
	// about their place; nil for none.
	Previous *Cache
	Log      *slog.Logger // default slog.Default
}

// A Cache holds objects. Make one with New.
type Cache struct {
	ignored []string
	rules   []Rule
	purgers []netip.Prefix // clients that may send PURGE; if empty, it goes to origins
	object  int64
	wait    time.Duration
	offline time.Duration
	stores  func(*filter.Transaction) bool
	log     *slog.Logger

	*shelf
	closed sync.Once

	fetching  flights
	refreshes chan func(context.Context) // in the background
	uplink    uplink
	counters
}

// New returns a cache.
func New(cfg Config, p Parts) (*Cache, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if p.Log == nil {
		p.Log = slog.Default()
	}
	if p.Stores == nil {
		p.Stores = func(*filter.Transaction) bool { return false }
	}
	memory := cfg.Memory.Or(defaultMemory)
	c := &Cache{
		ignored: cfg.IgnoreQuery, rules: cfg.Rules, purgers: cfg.Purge,
		object: min(cfg.Object.Or(defaultObject), max(memory/2, 1<<20)),
		wait:   cfg.Wait.Or(defaultWait), offline: cfg.Offline.Or(defaultOffline),
		stores: p.Stores, log: p.Log,
		refreshes: make(chan func(context.Context), maxRefreshes),
	}
	c.fetching.under = map[Key]*flight{}
	c.counters.init()
	if p.Previous != nil {
		c.shelf = p.Previous.shelf
	} else {
		var err error
		if c.shelf, err = newShelf(&cfg, &p); err != nil {
			return nil, err
		}
	}
	c.users.Add(1)
	return c, nil
}

// Close releases the objects, unless another cache has taken them over.
func (c *Cache) Close() (err error) {
	c.closed.Do(func() { err = c.leave() })
	return err
}

// usualObject is a guess of the average size of objects, to estimate their number.
const usualObject = 32 << 10

// Run runs the background work until ctx ends.
func (c *Cache) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { c.shelf.run(ctx) })
	work.Go(func() { c.shelf.pace(ctx) })
	for range refreshers {
		work.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case refresh := <-c.refreshes:
					refresh(ctx)
				}
			}
		})
	}
	work.Wait()
	return nil
}

// Limits of objects that are refreshed in the background at a time, and of those that wait for
// it.
const (
	refreshers   = 8
	maxRefreshes = 256
)

// find returns the object with this name that answers q, and the mark that leads to it; nil
// for none.
func (c *Cache) find(name []byte, q *message.Request) (o *object, m *mark) {
	o = c.get(name)
	if o == nil || o.marks == nil {
		return o, nil
	}
	m = o.marks
	n := len(name)
	name = m.appendVariant(name, q.Fields, "")
	if o = c.get(name); o != nil || !m.languages {
		return o, m
	}
	for _, l := range languages(q.Fields) {
		name = m.appendVariant(name[:n], q.Fields, l)
		if o = c.get(name); o != nil {
			return o, m
		}
	}
	return nil, m
}

// put stores an object for q under the name, or behind a mark if the response varies, unless
// it was invalidated since the request.
func (c *Cache) put(name []byte, q message.Fields, o *object, since uint64) {
	if c.changes.since(name, since) {
		return
	}
	target := name
	o.purges = c.purges()
	if names := vary(o.res.Fields); len(names) > 0 {
		o.parent = c.markFor(name, names)
		m := o.parent.marks
		name = m.appendVariant(name[:len(name):len(name)], q, language(q, o.res.Fields, m))
	}
	if o.name = o.url; o.name != string(name) {
		o.name = string(name)
	}
	if c.shelf.put(o) {
		c.count(storedObjects)
	}
	if c.changes.since(target, since) { // meanwhile
		c.remove(target)
		c.remove(name)
	}
}

// markFor returns the mark under the name for responses that vary by names. It keeps an
// existing one with the same names.
func (c *Cache) markFor(name []byte, names []string) *object {
	if o := c.get(name); o != nil && o.marks != nil && equal(o.marks.names, names) {
		return o
	}
	o := newMark(string(name), names)
	c.remove(name)
	c.mu.Lock()
	c.memory.Put(hash(name), entry{object: o}, o.weight())
	c.mu.Unlock()
	return o
}

func newMark(name string, names []string) *object {
	o := &object{name: name, url: urlOf(name), marks: &mark{names: names, number: rand.Uint64()}, verdicts: &verdicts{}}
	o.host = hostOf(o.url)
	o.marks.languages = contains(names, "accept-language")
	return o
}

// An uplink records whether the network can be reached.
type uplink struct {
	failed atomic.Int32 // successive failed fetches
	tried  atomic.Int64 // time of the last attempt, in Unix nanoseconds
}

// The uplink counts as down after this many successive failed fetches, and is then tried with
// one request per interval.
const (
	downAfter = 3
	tryEvery  = 5 * time.Second
)

// isDown reports whether the uplink is down and this request should not try it.
func (u *uplink) isDown(now time.Time) bool {
	if u.failed.Load() < downAfter {
		return false
	}
	last := u.tried.Load()
	return now.UnixNano()-last < int64(tryEvery) || !u.tried.CompareAndSwap(last, now.UnixNano())
}

// recordFetch records the result of a fetch.
func (u *uplink) recordFetch(err error, now time.Time) {
	switch {
	case err == nil:
		if u.failed.Load() != 0 {
			u.failed.Store(0)
		}
	case unreachable(err):
		u.failed.Add(1)
		u.tried.Store(now.UnixNano())
	}
}
