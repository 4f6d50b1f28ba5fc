package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/queue"
	"shuultuur/lib/redis"
)

const (
	// exchange is the interval at which this node sends its counts to Redis and fetches those
	// of the other nodes.
	exchange = 100 * time.Millisecond
	// stale is how old the others' numbers may be when they decide about a request. Older ones
	// are fetched first.
	stale = 2 * exchange
	// settled is how long after the end of a window all nodes have sent their counts of it.
	settled = time.Second
	// tenth: a node lets through one tenth of the known remainder of a limit
	// without asking.
	tenth = 10
	// pipeline bounds the counters, or verdicts, of one exchange.
	pipeline = 500
	// keepFor bounds how long a verdict of another node is kept here. Redis reports earlier
	// changes.
	keepFor = 10 * time.Minute
	// gather is how long a verdict waits for others, so that they go to Redis together.
	gather = 10 * time.Millisecond
	// backgroundWait is how long background work waits for Redis.
	backgroundWait = 2 * time.Second
	// queued bounds the verdicts that wait for Redis. When the queue is full, new ones are
	// dropped and counted.
	queued = 4096
	// verdicts is the prefix of their keys, after the prefix from the settings.
	verdicts = "v:"
	// lookEvery is how often a node compares its number of instructions with Redis, in case it
	// missed a message.
	lookEvery = 5 * time.Second
	// wholeEvery is after how many such looks it compares them one by one: an instruction that
	// replaces another does not change their number.
	wholeEvery = 120
)

// A Fleet is a store that several nodes share in Redis. Each node also has a Memory of the
// values that it has learned itself and, for a while, of those that the others have. While
// Redis is lost, the node works from its Memory.
//
// Keys in Redis, after the prefix: v:KEY is a verdict, c:KEY a counter (a hash with a field
// for each node), instructions a hash of them. Nodes announce new instructions on the channel
// changes, and on learned the keys (16 bytes each) of verdicts they have stored.
type Fleet struct {
	own     *Memory
	link    link
	node    string
	epoch   atomic.Uint32 // advances when verdicts of other nodes may have changed unnoticed; never 0
	puts    chan put
	dropped atomic.Int64
	meet    chan struct{} // requests a comparison of instructions with Redis
	arrived chan struct{} // the inbox is not empty

	mu    sync.Mutex
	inbox []Instruction // guarded by mu: published by other nodes
}

// A put is a verdict on its way to Redis.
type put struct {
	key   [16]byte
	value string    // the stored form, see sealed
	until time.Time // zero means remove
}

func newFleet(r Redis, m *Memory, log *slog.Logger) *Fleet {
	if r.Prefix == "" {
		r.Prefix = defaultPrefix
	}
	f := &Fleet{
		own:     m,
		link:    link{config: r.Config, wait: r.Wait.Or(defaultWait), log: log, lost: make(chan *conn, 1)},
		node:    m.Instructions.node,
		puts:    make(chan put, queued),
		meet:    make(chan struct{}, 1),
		arrived: make(chan struct{}, 1),
	}
	f.epoch.Store(1)
	f.link.invalid = f.invalid
	m.counters.shared = true
	// A gateway that starts with a working Redis uses it from the first request.
	if c, err := f.link.connect(context.Background()); err != nil {
		f.link.setDown(refusal(err))
	} else {
		f.link.setUp(c)
	}
	return f
}

func (f *Fleet) verdict(key [16]byte) string {
	return f.link.config.Prefix + verdicts + hex.EncodeToString(key[:])
}
func (f *Fleet) counter(key [16]byte) string {
	return f.link.config.Prefix + "c:" + hex.EncodeToString(key[:])
}

// Get returns the value that this or another node has put under key. It asks Redis only for
// keys that may exist there.
func (f *Fleet) Get(ctx context.Context, key [16]byte) ([]byte, bool) {
	if e := f.own.get(key); e != nil && (e.epoch == 0 || e.epoch == f.epoch.Load()) {
		return e.value, !e.gone
	}
	c := f.link.conn.Load()
	if c == nil {
		return nil, false
	}
	if k := c.stored.Load(); k != nil && !k.has(key[:]) {
		return nil, false
	}
	return f.ask(ctx, key)
}

