// Package health finds out which addresses of a name work, so that answers omit those that do
// not.
//
// A server registers an address with [Checker.Watch] and reads its [Status]. [Checker.Run]
// keeps all checks in a heap by due time and runs a bounded number of probes at once.
//
// Results go to Redis, under the key and in the JSON of redins, so that one check serves all
// nodes: a node that finds a fresh result uses it, and a lease lets only one node probe. Other
// nodes learn of the result by keyspace events, or when their own check is due. Without Redis
// every node checks for itself.
package health

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/redis/keyspace"
	"shuultuur/lib/setting"
)

// Config sets how often and how many addresses to check.
type Config struct {
	// Interval is the time between two checks of an address; default 30s, minimum 1s. A random
	// delay of up to a tenth is added to spread them. With off nothing is checked, and all
	// addresses are answered.
	Interval setting.Duration `yaml:"interval,omitempty"`
	// Concurrent bounds the checks run at once, 1 to 1000; default 20.
	Concurrent setting.Count `yaml:"concurrent,omitempty"`
	// Insecure accepts any certificate in HTTPS checks.
	Insecure bool `yaml:"insecure,omitempty"`
}

func (c Config) validate() error {
	if every := c.Interval.Or(30 * time.Second); every != 0 && every < time.Second {
		return setting.At("interval", fmt.Errorf("%v is too short: write 1s or more", every))
	}
	if n := c.Concurrent.Or(20); n < 1 || n > 1000 {
		return setting.At("concurrent", fmt.Errorf("%v is not between 1 and 1000", c.Concurrent))
	}
	return nil
}

// A Protocol is a kind of check.
type Protocol string

const (
	HTTP  Protocol = "http"
	HTTPS Protocol = "https"
	TCP   Protocol = "tcp" // an addition to redins
	Ping  Protocol = "ping"
)

// A Check is one address of a name and how to check it. Watch replaces zero fields by
// defaults.
type Check struct {
	Host     string // fully qualified, lower case
	Addr     netip.Addr
	Protocol Protocol      // HTTP
	URI      string        // "/"
	Port     uint16        // that of the protocol
	Timeout  time.Duration // 1 s, at most 30 s
	// Up and Down are how many equal results in succession decide: default 3 and −3. Status
	// ranges from Down to Up.
	Up, Down int
	DomainID string // for redins' record in Redis
}

// complete fills in defaults and refuses invalid values.
func (c *Check) complete() error {
	switch c.Protocol {
	case "":
		c.Protocol = HTTP
	case "icmp":
		c.Protocol = Ping
	case HTTP, HTTPS, TCP, Ping:
	default:
		return fmt.Errorf("protocol %q is not http, https, tcp or ping", c.Protocol)
	}
	if c.Port == 0 {
		c.Port = map[Protocol]uint16{HTTP: 80, HTTPS: 443}[c.Protocol]
	}
	if c.Port == 0 && c.Protocol == TCP {
		return errors.New("a tcp check needs a port")
	}
	if c.URI == "" {
		c.URI = "/"
	}
	if c.URI[0] != '/' || strings.ContainsAny(c.URI, " \r\n\x00") {
		return fmt.Errorf("uri %q is not a path", c.URI)
	}
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	if c.Timeout < 0 || c.Timeout > 30*time.Second {
		return fmt.Errorf("timeout %v is not between 0 and 30 s", c.Timeout)
	}
	if c.Up == 0 {
		c.Up = 3
	}
	if c.Down == 0 {
		c.Down = -3
	}
	if c.Up < 0 || c.Down > 0 || c.Up > 1000 || c.Down < -1000 {
		return fmt.Errorf("up_count %d and down_count %d: the first counts up from 1, the second down from -1", c.Up, c.Down)
	}
	return nil
}

// A Status is the health of an address: 1 to Up after that many good results in succession, −1
// to Down after bad ones, 0 while unknown.
type Status struct {
	now atomic.Int32
	it  *item
}

// Load returns the status. A nil Status is always 0.
func (s *Status) Load() int32 {
	if s == nil {
		return 0
	}
	return s.now.Load()
}

