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

// A Count is one counter and what is to be done with it.
//
// A counter is a sum that grows, or a set of small numbers whose size counts
// (the minutes of a day in which something was done, say: a minute in which
// two nodes saw it is one).
type Count struct {
	Key [16]byte
	// Until is when the counter is forgotten. Window, if it is given, counts
	// what was added during the time of that length before now instead: the
	// sum of this window and the share of the one before that still lies in
	// it, as if that had come evenly.
	Until  time.Time
	Window time.Duration

	Add    int64 // to the sum; 0 only reads
	Set    bool  // the counter is a set
	Member int   // to be in it, 0 to 2047; -1 only reads

	// Most is what the sum may come to; 0: anything. An Add that would bring
	// it above is not made.
	Most int64

	// What comes back.
	Sum   int64         // with what was added, on all nodes
	Over  bool          // Add was not made: the sum would be above Most
	After time.Duration // when Over: how long until there is room again, all else being equal
	Known bool          // Sum holds what the other nodes have counted
}

const (
	shards = 64
	// maxCounters bounds the counters held, to some 20 MiB. When they are all
	// in use a new one is not counted: its Sum is 0, and its Count not Known.
	maxCounters = 100_000
	setWords    = 32
	sweepEvery  = 10 * time.Second
	// roomEvery is how often room is looked for in a full shard: that is to
	// look at all of it.
	roomEvery = 100 * time.Millisecond
)

// counters are the counters of this process.
type counters struct {
	shard     [shards]shard
	shared    bool // other nodes count too
	serial    atomic.Uint64
	held      atomic.Int64
	uncounted atomic.Int64
	said      int64        // of uncounted, at the last sweep; sweep's alone
	full      bool         // the log says so; sweep's alone
	log       *slog.Logger // of sweep
}

type shard struct {
	mu    sync.Mutex
	m     map[[16]byte]*counter
	dirty [][16]byte // whose counter is
	full  int64      // when room was last looked for in vain, Unix milliseconds
}

// A counter holds what this node has counted, which only this node knows, and
// what the others had counted when it was last exchanged. Every node writes
// its own number and never another's, so that a number which is sent twice,
// or late, or after Redis has lost everything, is right all the same.
type counter struct {
	mine, others int64
	exchanged    int64             // mine when it was last exchanged
	own, all     *[setWords]uint64 // of a set
	serial       uint64            // makes the name under which this is exchanged unique
	until        int64             // Unix milliseconds
	synced       int64             // when it was last exchanged, Unix nanoseconds
	pushing      *part             // exchanges under way, the last to begin first
	dirty        bool              // mine has changed since
	sent         bool              // there is a number of ours elsewhere
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

// at returns the counter of key, nil when there is no room for it. The shard
// is locked.
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

// room forgets counters that have had their time or, among some nodes, that
// the others hold. The shard is locked.
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

// sweep forgets counters whose time is up, and says when there was no room
// for others: once, until there is again.
func (cs *counters) sweep(now time.Time) {
	if n := cs.uncounted.Load(); n == cs.said {
		cs.full = false
	} else {
		if !cs.full {
			cs.log.Warn("no room for more counters of limits, quotas and clicks: what is new does not count, and what is held goes on counting", "counters", cs.held.Load(), "uncounted", n-cs.said)
		}
		cs.said, cs.full = n, true
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

// Keys returns the names of the counters that n stands on at a time.
func (n *Count) Keys(now time.Time) [][16]byte {
	this, before, _, _ := n.keys(now)
	if this == before {
		return [][16]byte{this}
	}
	return [][16]byte{this, before}
}

// touch says that what is here has to be sent. The shard is locked.
func (s *shard) touch(key [16]byte, c *counter) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, key)
	}
}

// keys returns the counters that n stands on: of a window this one and the
// one before, of anything else that one.
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

// take does what counts say, all or nothing, by what is known here.
func (cs *counters) take(now time.Time, counts []Count) {
	for i := range counts {
		if cs.takeOne(now, &counts[i]); counts[i].Over {
			cs.undo(now, counts[:i])
			for j := range counts[i+1:] { // the rest is only looked at
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
		last = float64(cs.look(now, before, n.Set))
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

// until works out when there is room for grows more, if nothing else comes.
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

// look returns what a counter holds, 0 for none.
func (cs *counters) look(now time.Time, key [16]byte, set bool) int64 {
	s := cs.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.m[key]; c != nil && c.until > now.UnixMilli() && set == (c.all != nil) {
		return c.sum()
	}
	return 0
}

// undo takes back what was added to sums. Members stay: what was done in a
// minute was done.
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

// appendOwn appends this node's part as it is kept elsewhere: the sum in
// decimal, or the set's bits without the zeros behind.
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

// merge takes in the part of another node and returns its sum, 0 for one that
// makes no sense.
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