// ask asks Redis for a verdict.
func (f *Fleet) ask(ctx context.Context, key [16]byte) (value []byte, ok bool) {
	b := f.link.batch()
	b.AddTracked("GET", f.verdict(key))
	b.Then = func(b *redis.Batch) { value, ok = f.learn(key, b.Reply(0)) }
	if err := f.link.ask(ctx, b); err != nil {
		return nil, false
	}
	f.link.free(b)
	return value, ok
}

// learn keeps the verdict that Redis has under key. Redis tracks the key from then on. The
// goroutine that reads replies calls learn, and invalid when the verdict changes.
func (f *Fleet) learn(key [16]byte, r redis.Reply) (value []byte, ok bool) {
	sealed, err := r.Bytes()
	if err != nil {
		return nil, false
	}
	now := time.Now()
	e := &entry{gone: true, until: now.Add(keepFor), epoch: f.epoch.Load()}
	if value, left := unsealed(sealed, now); left > 0 && len(value) <= f.own.most {
		e = &entry{value: bytes.Clone(value), until: now.Add(min(left, keepFor)), epoch: e.epoch}
	}
	f.own.cache.Do(at(key), func(q *queue.Queue[*entry]) {
		if old, ok := q.Peek(at(key)); ok && old.epoch == 0 && now.Before(old.until) {
			return // this node has put its own in the meantime
		}
		q.Put(at(key), e, e.size())
	})
	return e.value, !e.gone
}

// invalid removes a changed verdict of another node; nil removes all of them.
func (f *Fleet) invalid(name []byte) {
	if name == nil {
		if f.epoch.Add(1) == 0 {
			f.epoch.Add(1)
		}
		return
	}
	var key [16]byte
	prefix := f.link.config.Prefix + verdicts
	if len(name) != len(prefix)+2*len(key) {
		return
	}
	if _, err := hex.Decode(key[:], name[len(prefix):]); err != nil {
		return
	}
	f.own.cache.Do(at(key), func(q *queue.Queue[*entry]) {
		if old, ok := q.Peek(at(key)); ok && old.epoch != 0 {
			q.Remove(at(key))
		}
	})
}

// sealed is the form of a verdict in Redis: its expiry in Unix milliseconds (8 bytes, big
// endian), then the verdict.
func sealed(value []byte, until time.Time) string {
	var head [8]byte
	binary.BigEndian.PutUint64(head[:], uint64(until.UnixMilli()))
	var b strings.Builder
	b.Grow(len(head) + len(value))
	b.Write(head[:])
	b.Write(value)
	return b.String()
}

// unsealed returns a verdict and its remaining life, 0 for none.
func unsealed(b []byte, now time.Time) (value []byte, left time.Duration) {
	if len(b) < 8 {
		return nil, 0
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	return b[8:], max(until.Sub(now), 0)
}

// Put keeps value here at once and stores it in Redis in the background.
func (f *Fleet) Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration) {
	if len(value) > f.own.most {
		ttl = 0
	}
	p := put{key: key}
	if ttl > 0 {
		f.own.Put(ctx, key, value, ttl)
		p.until = time.Now().Add(ttl)
		p.value = sealed(value, p.until)
	} else {
		f.own.set(key, &entry{gone: true, until: time.Now().Add(time.Minute)})
	}
	select {
	case f.puts <- p:
	default:
		f.dropped.Add(1)
	}
}

// Count adds to counters and reads them. It waits for Redis at most once, and only for
// counters that are new to this node, stale, or near their limit.
func (f *Fleet) Count(ctx context.Context, counts []Count) {
	now := time.Now()
	if !f.take(now, counts) {
		return
	}
	for again := false; ; again = true {
		keys := f.own.counters.staleKeys(now, counts)
		if len(keys) == 0 {
			return
		}
		err := f.exchangeParts(ctx, f.own.counters.pack(f.node, keys, false), f.link.ask)
		over := false
		for i := range counts {
			n := &counts[i]
			n.Known = n.Known && err == nil
			over = over || n.Over
		}
		switch {
		case err != nil || over && again:
			return
		case !over:
			f.own.counters.check(now, counts)
			return
		}
		// The limit seemed exceeded by old numbers, so try again with the new ones.
		f.own.counters.take(now, counts)
	}
}

