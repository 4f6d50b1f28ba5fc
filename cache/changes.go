package cache

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// changes are recent invalidations. A response requested before its URL changed may be
// outdated, however late it arrives: it goes to the client and is not stored.
type changes struct {
	number atomic.Uint64       // of the latest change
	purged atomic.Uint64       // of the latest one that may concern any URL
	last   [4096]atomic.Uint64 // of the latest one for each URL, many of which share an entry
}

// now returns the number for [changes.since].
func (c *changes) now() uint64 { return c.number.Load() }

// add records a change of the object called name, before objects are removed.
func (c *changes) add(name []byte) { c.place(name).Store(c.number.Add(1)) }

// addAll records a change of everything.
func (c *changes) addAll() { c.purged.Store(c.number.Add(1)) }

// since reports whether the URL of a name may have changed after number.
func (c *changes) since(name []byte, number uint64) bool {
	return c.place(name).Load() > number || c.purged.Load() > number
}

// editions are the parts of names after the URL. Policies edit requests differently, so that a
// URL has an object for each edition. A change of the URL applies to all its editions.
type editions struct {
	mu   sync.RWMutex
	seen map[string]bool
}

// mostEditions limits the editions that are remembered. If there are more, a change of a URL
// is treated as a purge of it.
const mostEditions = 64

// note records the edition of a name.
func (e *editions) note(name []byte) {
	i := bytes.IndexByte(name, '\n')
	if i < 0 {
		return
	}
	e.mu.RLock()
	known := e.seen[string(name[i:])] || len(e.seen) > mostEditions
	e.mu.RUnlock()
	if known {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[string]bool{}
	}
	e.seen[string(name[i:])] = true
}

// of returns the names of all editions of a URL; complete is false if there may be more.
func (e *editions) of(url []byte) (names [][]byte, complete bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	names = append(names, url)
	for end := range e.seen {
		names = append(names, append(bytes.Clone(url), end...))
	}
	return names, len(e.seen) <= mostEditions
}

func (c *changes) place(name []byte) *atomic.Uint64 {
	url, _, _ := bytes.Cut(name, []byte("\n"))
	return &c.last[hash(url).Lo%uint64(len(c.last))]
}
