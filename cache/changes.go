package cache

import (
	"bytes"
	"sync/atomic"
)

// changes are what was made invalid lately. A response that was asked for
// before its URL changed may show how it was before, however late it comes: it
// goes to who asked and is not stored.
type changes struct {
	number atomic.Uint64       // of the latest change
	purged atomic.Uint64       // of the latest one that may be about any URL
	last   [4096]atomic.Uint64 // of the latest one for each URL, many of which share a place
}

// now is the number that [changes.since] compares with.
func (c *changes) now() uint64 { return c.number.Load() }

// add notes a change of what name says, before objects are taken out.
func (c *changes) add(name []byte) { c.place(name).Store(c.number.Add(1)) }

// addAll notes a change of anything.
func (c *changes) addAll() { c.purged.Store(c.number.Add(1)) }

// since says whether the URL of a name may have changed after number.
func (c *changes) since(name []byte, number uint64) bool {
	return c.place(name).Load() > number || c.purged.Load() > number
}

func (c *changes) place(name []byte) *atomic.Uint64 {
	url, _, _ := bytes.Cut(name, []byte("\n"))
	return &c.last[hash(url).Lo%uint64(len(c.last))]
}
