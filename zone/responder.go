package zone

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

// A Responder answers for its zones, and declines names outside all of them. It is safe for
// concurrent use; queries never wait for a change.
type Responder struct {
	seed   uint64
	shards [shards]atomic.Pointer[shard]
	depths atomic.Uint64 // bit n: zones of n labels exist or have existed; 63: of 63 or more
	free   sync.Pool     // of *scratch

	mu sync.Mutex // one change at a time
}

// shards is the number of parts of the table of zones: a change copies one.
const shards = 256

// A shard holds zones by the hash of their origin. It is immutable.
type shard struct {
	slots []*views // length is a power of two; nil where free
}

// views are the zones of one origin.
type views struct {
	hash   uint64
	origin string // wire form
	tables []*table
}

// NewResponder returns a Responder without zones.
func NewResponder() *Responder {
	return &Responder{seed: rand.Uint64(), free: sync.Pool{New: func() any { return new(scratch) }}}
}

// Clone returns a Responder that serves the same zones. Later changes of one do not affect the
// other.
func (z *Responder) Clone() *Responder {
	c := NewResponder()
	z.mu.Lock()
	defer z.mu.Unlock()
	c.seed = z.seed // the compiled zones depend on it
	for i := range z.shards {
		c.shards[i].Store(z.shards[i].Load())
	}
	c.depths.Store(z.depths.Load())
	return c
}