// An item is a check in the heap, guarded by the Checker's lock.
type item struct {
	id      string // host:ip
	check   Check
	status  Status
	refs    int
	due     time.Time
	place   int // index in the heap, -1 when not in it
	running bool
	heard   bool      // Redis has a newer result
	last    time.Time // time of the last result; owned by the goroutine that runs the check
}

// Counts are counted since the start.
type Counts struct {
	Checks, Failed uint64 // probes of this node, and failed ones
	Shared         uint64 // results of other nodes
	Late           uint64 // checks that began more than an interval late
	RedisErrors    uint64
	Watched        int
}

// A Checker runs the checks.
type Checker struct {
	cfg      Config
	interval time.Duration // 0: no checks
	prefix   string
	suffix   string
	before   map[string]int32 // statuses from the previous checker
	node     string
	log      *slog.Logger
	probe    func(context.Context, *Check) error

	mu    sync.Mutex
	items map[string]*item
	queue queue
	wake  chan struct{}

	checks, failed, shared, late, redisErrors atomic.Uint64
}

// New makes a Checker. Keys in Redis are prefix + key + suffix. Addresses that previous knows
// start with its status; previous may be nil.
func New(cfg Config, prefix, suffix string, previous *Checker, log *slog.Logger) (*Checker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Checker{
		cfg: cfg, interval: cfg.Interval.Or(30 * time.Second), before: previous.statuses(), prefix: prefix, suffix: suffix, log: log,
		node:  fmt.Sprintf("%016x", rand.Uint64()),
		probe: newProber(cfg.Insecure).probe,
		items: map[string]*item{},
		wake:  make(chan struct{}, 1),
	}, nil
}

// statuses returns the status of each address.
func (c *Checker) statuses() map[string]int32 {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]int32, len(c.items))
	for id, it := range c.items {
		all[id] = it.status.now.Load()
	}
	return all
}

// Watch checks an address until [Checker.Drop]. The same name and address share one status;
// the last call decides how to check.
func (c *Checker) Watch(check Check) (*Status, error) {
	if err := check.complete(); err != nil || c.interval == 0 {
		return nil, err
	}
	check.Addr = check.Addr.Unmap()
	id := check.Host + ":" + check.Addr.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.items[id]
	if it == nil {
		it = &item{id: id, place: -1, due: time.Now().Add(rand.N(min(c.interval, 2*time.Second)))}
		it.status.it = it
		it.status.now.Store(c.before[id])
		delete(c.before, id)
		c.items[id] = it
	}
	it.check = check
	if it.refs++; !it.running && it.place < 0 {
		heap.Push(&c.queue, it)
		c.nudge()
	}
	return &it.status, nil
}

// Drop ends a Watch.
func (c *Checker) Drop(s *Status) {
	if s == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	it := s.it
	if it.refs--; it.refs > 0 {
		return
	}
	if it.place >= 0 {
		heap.Remove(&c.queue, it.place)
	}
	delete(c.items, it.id)
}

func (c *Checker) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Counts returns the counts since the start.
func (c *Checker) Counts() Counts {
	c.mu.Lock()
	watched := len(c.items)
	c.mu.Unlock()
	return Counts{c.checks.Load(), c.failed.Load(), c.shared.Load(), c.late.Load(), c.redisErrors.Load(), watched}
}

