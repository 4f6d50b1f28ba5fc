package state

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"shuultuur/filter"
)

const (
	// exchange is how often what was counted here goes to Redis, and what the
	// others have counted comes back.
	exchange = 100 * time.Millisecond
	// stale is how old the others' numbers may be when a request is decided
	// by them; older ones are asked for first.
	stale = 2 * exchange
	// settled is when, after a window has ended, all nodes have told what they
	// counted in it.
	settled = time.Second
	// share is the part of what is left of a limit, as far as it knows, that a
	// node lets through without asking: a tenth.
	share = 10
	// pipeline bounds the counters of one exchange, and the verdicts.
	pipeline = 500
	// cacheFor is how long an answer of Redis about a verdict is kept here;
	// Redis says when it changes before. It begins with its own end.
	cacheFor = 10 * time.Minute
	// gather is how long the first of some verdicts waits for others, so that
	// they go to Redis together.
	gather = 10 * time.Millisecond
	// patient is how long work in the background waits for Redis.
	patient = 2 * time.Second
	// queued bounds the verdicts that wait for Redis. A full queue drops.
	queued = 4096
	// lookEvery is how often the versions are read, in case a message of the
	// bus was lost.
	lookEvery = 5 * time.Second
	// longest bounds a topic and a version, in bytes.
	longest = 512
)

// Fleet is a store that some nodes share in Redis. Each has a Memory besides:
// what it has learned itself is asked for there first, and when Redis is lost
// it is all there is.
//
// Keys in Redis, after the prefix: v:KEY is a verdict, c:KEY a counter (a hash:
// a field for each node), versions a hash of topics, changes the channel of
// the bus, learned the one where nodes tell the keys, 16 bytes each, of the
// verdicts that they have brought.
type Fleet struct {
	*Memory
	link    link
	node    string
	puts    chan put
	dropped atomic.Int64
	changes atomic.Int64
	changed func(topic, version string)

	mu   sync.Mutex // guards seen, and lets changed run once at a time
	seen map[string]string
}

// A put is a verdict on its way to Redis.
type put struct {
	key   [16]byte
	value []byte
	until time.Time // zero removes
}

func newFleet(r Redis, dir string, m *Memory, changed func(topic, version string), log *slog.Logger) (*Fleet, error) {
	o, err := r.Option(dir)
	if err != nil {
		m.Close()
		return nil, filter.Setting("redis", err)
	}
	prefix, wait := r.Prefix, r.Wait
	if prefix == "" {
		prefix = "shuultuur:"
	}
	if wait == 0 {
		wait = defaultWait
	}
	if changed == nil {
		changed = func(string, string) {}
	}
	f := &Fleet{
		Memory:  m,
		link:    link{option: o, prefix: prefix, wait: wait, log: log, gone: make(chan *conn, 1)},
		node:    strings.ToLower(rand.Text()[:10]),
		puts:    make(chan put, queued),
		changed: changed,
		seen:    map[string]string{},
	}
	m.counters.shared = true
	// A gateway that starts beside a Redis that works has it from its first
	// request on.
	if c, err := f.link.connect(context.Background()); err != nil {
		f.link.down(refusal(err))
	} else {
		f.link.up(c)
	}
	return f, nil
}

func (f *Fleet) verdict(key [16]byte) string {
	return f.link.prefix + "v:" + hex.EncodeToString(key[:])
}
func (f *Fleet) counter(key [16]byte) string {
	return f.link.prefix + "c:" + hex.EncodeToString(key[:])
}

// Get returns what this node or another has put under key. It asks Redis only
// for what may be there.
func (f *Fleet) Get(ctx context.Context, key [16]byte) ([]byte, bool) {
	if e, ok := f.cache.GetIfPresent(key); ok {
		return e.value, !e.gone
	}
	c := f.link.conn.Load()
	if c == nil {
		return nil, false
	}
	if k := c.known.Load(); k != nil && !k.has(key[:]) {
		return nil, false
	}
	if f.link.waiting.Add(1) > mostWaiting {
		f.link.waiting.Add(-1)
		return nil, false
	}
	defer f.link.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, f.link.wait)
	defer cancel()
	r := c.DoCache(ctx, c.B().Get().Key(f.verdict(key)).Cache().ToStaticTTL(), cacheFor)
	b, err := r.AsBytes()
	if !r.IsCacheHit() {
		f.link.trips.Add(1)
	}
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		f.link.failed.Store(0)
	default:
		f.link.late.Add(1)
		f.link.judge(ctx, c, err)
	}
	return fresh(b, time.Now())
}