// Replace compiles zones and puts each in place of the one with its origin and view. If one
// cannot be compiled, nothing is replaced, and the error names all faulty zones.
func (z *Responder) Replace(zones ...*Zone) error {
	tables := make([]*table, 0, len(zones))
	var errs []error
	for _, one := range zones {
		t, err := compile(one, z.seed)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tables = append(tables, t)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, t := range tables {
		z.depths.Store(z.depths.Load() | 1<<min(t.depth, 63))
		z.change(t.originH, string(t.origin), func(old []*table) []*table {
			kept := slices.DeleteFunc(slices.Clone(old), func(o *table) bool { return o.view == t.view })
			kept = append(kept, t)
			slices.SortFunc(kept, func(a, b *table) int { return strings.Compare(a.view, b.view) })
			return kept
		})
	}
	return nil
}

// Remove removes a zone and reports whether it existed.
func (z *Responder) Remove(origin, view string) bool {
	name, err := dns.Name(origin)
	if err != nil {
		return false
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	found := false
	z.change(z.hash(name), string(name), func(old []*table) []*table {
		return slices.DeleteFunc(slices.Clone(old), func(o *table) bool {
			found = found || o.view == view
			return o.view == view
		})
	})
	return found
}

// hash returns the hash of a whole name.
func (z *Responder) hash(name []byte) uint64 {
	var at [128]uint8
	labels := dns.Labels(at[:0], name)
	h := z.seed
	for i := len(labels) - 1; i >= 0; i-- {
		s := int(labels[i])
		h = mix(h, name[s:s+1+int(name[s])])
	}
	return h
}

// change replaces a shard by one with other zones of an origin.
func (z *Responder) change(h uint64, origin string, edit func([]*table) []*table) {
	at := &z.shards[h>>56]
	var all []*views
	var tables []*table
	if old := at.Load(); old != nil {
		for _, v := range old.slots {
			if v != nil && v.origin == origin {
				tables = v.tables
			} else if v != nil {
				all = append(all, v)
			}
		}
	}
	if tables = edit(tables); len(tables) > 0 {
		all = append(all, &views{h, origin, tables})
	}
	s := &shard{slots: make([]*views, 1<<bits.Len(uint(2*len(all))))}
	for _, v := range all {
		i := v.hash & uint64(len(s.slots)-1)
		for s.slots[i] != nil {
			i = (i + 1) & uint64(len(s.slots)-1)
		}
		s.slots[i] = v
	}
	at.Store(s)
}

// origins returns the zones of the origin with the hash h.
func (z *Responder) origins(h uint64, origin []byte) []*table {
	s := z.shards[h>>56].Load()
	if s == nil {
		return nil
	}
	for i := h & uint64(len(s.slots)-1); ; i = (i + 1) & uint64(len(s.slots)-1) {
		v := s.slots[i]
		if v == nil {
			return nil
		}
		if v.hash == h && v.origin == string(origin) {
			return v.tables
		}
	}
}

// find returns the zone for a name: the longest origin that is at least least labels above the
// name and that the client sees.
func (z *Responder) find(name []byte, labels []uint8, least int, client netip.Addr) *table {
	depths := z.depths.Load()
	var best *table
	h := z.seed
	for depth := 0; ; depth++ {
		i := len(labels) - depth
		at := len(name) - 1
		if depth > 0 {
			at = int(labels[i])
			h = mix(h, name[at:at+1+int(name[at])])
		}
		if i < least || depths>>min(depth, 63) == 0 {
			return best
		}
		if depths&(1<<min(depth, 63)) != 0 {
			if t := visible(z.origins(h, name[at:]), client); t != nil {
				best = t
			}
		}
		if i == 0 {
			return best
		}
	}
}

// Depth returns the number of labels of the longest zone for a name, given with the offsets of its
// labels, that a client sees; -1 when there is none.
func (z *Responder) Depth(name []byte, labels []uint8, client netip.Addr) int {
	t := z.find(name, labels, 0, client)
	if t == nil {
		return -1
	}
	return t.depth
}

// visible returns which of an origin's zones the client sees.
func visible(all []*table, client netip.Addr) *table {
	if len(all) == 1 && len(all[0].clients) == 0 {
		return all[0]
	}
	var best *table
	length := -2
	for _, t := range all {
		if l := t.covers(client); l > length && l > -2 {
			best, length = t, l
		}
	}
	return best
}

// covers returns the length of the longest prefix that covers the client, -1 when everybody is
// covered, -2 when this client is not.
func (t *table) covers(client netip.Addr) int {
	if len(t.clients) == 0 {
		return -1
	}
	best := -2
	for _, p := range t.clients {
		if p.Contains(client) {
			best = max(best, p.Bits())
		}
	}
	return best
}

// Info describes a zone.
type Info struct {
	Origin, View   string
	Serial         uint32
	Names, Records int
	Bytes          int // of the compiled form
	Signed         bool
	Expires        *atomic.Int64 // see Zone
	Unavailable    string        // why the zone cannot be served, "" when it can
}

// Zones lists the served zones by origin, then view.
func (z *Responder) Zones() []Info { return z.list(false) }

// Unavailable lists the zones that cannot be served.
func (z *Responder) Unavailable() []Info { return z.list(true) }

func (z *Responder) list(unavailable bool) []Info {
	var all []Info
	for i := range z.shards {
		s := z.shards[i].Load()
		if s == nil {
			continue
		}
		for _, v := range s.slots {
			if v == nil {
				continue
			}
			for _, t := range v.tables {
				if (t.unavailable != "") == unavailable {
					all = append(all, t.info())
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Info) int {
		return strings.Compare(a.Origin+"/"+a.View, b.Origin+"/"+b.View)
	})
	return all
}

func (t *table) info() Info {
	return Info{dns.Text(t.origin), t.view, t.serial, t.nodes, t.count, len(t.arena) + 8*len(t.slots) + 4*len(t.order), t.signed, t.expires, t.unavailable}
}

// Answer implements nameserver.Responder.
func (z *Responder) Answer(q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	return z.answer(nil, q, r) //nolint:staticcheck // nil: must not wait
}

// Wait implements nameserver.Responder.
func (z *Responder) Wait(ctx context.Context, q *dns.Query, r *dns.Reply, _ *filter.Transaction) dns.Outcome {
	return z.answer(ctx, q, r)
}

// String describes the Responder for the log.
func (z *Responder) String() string { return fmt.Sprintf("%d zones", len(z.Zones())) }