// Run runs checks as they become due, until ctx ends. client has the results of other nodes,
// in the database db; nil means that this node is alone.
func (c *Checker) Run(ctx context.Context, client *redis.Client, db int) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if client != nil {
		pattern := keyspace.Escape(c.prefix+"redins:healthcheck:") + "*" + keyspace.Escape(c.suffix)
		wg.Go(func() {
			keyspace.Watch(ctx, client, keyspace.Watcher{DB: db, Patterns: []string{pattern}, Changed: c.makeDue, Listening: func() {}, Lost: func(error) {}})
		})
	}
	work := make(chan *item)
	for range c.cfg.Concurrent.Or(20) {
		wg.Go(func() {
			for it := range work {
				c.step(ctx, client, it)
			}
		})
	}
	defer close(work)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-c.wake:
		}
		for {
			it, wait := c.next()
			if it == nil {
				timer.Reset(wait)
				break
			}
			select {
			case work <- it:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// next takes a due item from the heap, or returns how long to wait.
func (c *Checker) next() (*item, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, time.Hour
	}
	it := c.queue[0]
	if wait := time.Until(it.due); wait > 0 {
		return nil, wait
	} else if wait < -c.interval {
		c.late.Add(1)
	}
	heap.Pop(&c.queue)
	it.running = true
	return it, 0
}

// makeDue makes a check due when Redis has a new result for it.
func (c *Checker) makeDue(key string) {
	id, ok := strings.CutPrefix(key, c.prefix+"redins:healthcheck:")
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	it := c.items[strings.TrimSuffix(id, c.suffix)]
	if it == nil {
		return
	}
	it.heard = true
	if it.running {
		return // it may have looked already: step makes it look again
	}
	it.due = time.Now()
	if it.place >= 0 {
		heap.Fix(&c.queue, it.place)
	}
	c.nudge()
}

// step brings an item up to date: with a fresh result of another node, or by a probe if no
// other node is probing.
func (c *Checker) step(ctx context.Context, client *redis.Client, it *item) {
	c.mu.Lock()
	check, heard := it.check, it.heard
	it.heard = false
	c.mu.Unlock()
	again := c.interval
	switch rec, state := c.readResult(ctx, client, it); {
	case state == fresh:
		if !rec.LastCheck.Equal(it.last) { // not the one this node has stored
			c.useResult(it, &check, rec)
		}
		again = max(0, time.Until(rec.LastCheck.Add(c.interval)))
	case heard && state == absent: // it expired or was deleted
		again = c.interval / 2
	case client == nil || state == unreachable:
		c.try(ctx, it, &check)
	default:
		if !c.lease(ctx, client, it, &check) {
			again = min(check.Timeout, c.interval/4)
			break
		}
		// Another node may have finished between the look and the lease.
		if rec, state := c.readResult(ctx, client, it); state == fresh {
			c.useResult(it, &check, rec)
		} else {
			if state == stale {
				c.useResult(it, &check, rec) // continue from the others' count
			}
			c.try(ctx, it, &check)
			c.store(ctx, client, it, &check)
		}
		c.release(ctx, client, it)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	it.running = false
	if it.heard {
		again = 0
	}
	if it.refs > 0 {
		it.due = time.Now().Add(again + rand.N(max(again/10, time.Millisecond)))
		if it.place < 0 {
			heap.Push(&c.queue, it)
		}
		c.nudge()
	}
}

// try probes and counts the result.
func (c *Checker) try(ctx context.Context, it *item, check *Check) {
	limit, cancel := context.WithTimeout(ctx, check.Timeout)
	err := c.probe(limit, check)
	cancel()
	if ctx.Err() != nil {
		return
	}
	c.checks.Add(1)
	now := it.status.now.Load()
	if err == nil {
		now = min(max(now, 0)+1, int32(check.Up))
	} else {
		c.failed.Add(1)
		now = max(min(now, 0)-1, int32(check.Down))
	}
	c.set(it, check, now, time.Now().Round(0), err)
}

func (c *Checker) set(it *item, check *Check, now int32, at time.Time, err error) {
	it.last = at
	if it.status.now.Swap(now) == now {
		return
	}
	switch {
	case now == int32(check.Down):
		c.log.Warn("address is down", "host", check.Host, "ip", check.Addr, "protocol", check.Protocol, "error", err)
	case now == int32(check.Up):
		c.log.Info("address is up", "host", check.Host, "ip", check.Addr, "protocol", check.Protocol)
	}
}

// A record is redins' item for a check in Redis.
type record struct {
	Protocol   string    `json:"protocol"`
	URI        string    `json:"uri"`
	Port       int       `json:"port"`
	Status     int       `json:"status"`
	LastCheck  time.Time `json:"lastcheck"`
	Timeout    int       `json:"timeout"` // milliseconds
	UpCount    int       `json:"up_count"`
	DownCount  int       `json:"down_count"`
	Enable     bool      `json:"enable"`
	DomainUUID string    `json:"domain_uuid"`
	Host       string    `json:"host,omitempty"`
	IP         string    `json:"ip,omitempty"`
}

// A storedResult is the result of a check, as found in Redis.
type storedResult int

const (
	unreachable storedResult = iota
	absent
	stale
	fresh
)

// redisTimeout bounds each command, so that a hung server does not delay the checks.
const redisTimeout = time.Second

func (c *Checker) key(it *item) string {
	return c.prefix + "redins:healthcheck:" + it.id + c.suffix
}

// leaseKey has our own name, because redins lists its prefix.
func (c *Checker) leaseKey(it *item) string {
	return c.prefix + "shuultuur:healthcheck-lease:" + it.id + c.suffix
}

func (c *Checker) readResult(ctx context.Context, client *redis.Client, it *item) (record, storedResult) {
	var rec record
	if client == nil {
		return rec, unreachable
	}
	r, err := do(ctx, client, "GET", c.key(it))
	var b []byte
	if err == nil {
		b, err = r.Bytes()
	}
	switch {
	case err == nil && b == nil:
		return rec, absent
	case err != nil:
		c.redisErrors.Add(1)
		return rec, unreachable
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return rec, absent // not a result: it is overwritten
	}
	age := time.Since(rec.LastCheck)
	if age > c.interval*9/10 || age < -c.interval { // a clock that is ahead must not stop checks
		return rec, stale
	}
	return rec, fresh
}

// useResult uses the result of another node.
func (c *Checker) useResult(it *item, check *Check, rec record) {
	c.shared.Add(1)
	var err error
	if rec.Status < 0 {
		err = errors.New("found by another node")
	}
	c.set(it, check, int32(min(max(rec.Status, check.Down), check.Up)), rec.LastCheck, err)
}

// lease reports whether this node may probe. It may if Redis cannot be reached.
func (c *Checker) lease(ctx context.Context, client *redis.Client, it *item, check *Check) bool {
	r, err := do(ctx, client, "SET", c.leaseKey(it), c.node, "NX", "PX", milliseconds(check.Timeout+4*redisTimeout))
	if err != nil {
		c.redisErrors.Add(1)
		return true
	}
	return !r.Null()
}

// release gives up the lease if this node still has it.
func (c *Checker) release(ctx context.Context, client *redis.Client, it *item) {
	script := "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
	if _, err := do(context.WithoutCancel(ctx), client, "EVAL", script, "1", c.leaseKey(it), c.node); err != nil {
		c.redisErrors.Add(1) // it expires
	}
}

// store shares a result for three intervals; the next check renews it.
func (c *Checker) store(ctx context.Context, client *redis.Client, it *item, check *Check) {
	b, err := json.Marshal(record{
		Protocol: string(check.Protocol), URI: check.URI, Port: int(check.Port),
		Status: int(it.status.now.Load()), LastCheck: it.last.UTC(), Timeout: int(check.Timeout.Milliseconds()),
		UpCount: check.Up, DownCount: check.Down, Enable: true, DomainUUID: check.DomainID,
		Host: check.Host, IP: check.Addr.String(),
	})
	if err == nil {
		_, err = do(ctx, client, "SET", c.key(it), string(b), "PX", milliseconds(3*c.interval))
	}
	if err != nil {
		c.redisErrors.Add(1)
	}
}

// do executes one command.
func do(ctx context.Context, client *redis.Client, words ...string) (redis.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	var b redis.Batch
	b.Add(words...)
	if err := client.Do(ctx, &b); err != nil {
		return redis.Reply{}, err
	}
	return b.Reply(0), nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// queue is a heap of items, ordered by due time.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i]; q[i].place, q[j].place = i, j }
func (q *queue) Push(x any)        { it := x.(*item); it.place = len(*q); *q = append(*q, it) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	it := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	it.place = -1
	return it
}
