package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/lib/redis"
)

const (
	// maxFailures is how many successive calls may fail before Redis counts as lost.
	maxFailures = 5
	// tryEvery is how often a lost Redis is tried.
	tryEvery = 500 * time.Millisecond
	// proofs is how many successive calls must succeed in time before a lost Redis is used
	// again.
	proofs = 3
	// maxWaiting bounds the requests that wait for Redis at once.
	maxWaiting = 512
)

// A link is the connection to Redis, with a circuit breaker: while Redis is lost, no request
// waits for it, and one goroutine tries to connect.
type link struct {
	config   redis.Config
	invalid  func(key []byte) // see redis.Options
	wait     time.Duration    // for one reply
	log      *slog.Logger
	conn     atomic.Pointer[conn] // nil while lost
	lost     chan *conn           // the connection that was just lost
	failed   atomic.Int32         // failed calls in succession
	waiting  atomic.Int64
	trips    atomic.Int64
	late     atomic.Int64
	losses   atomic.Int64
	replaced atomic.Int64
	batches  sync.Pool // of *redis.Batch

	mu    sync.Mutex
	why   string    // guarded by mu
	since time.Time // guarded by mu
}

// A conn is one client of Redis. It is closed when it fails.
type conn struct {
	*redis.Client
	listening chan struct{}             // closed once it receives announcements
	filling   atomic.Pointer[keyFilter] // keys announced since; nil while it does not listen
	stored    atomic.Pointer[keyFilter] // all verdicts in Redis; nil while unknown
}

var (
	errLost = errors.New("Redis is lost")
	errBusy = errors.New("too many requests wait for Redis")
)

// batch returns an empty batch. Return it with free, unless an error means that replies may
// still arrive.
func (l *link) batch() *redis.Batch {
	if b, ok := l.batches.Get().(*redis.Batch); ok {
		b.Reset()
		return b
	}
	return new(redis.Batch)
}

func (l *link) free(b *redis.Batch) { l.batches.Put(b) }

// connect makes a client and verifies that Redis works, including writes.
func (l *link) connect(ctx context.Context) (*conn, error) {
	c, err := redis.Connect(ctx, l.config, redis.Options{Invalid: l.invalid})
	if err != nil {
		return nil, err
	}
	for range proofs {
		if err = l.prove(ctx, c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return &conn{Client: c, listening: make(chan struct{}, 1)}, nil
}

func (l *link) prove(ctx context.Context, c *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	var b redis.Batch
	b.Add("SET", l.config.Prefix+"probe", "", "EX", "60")
	return c.Do(ctx, &b)
}

// setUp starts to use c.
func (l *link) setUp(c *conn) {
	l.failed.Store(0)
	l.mu.Lock()
	again := l.why != ""
	down := time.Since(l.since)
	l.why = ""
	l.mu.Unlock()
	l.conn.Store(c)
	if again {
		l.log.Info("Redis is back; what was counted meanwhile is added", "after", down.Round(time.Millisecond))
	}
}

// drop stops the use of c. It is logged once, however many callers notice.
func (l *link) drop(c *conn, why error) {
	if !l.conn.CompareAndSwap(c, nil) {
		return
	}
	l.setDown(why)
	l.lost <- c // Run receives it
}

func (l *link) setDown(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		l.losses.Add(1)
		l.since = time.Now()
		l.log.Warn("Redis is lost; this node continues with what it knows", "error", why)
	}
	l.why = why.Error()
}

// status returns why and since when Redis is lost.
func (l *link) status() (why string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why, l.since
}

// ask executes commands for a waiting request. It returns when all replies have arrived or
// time is up.
func (l *link) ask(ctx context.Context, b *redis.Batch) error {
	c := l.conn.Load()
	if c == nil {
		return errLost
	}
	if l.waiting.Add(1) > maxWaiting {
		l.waiting.Add(-1)
		l.late.Add(1)
		return errBusy
	}
	defer l.waiting.Add(-1)
	l.trips.Add(1)
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	err := l.do(ctx, c, b)
	if err != nil {
		l.late.Add(1)
	}
	return err
}

// background executes commands that no request waits for.
func (l *link) background(ctx context.Context, b *redis.Batch) error {
	c := l.conn.Load()
	if c == nil {
		return errLost
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundWait)
	defer cancel()
	return l.do(ctx, c, b)
}

// do executes commands and judges the health of Redis by the replies. Keys that should be
// hashes but have another type are deleted, and the commands run once more; this is safe,
// since they do not depend on the stored values. A verdict of another type counts as missing:
// the next one stored replaces it.
func (l *link) do(ctx context.Context, c *conn, b *redis.Batch) error {
	err := c.Do(ctx, b)
	if redis.Code(err) == "WRONGTYPE" {
		var again bool
		if again, err = l.replace(ctx, c, b); again && err == nil {
			err = c.Do(ctx, b)
		}
	}
	if err != nil {
		l.judge(ctx, c, err)
		return err
	}
	l.failed.Store(0)
	return nil
}

// unlessHash deletes a key that is not a hash; another node may have replaced it by now.
const unlessHash = `if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then redis.call('DEL', KEYS[1]) end`

// replace deletes the keys of commands that failed with a wrong type, except verdicts. again
// says that there were some.
func (l *link) replace(ctx context.Context, c *conn, b *redis.Batch) (again bool, err error) {
	var del redis.Batch
	for i := range b.Len() {
		key := b.Key(i)
		if err := b.Reply(i).Err(); redis.Code(err) != "WRONGTYPE" || strings.HasPrefix(key, l.config.Prefix+verdicts) {
			continue
		}
		del.Add("EVAL", unlessHash, "1", key)
		l.replaced.Add(1)
		l.log.Warn("a key in Redis has a foreign type; it is replaced", "key", key)
	}
	return del.Len() > 0, c.Do(ctx, &del)
}

// judge counts a failure. A reply that says that Redis is unusable counts at once; timeouts
// and other errors have to happen several times in succession.
func (l *link) judge(ctx context.Context, c *conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled) {
		return // the client has gone, or the gateway is stopping
	}
	if isRefusal(err) {
		l.drop(c, refusal(err))
		return
	}
	if l.failed.Add(1) >= maxFailures {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v, %d times in a row", l.wait, maxFailures)
		}
		l.drop(c, err)
	}
}

