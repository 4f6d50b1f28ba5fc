package state

import (
	"encoding/binary"
	"log/slog"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Count is one operation on a counter: the amount to add, and the result.
//
// A counter is a sum, or a set of small numbers of which the size counts. A set holds, for
// example, the minutes of a day in which a site was used: a minute that two nodes saw counts
// once.
type Count struct {
	Key [16]byte
	// Until is when the counter expires. With a Window, the counter holds the amounts added
	// during the last Window instead: the sum of this window plus the share of the previous one
	// that still overlaps, as if its additions were spread evenly.
	Until  time.Time
	Window time.Duration

	Add    int64 // to add to the sum; 0 only reads
	Set    bool  // whether the counter is a set
	Member int   // to add to the set, 0 to 2047; -1 only reads

	// Most is the limit of the sum; 0 means none. An Add that would exceed it is not made.
	Most int64

	// The results.
	Sum   int64         // including Add, on all nodes
	Over  bool          // Add was not made, because the sum would exceed Most
	After time.Duration // if Over: how long until Add fits, if nothing else is added
	Known bool          // Sum includes the counts of the other nodes
}

const (
	shards = 64
	// maxCounters bounds the counters held, to some 20 MiB. When all are in use, a new counter
	// is not kept: its Sum is 0 and its Count is not Known.
	maxCounters = 100_000
	setWords    = 32
	sweepEvery  = 10 * time.Second
	// roomEvery is the shortest time between two searches for room in a full shard, because a
	// search visits every counter of it.
	roomEvery = 100 * time.Millisecond
)

// counters are the counters of this process.
type counters struct {
	shard     [shards]shard
	shared    bool // other nodes count too
	serial    atomic.Uint64
	held      atomic.Int64
	uncounted atomic.Int64
	reported  int64        // value of uncounted at the last sweep; only sweep uses it
	full      bool         // the log says that there is no room; only sweep uses it
	log       *slog.Logger // of sweep
}

type shard struct {
	mu    sync.Mutex
	m     map[[16]byte]*counter
	dirty [][16]byte // keys of counters that are to be exchanged
	full  int64      // when a search last found no room, Unix milliseconds
}

// A counter holds what this node has counted, and the counts of the others at the last
// exchange. Each node writes only its own number. So a number that is sent twice or late, or
// again after Redis has lost everything, is still right.
type counter struct {
	mine, others int64
	exchanged    int64             // value of mine at the last exchange
	own, all     *[setWords]uint64 // of a set
	serial       uint64            // part of the name in Redis, to make it unique
	until        int64             // Unix milliseconds
	synced       int64             // time of the last exchange, Unix nanoseconds
	pushing      *part             // exchanges in progress, the newest first
	dirty        bool              // mine has changed since the last exchange
	sent         bool              // Redis has a number of this node
}

func (c *counter) sum() int64 {
	if c.all == nil {
		return c.mine + c.others
	}
	n := 0
	for _, w := range c.all {
		n += bits.OnesCount64(w)
	}
	return int64(n)
}

func (c *counter) has(member int) bool {
	return member < 0 || member >= setWords*64 || c.all[member>>6]>>(member&63)&1 != 0
}

func (cs *counters) of(key [16]byte) *shard { return &cs.shard[key[0]%shards] }

// at returns the counter of key, or nil when there is no room. The caller holds the lock of
// the shard.
func (cs *counters) at(s *shard, key [16]byte, set bool, until, now int64) *counter {
	c := s.m[key]
	if c != nil && c.until > now && set == (c.all != nil) {
		return c
	}
	if c == nil && len(s.m) >= maxCounters/shards && !cs.room(s, now) {
		return nil
	}
	if s.m == nil {
		s.m = map[[16]byte]*counter{}
	}
	if c == nil {
		cs.held.Add(1)
	}
	c = &counter{until: until, serial: cs.serial.Add(1)}
	if set {
		c.own, c.all = new([setWords]uint64), new([setWords]uint64)
	}
	s.m[key] = c
	return c
}

// room removes expired counters and, in a fleet, those whose numbers Redis has. The caller
// holds the lock of the shard.
func (cs *counters) room(s *shard, now int64) bool {
	if since := now - s.full; since >= 0 && since < roomEvery.Milliseconds() {
		return false
	}
	before := len(s.m)
	for k, c := range s.m {
		if c.until <= now || cs.shared && len(s.m) > maxCounters/shards*9/10 && !c.dirty && c.pushing == nil && c.synced != 0 {
			delete(s.m, k)
		}
	}
	if len(s.m) == before {
		s.full = now
		return false
	}
	cs.held.Add(int64(len(s.m) - before))
	return true
}

// sweep removes expired counters. It logs once when counters found no room, until there is
// room again.
func (cs *counters) sweep(now time.Time) {
	if n := cs.uncounted.Load(); n == cs.reported {
		cs.full = false
	} else {
		if !cs.full {
			cs.log.Warn("no room for more counters of limits, quotas and clicks: new ones do not count, existing ones go on", "counters", cs.held.Load(), "uncounted", n-cs.reported)
		}
		cs.reported, cs.full = n, true
	}
	for i := range cs.shard {
		s := &cs.shard[i]
		s.mu.Lock()
		before := len(s.m)
		for k, c := range s.m {
			if c.until <= now.UnixMilli() {
				delete(s.m, k)
			}
		}
		cs.held.Add(int64(len(s.m) - before))
		s.dirty = slices.DeleteFunc(s.dirty, func(k [16]byte) bool { c := s.m[k]; return c == nil || !c.dirty })
		s.mu.Unlock()
	}
}

// forget removes counters.
func (cs *counters) forget(keys [][16]byte) {
	for _, k := range keys {
		s := cs.of(k)
		s.mu.Lock()
		if s.m[k] != nil {
			delete(s.m, k)
			cs.held.Add(-1)
		}
		s.mu.Unlock()
	}
}

// Keys returns the keys of the counters that n reads at a time.
func (n *Count) Keys(now time.Time) [][16]byte {
	this, before, _, _ := n.keys(now)
	if this == before {
		return [][16]byte{this}
	}
	return [][16]byte{this, before}
}

// touch marks a counter to be sent. The caller holds the lock of the shard.
func (s *shard) touch(key [16]byte, c *counter) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, key)
	}
}