// Forget removes counters here and in Redis.
func (f *Fleet) Forget(ctx context.Context, keys ...[16]byte) error {
	f.own.counters.forget(keys)
	if len(keys) == 0 || f.link.conn.Load() == nil {
		return nil // they expire in Redis
	}
	var b redis.Batch
	for _, k := range keys {
		b.Add("DEL", f.counter(k))
	}
	return f.link.background(ctx, &b)
}

// CountHere adds to counters and reads them by the sums that this node knows. It has the
// others' counts fetched in the background.
func (f *Fleet) CountHere(counts []Count) {
	if now := time.Now(); f.take(now, counts) {
		f.own.counters.scheduleStale(now, counts)
	}
}

// take carries out counts by the sums that this node knows. more is true when Redis
// may know more.
func (f *Fleet) take(now time.Time, counts []Count) (more bool) {
	f.own.counters.take(now, counts)
	if f.link.conn.Load() != nil {
		return true
	}
	for i := range counts {
		counts[i].Known = false
	}
	return false
}

// scheduleStale schedules stale counters for the next exchange.
func (cs *counters) scheduleStale(now time.Time, counts []Count) {
	old := now.Add(-stale).UnixNano()
	for i := range counts {
		this, _, _, _ := counts[i].keys(now)
		s := cs.of(this)
		s.mu.Lock()
		if c := s.m[this]; c != nil && c.synced < old {
			s.touch(this, c)
		}
		s.mu.Unlock()
	}
}

// staleKeys lists the counters whose numbers are too old to decide by.
func (cs *counters) staleKeys(now time.Time, counts []Count) (keys [][16]byte) {
	old := now.Add(-stale).UnixNano()
	for i := range counts {
		n := &counts[i]
		this, before, _, part := n.keys(now)
		s := cs.of(this)
		s.mu.Lock()
		c := s.m[this]
		if c != nil && (c.synced < old || c.nearLimit(n)) {
			keys = append(keys, this)
		}
		s.mu.Unlock()
		if part <= 0 {
			continue
		}
		// The previous window is final once every node has sent the rest of it.
		s = cs.of(before)
		end := now.Truncate(0).Add(-time.Duration((1 - part) * float64(n.Window)))
		s.mu.Lock()
		c = s.m[before]
		if c == nil {
			c = cs.at(s, before, n.Set, end.Add(n.Window).UnixMilli(), now.UnixMilli())
		}
		if c != nil && c.synced < old && c.synced < end.Add(settled).UnixNano() {
			keys = append(keys, before)
		}
		s.mu.Unlock()
	}
	return keys
}

// nearLimit reports whether this node has used more than its share of the remainder at the last
// exchange. So the fleet approaches the limit ever more slowly and does not exceed it.
func (c *counter) nearLimit(n *Count) bool {
	unshared := c.mine - c.exchanged
	return n.Most > 0 && n.Add > 0 && !n.Set && !n.Over && unshared > (n.Most-n.Sum+unshared)/tenth
}

// check repeats the decision with the others' new numbers, and undoes all counts if one
// exceeds its limit.
func (cs *counters) check(now time.Time, counts []Count) {
	over := -1
	for i := range counts {
		n := &counts[i]
		this, before, _, part := n.keys(now)
		last := 0.0
		if part > 0 {
			last = float64(cs.value(now, before, n.Set))
		}
		sum := cs.value(now, this, n.Set)
		n.Sum = sum + int64(last*part)
		if over < 0 && n.Most > 0 && n.Add > 0 && !n.Set && n.Sum > n.Most {
			over = i
			n.After = n.until(now, float64(sum-n.Add), last, float64(n.Add))
		}
	}
	if over < 0 {
		return
	}
	cs.undo(now, counts)
	counts[over].Over = true
}

// A part is this node's part of a counter, on its way to Redis.
type part struct {
	key       [16]byte
	serial    uint64
	exchanged int64
	field     string
	value     string // "" only reads
	until     time.Time
	high      int64 // the highest sum of the others in exchanges that ended after this one began
	next      *part // another exchange of the same counter in progress
}