// refusals are the error codes that say that Redis is unusable, with the remedy for
// each.
var refusals = map[string]string{
	"OOM":         "its memory is full: raise maxmemory, or set maxmemory-policy to volatile-ttl",
	"NOPERM":      "its ACL does not permit this user to do it",
	"NOAUTH":      "it requires a password",
	"READONLY":    "it is a replica: name the Sentinels, or the master",
	"MISCONF":     "it cannot write to its disk",
	"LOADING":     "it is still reading its data",
	"MASTERDOWN":  "its master is gone",
	"NOREPLICAS":  "it has too few replicas",
	"CLUSTERDOWN": "a part of the cluster is gone",
	"MOVED":       "it is part of a cluster: write cluster: true",
}

// isRefusal reports whether err is one of the refusals.
func isRefusal(err error) bool { return refusals[redis.Code(err)] != "" }

// refusal adds the remedy to an error of Redis.
func refusal(err error) error {
	if advice := refusals[redis.Code(err)]; advice != "" && !strings.Contains(err.Error(), advice) {
		return fmt.Errorf("%w (%s)", err, advice)
	}
	return err
}

// run maintains a connection until ctx ends. It calls begin for each new connection, with a
// context that ends when that is lost; begin must not block.
func (l *link) run(ctx context.Context, begin func(ctx context.Context, c *conn)) {
	for ctx.Err() == nil {
		c := l.conn.Load()
		if c == nil {
			var err error
			if c, err = l.connect(ctx); err != nil {
				if ctx.Err() == nil {
					l.setDown(refusal(err))
				}
				select {
				case <-ctx.Done():
				case <-time.After(tryEvery):
				}
				continue
			}
			l.setUp(c)
		}
		while, stop := context.WithCancel(ctx)
		begin(while, c)
		select {
		case <-ctx.Done():
		case lost := <-l.lost:
			stop()
			lost.Close()
		}
		stop()
	}
}

// end closes the connection.
func (l *link) end() {
	if c := l.conn.Swap(nil); c != nil {
		c.Close()
	}
	select {
	case c := <-l.lost:
		c.Close()
	default:
	}
}
