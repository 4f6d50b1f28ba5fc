package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/cache/peer"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/message"
)

// purged has the purges, each a kind, a space and a value, with their numbers. An object has the number
// of the latest purge when it was stored. Numbers only grow, over restarts too, so that a clock that is
// wrong neither keeps a purge in force nor lifts one.
type purged struct {
	numbers  map[string]uint64
	latest   uint64
	prefixes []int // lengths of purged URL prefixes
}

const prefixKey = "prefix "

func newPurged(numbers map[string]uint64) *purged {
	p := &purged{numbers: numbers}
	lengths := map[int]bool{}
	for key, n := range numbers {
		p.latest = max(p.latest, n)
		if prefix, ok := strings.CutPrefix(key, prefixKey); ok {
			lengths[len(prefix)] = true
		}
	}
	p.prefixes = slices.Collect(maps.Keys(lengths))
	return p
}

// Purge removes every object of a kind that was stored until now: url (without ignored query
// parameters), prefix (of URLs), host (with everything below it), tag or category. Objects are
// removed when they are next requested; a purge persists across a restart.
func (c *Cache) Purge(kind, value string) error {
	switch kind {
	case "host", "category":
		value = strings.ToLower(strings.Trim(value, "."))
	case "url":
		name, err := c.nameOf(value)
		if err != nil {
			return fmt.Errorf("purging a URL: %w", err)
		}
		value = name
	case "prefix":
		q, err := requestFor(strings.TrimSuffix(value, "*"))
		if err != nil {
			return fmt.Errorf("purging a prefix: %w", err)
		}
		value = string(appendURL(nil, q, nil))
	case "tag":
	default:
		return fmt.Errorf("%q cannot be purged; use url, prefix, host, tag or category", kind)
	}
	if value == "" {
		return fmt.Errorf("purging by %s: no %s is given", kind, kind)
	}
	c.count(purges)
	err := c.purge(kind, value)
	if c.peers != nil {
		c.peers.Broadcast(context.Background(), peer.Order{Kind: kind, Value: value})
	}
	return err
}

// purge handles PURGE, which removes the objects stored under the URL, for permitted clients.
// The status is 404 if there is nothing.
func (a *exchange) purge() *message.Response {
	reply := func(status int, reason string, note []byte) *message.Response {
		s := &message.Response{Status: status, Reason: []byte(reason), Proto: 11, Body: new(message.MemoryBody)}
		s.Fields.Add("Date", a.now.UTC().Format(http.TimeFormat))
		s.Fields.Add("Cache-Control", "no-store")
		s.Fields.Add("Content-Length", "0")
		annotate(s, note)
		return s
	}
	c := a.c
	if a.t == nil || !slices.ContainsFunc(c.purgers, func(p netip.Prefix) bool { return p.Contains(a.t.Client.Addr) }) {
		c.count(purgesRefused)
		return reply(403, "Forbidden", noteNoPurge)
	}
	c.count(purges)
	url := appendURL(a.room[:0], a.q, c.ignored)
	names, _ := c.editions.of(url)
	stored := slices.ContainsFunc(names, func(name []byte) bool { return c.get(name) != nil })
	c.removeAll(a.ctx, a.mayStore(), [][]byte{url})
	if !stored && c.peers == nil { // another node may have it
		return reply(404, "Not Found", noteAbsent)
	}
	return reply(200, "OK", notePurged)
}

// purge is [Cache.Purge] for this node. The kind all means everything.
func (s *shelf) purge(kind, value string) error {
	s.purging.Lock()
	defer s.purging.Unlock()
	next, latest := map[string]uint64{}, s.purges()
	if old := s.purged.Load(); old != nil {
		maps.Copy(next, old.numbers)
	}
	next[kind+" "+value] = latest + 1
	if len(next) > maxPurged {
		forgetPurged(next)
	}
	s.purged.Store(newPurged(next))
	s.changes.addAll()
	if s.notes == "" {
		return nil
	}
	b, err := json.Marshal(next)
	if err == nil {
		err = atomicfile.WriteBytes(s.notes, 0o600, append(append(b, '\n'), sumOf(b)...))
	}
	if err != nil {
		return fmt.Errorf("purging %s %q: it holds until the next start only: %w", kind, value, err)
	}
	return nil
}

// forgetPurged makes room: it replaces the older half of the purges by a purge of everything
// stored before the newest of them.
func forgetPurged(purged map[string]uint64) {
	numbers := slices.Sorted(maps.Values(purged))
	until := numbers[len(numbers)/2]
	maps.DeleteFunc(purged, func(_ string, n uint64) bool { return n <= until })
	purged[orderAll+" "] = until
}

// purges returns the number of the latest purge, 0 if there was none.
func (s *shelf) purges() uint64 {
	if p := s.purged.Load(); p != nil {
		return p.latest
	}
	return 0
}

// isPurged reports whether an object was purged after it was stored.
func (s *shelf) isPurged(o *object) bool {
	purged := s.purged.Load()
	if purged == nil {
		return false
	}
	since := func(key string) bool {
		return purged.numbers[key] > o.purges
	}
	if o.marks != nil {
		return false
	}
	url := urlOf(o.name)
	for _, n := range purged.prefixes {
		if n <= len(url) && since(prefixKey+url[:n]) {
			return true
		}
	}
	if since(orderAll+" ") || since("url "+url) || slices.ContainsFunc(o.labels.tags, func(v string) bool { return since("tag " + v) }) ||
		slices.ContainsFunc(o.labels.categories, func(v string) bool { return since("category " + v) }) {
		return true
	}
	for host := o.host; ; {
		if since("host " + host) {
			return true
		}
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		host = rest
	}
}