// exchangeParts sends this node's parts of counters and merges those of the others. ask executes the
// commands.
func (f *Fleet) exchangeParts(ctx context.Context, parts []part, ask func(context.Context, *redis.Batch) error) error {
	b := f.link.batch()
	for i := range parts {
		p, key := &parts[i], f.counter(parts[i].key)
		if p.value != "" {
			b.Add("HSET", key, p.field, p.value)
			b.Add("PEXPIREAT", key, strconv.FormatInt(p.until.UnixMilli(), 10))
		}
		b.Add("HGETALL", key)
	}
	err := ask(ctx, b)
	at := 0
	for i := range parts {
		var all func(func(field, value []byte)) error
		if err == nil {
			if parts[i].value != "" {
				at += 2
			}
			all = b.Reply(at).EachPair
			at++
		}
		err = f.own.counters.unpack(&parts[i], all, err)
	}
	if err == nil {
		f.link.free(b)
	}
	return err
}

// pack prepares counters for an exchange: all of them, or those that have changed and are not
// being sent already.
func (cs *counters) pack(node string, keys [][16]byte, changed bool) []part {
	parts := make([]part, 0, len(keys))
	for _, key := range keys {
		s := cs.of(key)
		s.mu.Lock()
		c := s.m[key]
		switch {
		case c == nil || changed && !c.dirty:
		case changed && c.pushing != nil:
			s.dirty = append(s.dirty, key) // next time
		default:
			p := part{key: key, serial: c.serial, exchanged: c.mine, high: math.MinInt64, until: time.UnixMilli(c.until), field: node + strconv.FormatUint(c.serial, 36)}
			if c.dirty || c.sent {
				p.value = string(c.appendOwn(nil))
				c.sent = true
			}
			c.dirty = false
			if c.pushing != nil && p.value != "" {
				s.touch(key, c) // which of the two arrives last is undefined
			}
			p.next = c.pushing
			parts = append(parts, p) // there is room: they stay in place
			c.pushing = &parts[len(parts)-1]
		}
		s.mu.Unlock()
	}
	return parts
}

// unpack merges the parts of all nodes, or handles the error of the exchange.
func (cs *counters) unpack(p *part, all func(take func(field, value []byte)) error, err error) error {
	s := cs.of(p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[p.key]
	if c == nil || c.serial != p.serial {
		return err
	}
	for at := &c.pushing; *at != nil; at = &(*at).next {
		if *at == p {
			*at = p.next
			break
		}
	}
	var others int64
	if err == nil {
		err = all(func(field, value []byte) {
			if string(field) != p.field {
				others = addBounded(others, c.merge(value))
			}
		})
	}
	if err != nil {
		if p.value != "" {
			s.touch(p.key, c)
		}
		return err
	}
	// It is unknown which of several concurrent exchanges read last.
	for other := c.pushing; other != nil; other = other.next {
		other.high = max(other.high, others)
	}
	c.others = max(others, p.high)
	c.exchanged = p.exchanged
	c.synced = time.Now().UnixNano()
	return nil
}

// addBounded adds without overflow, because Redis may hold any number.
func addBounded(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// flush exchanges the counters that have changed.
func (f *Fleet) flush(ctx context.Context) {
	var keys [][16]byte
	for i := range f.own.counters.shard {
		s := &f.own.counters.shard[i]
		s.mu.Lock()
		keys = append(keys, s.dirty...)
		s.dirty = s.dirty[:0]
		s.mu.Unlock()
		for len(keys) >= pipeline || i == shards-1 && len(keys) > 0 {
			n := min(len(keys), pipeline)
			if parts := f.own.counters.pack(f.node, keys[:n], true); len(parts) > 0 {
				f.exchangeParts(ctx, parts, f.link.background) //nolint:errcheck // the link notes it, and the counters stay marked to be sent
			}
			keys = append(keys[:0], keys[n:]...)
		}
	}
}

// write stores verdicts in Redis until ctx ends, and then the rest of the queue.
func (f *Fleet) write(ctx context.Context) {
	for {
		select {
		case p := <-f.puts:
			select {
			case <-time.After(gather):
			case <-ctx.Done():
			}
			f.storeQueued(ctx, p)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundWait)
			defer cancel()
			for {
				select {
				case p := <-f.puts:
					f.storeQueued(ctx, p)
				default:
					return
				}
			}
		}
	}
}

// storeQueued stores p and the verdicts queued after it in Redis, and announces them. While Redis
// is lost it waits, so that the fleet gets the values learned in the meantime.
func (f *Fleet) storeQueued(ctx context.Context, p put) {
	batch := []put{p}
	for more := true; more && len(batch) < pipeline; {
		select {
		case p := <-f.puts:
			batch = append(batch, p)
		default:
			more = false
		}
	}
	for {
		// On shutdown, still send as much as possible.
		err := f.store(context.WithoutCancel(ctx), batch)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			f.dropped.Add(int64(len(batch)))
			return
		case <-time.After(tryEvery):
		}
	}
}