// The form of a verdict in Redis: until when it is good in Unix milliseconds
// (8 bytes, big endian), then the verdict. The library keeps it for a while of
// its own.
func sealed(value []byte, until time.Time) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(value)), uint64(until.UnixMilli())), value...)
}

func fresh(b []byte, now time.Time) ([]byte, bool) {
	if len(b) < 8 || int64(binary.BigEndian.Uint64(b)) <= now.UnixMilli() {
		return nil, false
	}
	return b[8:], true
}

// Put keeps value here at once and brings it to Redis in the background.
func (f *Fleet) Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration) {
	if len(value) > f.most {
		ttl = 0
	}
	p := put{key: key}
	if ttl > 0 {
		f.Memory.Put(ctx, key, value, ttl)
		p.until = time.Now().Add(ttl)
		p.value = sealed(value, p.until)
	} else {
		f.cache.Set(key, entry{gone: true, ttl: time.Minute})
	}
	select {
	case f.puts <- p:
	default:
		f.dropped.Add(1)
	}
}

// Count adds to counters and reads them. It waits for Redis once, and only
// for counters that this node does not know yet, has not heard of for long, or
// that are near their most.
func (f *Fleet) Count(ctx context.Context, counts []Count) {
	now := time.Now()
	if !f.take(now, counts) {
		return
	}
	for again := false; ; again = true {
		keys := f.counters.unsure(now, counts)
		if len(keys) == 0 {
			return
		}
		err := f.trade(ctx, f.counters.pack(f.node, keys, false), f.link.ask)
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
			f.counters.check(now, counts)
			return
		}
		// Over by what was known before: there may be room after all, and
		// whoever takes the last of it tells the others before it counts.
		f.counters.take(now, counts)
	}
}

// CountHere adds to counters and reads them by what is known here. What the
// others have counted is asked for in the background.
func (f *Fleet) CountHere(counts []Count) {
	if now := time.Now(); f.take(now, counts) {
		f.counters.wonder(now, counts)
	}
}

// take counts by what is known here, and says whether there is a Redis that may
// know more.
func (f *Fleet) take(now time.Time, counts []Count) (more bool) {
	f.counters.take(now, counts)
	if f.link.conn.Load() != nil {
		return true
	}
	for i := range counts {
		counts[i].Known = false
	}
	return false
}