// keys returns the counters that n reads: with a Window this one and the one before, otherwise
// one.
func (n *Count) keys(now time.Time) (this, before [16]byte, until int64, part float64) {
	if n.Window <= 0 {
		return n.Key, n.Key, n.Until.UnixMilli(), 0
	}
	i := now.UnixNano() / int64(n.Window)
	numbered := func(i int64) [16]byte {
		k := n.Key
		binary.BigEndian.PutUint64(k[8:], binary.BigEndian.Uint64(k[8:])+uint64(i))
		return k
	}
	gone := float64(now.UnixNano()-i*int64(n.Window)) / float64(n.Window)
	end := time.Unix(0, (i+2)*int64(n.Window))
	return numbered(i), numbered(i - 1), end.UnixMilli(), 1 - gone
}

// take carries out all counts or none, by the sums that this node knows.
func (cs *counters) take(now time.Time, counts []Count) {
	for i := range counts {
		if cs.takeOne(now, &counts[i]); counts[i].Over {
			cs.undo(now, counts[:i])
			for j := range counts[i+1:] { // only read the others
				n := &counts[i+1+j]
				look := *n
				look.Add, look.Member = 0, -1
				cs.takeOne(now, &look)
				n.Sum, n.Known, n.Over = look.Sum, look.Known, false
			}
			return
		}
	}
}

func (cs *counters) takeOne(now time.Time, n *Count) {
	this, before, until, part := n.keys(now)
	last := 0.0
	if part > 0 {
		last = float64(cs.value(now, before, n.Set))
	}
	s := cs.of(this)
	s.mu.Lock()
	defer s.mu.Unlock()
	n.Over, n.After, n.Known = false, 0, true
	c := cs.at(s, this, n.Set, until, now.UnixMilli())
	if c == nil {
		cs.uncounted.Add(1)
		n.Sum, n.Known = 0, false
		return
	}
	grows := n.Add
	if n.Set {
		grows = 0
		if !c.has(n.Member) {
			grows = 1
		}
	}
	n.Sum = c.sum() + int64(last*part)
	if n.Most > 0 && grows > 0 && n.Sum+grows > n.Most {
		n.Over = true
		n.After = n.until(now, float64(c.sum()), last, float64(grows))
		return
	}
	if grows == 0 {
		return
	}
	n.Sum += grows
	if n.Set {
		c.own[n.Member>>6] |= 1 << (n.Member & 63)
		c.all[n.Member>>6] |= 1 << (n.Member & 63)
	} else {
		c.mine += n.Add
	}
	s.touch(this, c)
}

// until computes how long until grows more fit, if nothing else is added.
func (n *Count) until(now time.Time, this, last, grows float64) time.Duration {
	if n.Window <= 0 {
		return n.Until.Sub(now)
	}
	w, most := float64(n.Window), float64(n.Most)
	gone := float64(now.UnixNano() % int64(n.Window))
	var at float64 // from the beginning of this window
	if room := most - grows - this; room >= 0 && last > 0 {
		at = w * (1 - room/last)
	} else if room := most - grows; room >= 0 && this > 0 {
		at = w + max(0, w*(1-room/this))
	} else {
		at = 2 * w
	}
	return time.Duration(max(at-gone, float64(time.Millisecond)))
}

// value returns the value of a counter, 0 if there is none.
func (cs *counters) value(now time.Time, key [16]byte, set bool) int64 {
	s := cs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.m[key]; c != nil && c.until > now.UnixMilli() && set == (c.all != nil) {
		return c.sum()
	}
	return 0
}

// undo subtracts the amounts added to sums. Members of sets stay: the use happened.
func (cs *counters) undo(now time.Time, counts []Count) {
	for i := range counts {
		n := &counts[i]
		if n.Set || n.Add == 0 || n.Over {
			continue
		}
		this, _, _, _ := n.keys(now)
		s := cs.of(this)
		s.mu.Lock()
		if c := s.m[this]; c != nil {
			c.mine -= n.Add
			n.Sum -= n.Add
			s.touch(this, c)
		}
		s.mu.Unlock()
	}
}

// appendOwn appends this node's part in its stored form: the sum in decimal, or the bits of
// the set without trailing zeros.
func (c *counter) appendOwn(b []byte) []byte {
	if c.own == nil {
		return strconv.AppendInt(b, c.mine, 10)
	}
	for _, w := range c.own {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	for len(b) > 1 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

// merge adds the part of another node and returns its sum, 0 if it is malformed.
func (c *counter) merge(value []byte) int64 {
	if c.all == nil {
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	for i, b := range value[:min(len(value), setWords*8)] {
		c.all[i>>3] |= uint64(b) << (i & 7 * 8)
	}
	return 0
}
