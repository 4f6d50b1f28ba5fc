// Package cache keeps responses and answers with them (RFC 9111), in front of
// what carries requests to origins.
//
// Data moves so. A request comes to [RoundTripper.RoundTrip] (roundtrip.go) and
// gets a name (key.go). An object of that name (object.go) is looked for in
// memory and on the disk. When the rules of HTTP allow it (package protocol),
// it answers; when it may be stale, the origin is asked with conditions; when
// there is none, the request goes on, and others for the same name wait for it.
// The body of the response goes to the client and grows into an object at the
// same time (growing.go). Memory takes every object; the disk (package disk)
// takes those that earn it (package admission).
//
// What an object holds is shared by all clients. What policies make of it is
// not: their verdicts are kept beside it under keys that only the same rules
// and lists arrive at ([filter.Stored]), and without one the body is judged
// again like any other.
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
	"shuultuur/message"
)

// An Origin carries requests to where objects come from.
type Origin interface {
	RoundTrip(ctx context.Context, q *message.Request) (*message.Response, error)
}

// Parts are what a cache works with besides its settings.
type Parts struct {
	// Data is the data folder.
	Data string
	// Stores says whether the response to a request that was encrypted on its
	// way here may be stored. nil: it may not.
	Stores func(*filter.Transaction) bool
	// Trial says that nothing is to be written: another process may do that.
	Trial bool
	// Previous is the cache whose objects the new one goes on with, whatever its
	// settings say about where they are; nil: none.
	Previous *Cache
	Log      *slog.Logger // slog.Default unless given
}

// A Cache holds objects. Make one with New.
type Cache struct {
	ignored []string
	rules   []Rule
	purgers []netip.Prefix // clients that may send PURGE; none: it is for origins
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

// Close lets go of the objects, unless another cache goes on with them.
func (c *Cache) Close() (err error) {
	c.closed.Do(func() { err = c.leave() })
	return err
}

// usualObject is a guess at the mean size of objects, for how many of them
// there are going to be.
const usualObject = 32 << 10

// Run does what is done in the background until ctx ends.
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

// Objects that are refreshed in the background at once, and that wait for it.
const (
	refreshers   = 8
	maxRefreshes = 256
)

// find returns the object that answers q, whose name is given, and the names
// under which it may be; nil when there is none.
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

// put stores an object that answers q under the name, or behind a mark where
// the response varies, unless that has changed since it was asked for.
func (c *Cache) put(name []byte, q message.Fields, o *object, since uint64) {
	if c.changes.since(name, since) {
		return
	}
	target := name
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

// markFor returns the mark under the name for responses that vary by names. One
// with the same names stays.
func (c *Cache) markFor(name []byte, names []string) *object {
	if o := c.get(name); o != nil && o.marks != nil && equal(o.marks.names, names) {
		return o
	}
	o := newMark(string(name), names)
	c.remove(name)
	c.mu.Lock()
	c.memory.Put(hash(name), o, o.weight())
	c.mu.Unlock()
	return o
}

func newMark(name string, names []string) *object {
	o := &object{name: name, url: urlOf(name), marks: &mark{names: names, number: rand.Uint64()}, verdicts: &verdicts{}}
	o.host = hostOf(o.url)
	o.marks.languages = contains(names, "accept-language")
	return o
}

// An uplink is what is known of whether the network can be reached at all.
type uplink struct {
	failed atomic.Int32 // fetches that failed in a row
	tried  atomic.Int64 // when one was tried last, Unix nanoseconds
}

// The uplink is taken to be down after so many fetches that failed in a row,
// and tried again with one request in a while.
const (
	downAfter = 3
	tryEvery  = 5 * time.Second
)

// down says that the uplink is down and that this request is not the one to try
// it with.
func (u *uplink) down(now time.Time) bool {
	if u.failed.Load() < downAfter {
		return false
	}
	last := u.tried.Load()
	return now.UnixNano()-last < int64(tryEvery) || !u.tried.CompareAndSwap(last, now.UnixNano())
}

// saw notes how a fetch went.
func (u *uplink) saw(err error, now time.Time) {
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