// wonder has those counters exchanged next time that have not been for long.
func (cs *counters) wonder(now time.Time, counts []Count) {
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

// unsure lists the counters whose numbers are not good enough to decide by.
func (cs *counters) unsure(now time.Time, counts []Count) (keys [][16]byte) {
	old := now.Add(-stale).UnixNano()
	for i := range counts {
		n := &counts[i]
		this, before, _, part := n.keys(now)
		s := cs.of(this)
		s.mu.Lock()
		c := s.m[this]
		if c != nil && (c.synced < old || c.near(n)) {
			keys = append(keys, this)
		}
		s.mu.Unlock()
		if part <= 0 {
			continue
		}
		// The one before changes no more when everybody has sent the last of it.
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

// near says whether this node has used up, since it last heard of the others,
// more than its share of what was left then. So all of them together come
// close to the most, the nearer the slower, but do not run over it.
func (c *counter) near(n *Count) bool {
	untold := c.mine - c.told
	return n.Most > 0 && n.Add > 0 && !n.Set && !n.Over && untold > (n.Most-n.Sum+untold)/share
}

// check looks again at counts that were taken, now that the others' numbers
// are here, and takes all back if one is over.
func (cs *counters) check(now time.Time, counts []Count) {
	over := -1
	for i := range counts {
		n := &counts[i]
		this, before, _, part := n.keys(now)
		last := 0.0
		if part > 0 {
			last = float64(cs.look(now, before, n.Set))
		}
		sum := cs.look(now, this, n.Set)
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
	key    [16]byte
	serial uint64
	told   int64
	field  string
	value  []byte // nil only reads
	until  time.Time
	high   int64 // the most of the others that an exchange has found which ended since this one began
	next   *part // another exchange of the counter that is under way
}

// trade sends this node's parts of counters and takes in the others'.
func (f *Fleet) trade(ctx context.Context, parts []part, ask func(context.Context, func(*conn) []rueidis.Completed) ([]rueidis.RedisResult, error)) error {
	rs, err := ask(ctx, func(c *conn) (commands []rueidis.Completed) {
		for i := range parts {
			p, key := &parts[i], f.counter(parts[i].key)
			if p.value != nil {
				commands = append(commands,
					c.B().Hset().Key(key).FieldValue().FieldValue(p.field, rueidis.BinaryString(p.value)).Build(),
					c.B().Pexpireat().Key(key).MillisecondsTimestamp(p.until.UnixMilli()).Build())
			}
			commands = append(commands, c.B().Hgetall().Key(key).Build())
		}
		return commands
	})
	at := 0
	for i := range parts {
		var all map[string]string
		if err == nil {
			if parts[i].value != nil {
				at += 2
			}
			all, err = rs[at].AsStrMap()
			at++
		}
		f.counters.unpack(&parts[i], all, err == nil)
	}
	return err
}

// pack makes ready what is to be sent of some counters: of all, or of those
// that have changed and are not being sent by somebody else.
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
			p := part{key: key, serial: c.serial, told: c.mine, high: math.MinInt64, until: time.UnixMilli(c.until), field: node + strconv.FormatUint(c.serial, 36)}
			if c.dirty || c.sent {
				p.value = c.appendOwn(nil)
				c.sent = true
			}
			c.dirty = false
			if c.pushing != nil && p.value != nil {
				s.touch(key, c) // which of the two arrives last nobody knows
			}
			p.next = c.pushing
			parts = append(parts, p) // there is room: they stay where they are
			c.pushing = &parts[len(parts)-1]
		}
		s.mu.Unlock()
	}
	return parts
}

// unpack takes in what came back.
func (cs *counters) unpack(p *part, all map[string]string, ok bool) {
	s := cs.of(p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[p.key]
	if c == nil || c.serial != p.serial {
		return
	}
	for at := &c.pushing; *at != nil; at = &(*at).next {
		if *at == p {
			*at = p.next
			break
		}
	}
	if !ok {
		if p.value != nil {
			s.touch(p.key, c)
		}
		return
	}
	var others int64
	for field, value := range all {
		if field == p.field {
			continue
		}
		if n, ok := c.merge(value); ok {
			others += n
		}
	}
	// Of exchanges at the same time nobody knows which has read last.
	for other := c.pushing; other != nil; other = other.next {
		other.high = max(other.high, others)
	}
	c.others = max(others, p.high)
	c.told = p.told
	c.synced = time.Now().UnixNano()
}

// flush exchanges what has changed here since the last time.
func (f *Fleet) flush(ctx context.Context) {
	var keys [][16]byte
	for i := range f.counters.shard {
		s := &f.counters.shard[i]
		s.mu.Lock()
		keys = append(keys, s.dirty...)
		s.dirty = s.dirty[:0]
		s.mu.Unlock()
		for len(keys) >= pipeline || i == shards-1 && len(keys) > 0 {
			n := min(len(keys), pipeline)
			if parts := f.counters.pack(f.node, keys[:n], true); len(parts) > 0 {
				f.trade(ctx, parts, f.send) //nolint:errcheck // the link knows, and what failed is still to be sent
			}
			keys = append(keys[:0], keys[n:]...)
		}
	}
}

// send sends commands in the background.
func (f *Fleet) send(ctx context.Context, build func(*conn) []rueidis.Completed) ([]rueidis.RedisResult, error) {
	c := f.link.conn.Load()
	if c == nil {
		return nil, errLost
	}
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	return f.link.send(ctx, c, build(c))
}

// Publish tells the other nodes which version of a topic is in use, those that
// are not there too, when they come. Neither may be empty or hold a space.
func (f *Fleet) Publish(ctx context.Context, topic, version string) error {
	if topic == "" || version == "" || strings.ContainsAny(topic+version, " \n") || len(topic)+len(version) > longest {
		return fmt.Errorf("%q, version %q, cannot be published: words without spaces, %d bytes at most", topic, version, longest)
	}
	f.mu.Lock()
	f.seen[topic] = version
	f.mu.Unlock()
	for try := 1; ; try++ {
		_, err := f.send(ctx, func(c *conn) []rueidis.Completed {
			return []rueidis.Completed{
				c.B().Hset().Key(f.link.prefix+"versions").FieldValue().FieldValue(topic, version).Build(),
				c.B().Publish().Channel(f.link.prefix + "changes").Message(f.node + " " + topic + " " + version).Build(),
			}
		})
		if err == nil {
			return nil
		}
		if try < proofs { // a connection may just have died
			select {
			case <-ctx.Done():
			case <-time.After(tryEvery):
				continue
			}
		}
		return fmt.Errorf("publishing version %q of %q: %w", version, topic, err)
	}
}

// hear takes in what another node has published.
func (f *Fleet) hear(topic, version string) {
	if topic == "" || version == "" || len(topic)+len(version) > longest {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.seen[topic]; f.seen[topic] == version || !known && len(f.seen) >= queued {
		return
	}
	f.seen[topic] = version
	f.changes.Add(1)
	f.changed(topic, version)
}

// read reads all versions.
func (f *Fleet) read(ctx context.Context) {
	rs, err := f.send(ctx, func(c *conn) []rueidis.Completed {
		return []rueidis.Completed{c.B().Hgetall().Key(f.link.prefix + "versions").Build()}
	})
	if err != nil {
		return // the link knows
	}
	all, err := rs[0].AsStrMap()
	if err != nil {
		return
	}
	for topic, version := range all {
		f.hear(topic, version)
	}
}

// write brings verdicts to Redis until ctx ends, and then what is left.
func (f *Fleet) write(ctx context.Context) {
	for {
		select {
		case p := <-f.puts:
			select {
			case <-time.After(gather):
			case <-ctx.Done():
			}
			f.bring(ctx, p)
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patient)
			defer cancel()
			for {
				select {
				case p := <-f.puts:
					f.bring(ctx, p)
				default:
					return
				}
			}
		}
	}
}

// bring brings p and what waits behind it to Redis, and tells all nodes. While
// Redis is lost it waits: what was learned meanwhile is for all when it is back.
func (f *Fleet) bring(ctx context.Context, p put) {
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
		// Who ends does not leave behind what could still be sent.
		_, err := f.send(context.WithoutCancel(ctx), func(c *conn) (commands []rueidis.Completed) {
			now := time.Now()
			for _, p := range batch {
				if ttl := p.until.Sub(now); ttl > 0 {
					commands = append(commands, c.B().Set().Key(f.verdict(p.key)).Value(rueidis.BinaryString(p.value)).Px(ttl).Build())
				} else {
					commands = append(commands, c.B().Del().Key(f.verdict(p.key)).Build())
				}
			}
			return commands
		})
		if err == nil {
			// Told when it is there: who begins to listen finds it or hears of it.
			err = f.tell(context.WithoutCancel(ctx), batch)
		}
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

// tell tells all nodes, this one too, which verdicts were brought.
func (f *Fleet) tell(ctx context.Context, batch []put) error {
	keys := make([]byte, 0, len(batch)*len(put{}.key))
	for i := range batch {
		if !batch[i].until.IsZero() {
			keys = append(keys, batch[i].key[:]...)
		}
	}
	_, err := f.send(ctx, func(c *conn) []rueidis.Completed {
		return []rueidis.Completed{c.B().Publish().Channel(f.link.prefix + "learned").Message(rueidis.BinaryString(keys)).Build()}
	})
	return err
}

// Run keeps the connection, exchanges counters, brings verdicts and hears
// changes until ctx ends; then it sends what is left.
func (f *Fleet) Run(ctx context.Context) error {
	var work sync.WaitGroup
	back := make(chan struct{}, 1)
	work.Go(func() { f.write(ctx) })
	work.Go(func() {
		f.link.run(ctx, func(ctx context.Context, c *conn) {
			work.Go(func() { f.listen(ctx, c) })
			work.Go(func() { f.know(ctx, c) })
			select {
			case back <- struct{}{}:
			default:
			}
		})
	})
	tick, sweep, look := time.NewTicker(exchange), time.NewTicker(sweepEvery), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer sweep.Stop()
	defer look.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-back: // Redis may have forgotten everything
			f.counters.again()
			f.read(ctx)
		case <-tick.C:
			if f.link.conn.Load() != nil {
				f.flush(ctx)
			}
		case now := <-sweep.C:
			f.counters.sweep(now)
		case <-look.C:
			f.read(ctx)
		}
	}
	work.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patient)
	defer cancel()
	f.flush(last)
	return nil
}

// again has everything that this node has counted sent anew.
func (cs *counters) again() {
	for i := range cs.shard {
		s := &cs.shard[i]
		s.mu.Lock()
		for key, c := range s.m {
			if c.sent {
				s.touch(key, c)
			}
		}
		s.mu.Unlock()
	}
}

// Stats returns the counters of the store, and how it is.
func (f *Fleet) Stats() Stats {
	s := f.Memory.Stats()
	s.Lost, s.Since = f.link.status()
	s.Losses, s.Trips, s.Late = f.link.losses.Load(), f.link.trips.Load(), f.link.late.Load()
	s.Dropped, s.Changes = f.dropped.Load(), f.changes.Load()
	return s
}

// Close lets go of the connection. Run has to be over.
func (f *Fleet) Close() error {
	f.link.end()
	return f.Memory.Close()
}