// store stores verdicts and then announces them to all nodes, including this one. So a node
// that begins to listen either finds a verdict or hears of it.
func (f *Fleet) store(ctx context.Context, batch []put) error {
	now := time.Now()
	b := f.link.batch()
	for i := range batch {
		p := &batch[i]
		if ttl := p.until.Sub(now); ttl > 0 {
			b.Add("SET", f.verdict(p.key), p.value, "PX", strconv.FormatInt(max(ttl.Milliseconds(), 1), 10))
		} else {
			b.Add("DEL", f.verdict(p.key))
		}
	}
	if err := f.link.background(ctx, b); err != nil {
		return err
	}
	keys := make([]byte, 0, len(batch)*len(put{}.key))
	for i := range batch {
		if !batch[i].until.IsZero() {
			keys = append(keys, batch[i].key[:]...)
		}
	}
	b.Reset()
	b.Add("PUBLISH", f.link.config.Prefix+"learned", string(keys))
	err := f.link.background(ctx, b)
	if err == nil {
		f.link.free(b)
	}
	return err
}

// Run maintains the connection, exchanges counters, stores verdicts and receives changes until
// ctx ends; then it sends the rest.
func (f *Fleet) Run(ctx context.Context) error {
	var work sync.WaitGroup
	back := make(chan struct{}, 1)
	work.Go(func() { f.write(ctx) })
	work.Go(func() { f.replicate(ctx) })
	work.Go(func() {
		f.link.run(ctx, func(ctx context.Context, c *conn) {
			work.Go(func() { f.listen(ctx, c) })
			work.Go(func() { f.fill(ctx, c) })
			select {
			case back <- struct{}{}:
			default:
			}
		})
	})
	tick, sweep := time.NewTicker(exchange), time.NewTicker(sweepEvery)
	defer tick.Stop()
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-back: // Redis may have forgotten everything
			f.own.counters.resendAll()
			nudge(f.meet)
		case <-tick.C:
			if f.link.conn.Load() != nil {
				f.flush(ctx)
			}
		case <-sweep.C:
			f.own.counters.sweep(f.own.certain())
		}
	}
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundWait)
	defer cancel()
	f.flush(last)
	f.publishAll(last)
	return nil
}

// resendAll marks all that this node has counted to be sent again, and what it knows of sets: nodes
// that have ended cannot send their part.
func (cs *counters) resendAll() {
	for i := range cs.shard {
		s := &cs.shard[i]
		s.mu.Lock()
		for key, c := range s.m {
			if c.all != nil {
				*c.own = *c.all
			}
			if c.sent || c.all != nil {
				s.touch(key, c)
			}
		}
		s.mu.Unlock()
	}
}

// Stats returns the metrics and the condition of the store.
func (f *Fleet) Stats() Stats {
	s := f.own.Stats()
	s.Lost, s.Since = f.link.status()
	s.Losses, s.Trips, s.Late, s.Replaced = f.link.losses.Load(), f.link.trips.Load(), f.link.late.Load(), f.link.replaced.Load()
	s.Dropped = f.dropped.Load()
	return s
}

// Issue is that of [Instructions]; Run exchanges them with the other nodes.
func (f *Fleet) Issue(all ...Instruction) error { return f.own.Issue(all...) }

// Erase is that of [Instructions].
func (f *Fleet) Erase(match func(*Instruction) bool, dry bool) (int, error) {
	return f.own.Erase(match, dry)
}

// InForce is that of [Instructions].
func (f *Fleet) InForce(topic string) []Instruction { return f.own.InForce(topic) }

// Follow is that of [Instructions].
func (f *Fleet) Follow(ctx context.Context, do func(ctx context.Context, all []Instruction) error) {
	f.own.Follow(ctx, do)
}

// Problems is that of [Instructions].
func (f *Fleet) Problems() []string { return f.own.Problems() }

// HandOver is that of [Memory].
func (f *Fleet) HandOver() error { return f.own.HandOver() }

// Close closes the connection. Run must have returned.
func (f *Fleet) Close() error {
	f.link.end()
	return f.own.Close()
}
