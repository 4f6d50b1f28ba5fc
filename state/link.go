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

	"github.com/redis/rueidis"
)

const (
	// patience is how many calls in a row may fail before Redis is lost.
	patience = 5
	// tryEvery is how often a lost Redis is looked for.
	tryEvery = 500 * time.Millisecond
	// proofs is how many calls in a row must be answered in time before a
	// Redis that was lost is used again.
	proofs = 3
	// mostWaiting bounds the requests that wait for Redis at once.
	mostWaiting = 512
	defaultWait = 20 * time.Millisecond
)

// A link is the way to Redis, with a circuit breaker in it: while Redis is
// lost, nobody waits for it, and one goroutine looks whether it is back.
type link struct {
	option  rueidis.ClientOption
	prefix  string
	wait    time.Duration // for one answer
	log     *slog.Logger
	conn    atomic.Pointer[conn] // nil while lost
	gone    chan *conn           // was lost just now
	failed  atomic.Int32         // calls in a row
	waiting atomic.Int64
	trips   atomic.Int64
	late    atomic.Int64
	losses  atomic.Int64

	mu    sync.Mutex
	why   string    // guarded by mu
	since time.Time // guarded by mu
}

// A conn is one client of the library, thrown away when it fails.
type conn struct {
	rueidis.Client
	listening chan struct{}         // it has begun to hear what is brought
	filling   atomic.Pointer[known] // what it has heard since; nil while it does not listen
	known     atomic.Pointer[known] // all verdicts of Redis; nil while nobody knows
}

var (
	errLost = errors.New("Redis is lost")
	errBusy = errors.New("too many requests wait for Redis")
)

// connect makes a client and has it prove that Redis works, writing included.
func (l *link) connect(ctx context.Context) (*conn, error) {
	o := l.option
	o.DisableRetry = true // who waits goes on instead
	// What we write ourselves we need not be told.
	o.ClientTrackingOptions = []string{"OPTIN", "NOLOOP"}
	c, err := rueidis.NewClient(o)
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

func (l *link) prove(ctx context.Context, c rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	return c.Do(ctx, c.B().Set().Key(l.prefix+"probe").Value("").Ex(time.Minute).Build()).Error()
}

// up takes c into use.
func (l *link) up(c *conn) {
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

// lose stops the use of c. It is said once, however many notice.
func (l *link) lose(c *conn, why error) {
	if !l.conn.CompareAndSwap(c, nil) {
		return
	}
	l.down(why)
	l.gone <- c // Run takes it
}

func (l *link) down(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == "" {
		l.losses.Add(1)
		l.since = time.Now()
		l.log.Warn("Redis is lost; going on with what this node knows", "error", why)
	}
	l.why = why.Error()
}

// status says since when and why Redis is lost.
func (l *link) status() (why string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why, l.since
}

// ask sends commands in one pipeline for a request that waits, and returns
// when all are answered or the time is up.
func (l *link) ask(ctx context.Context, build func(c *conn) []rueidis.Completed) ([]rueidis.RedisResult, error) {
	c := l.conn.Load()
	if c == nil {
		return nil, errLost
	}
	if l.waiting.Add(1) > mostWaiting {
		l.waiting.Add(-1)
		l.late.Add(1)
		return nil, errBusy
	}
	defer l.waiting.Add(-1)
	l.trips.Add(1)
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	rs, err := l.send(ctx, c, build(c))
	if err != nil {
		l.late.Add(1)
	}
	return rs, err
}

// send sends commands in one pipeline and judges how Redis is by the answers.
func (l *link) send(ctx context.Context, c *conn, commands []rueidis.Completed) ([]rueidis.RedisResult, error) {
	rs := c.DoMulti(ctx, commands...)
	for i := range rs {
		if err := rs[i].Error(); err != nil && !rueidis.IsRedisNil(err) {
			l.judge(ctx, c, err)
			return nil, err
		}
	}
	l.failed.Store(0)
	return rs, nil
}

// judge counts a failure. What Redis says itself about being of no use counts
// at once; silence has to happen some times in a row.
func (l *link) judge(ctx context.Context, c *conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled) {
		return // the client has gone, or we end
	}
	if _, ok := rueidis.IsRedisErr(err); ok {
		if useless(err) {
			l.lose(c, refusal(err))
		}
		return
	}
	if l.failed.Add(1) >= patience {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %v, %d times in a row", l.wait, patience)
		}
		l.lose(c, err)
	}
}

// refusals are how the answers begin with which Redis says that it is of no
// use now, and what to do about it.
var refusals = map[string]string{
	"OOM":         "its memory is full: raise maxmemory, or set maxmemory-policy to volatile-ttl",
	"NOPERM":      "the user of its ACL may not do this",
	"NOAUTH":      "it wants a password",
	"READONLY":    "it is a replica: name the Sentinels, or the master",
	"MISCONF":     "it cannot write to its disk",
	"LOADING":     "it is still reading its data",
	"MASTERDOWN":  "its master is gone",
	"NOREPLICAS":  "it has too few replicas",
	"CLUSTERDOWN": "a part of the cluster is gone",
}

// useless says whether err is one of the refusals.
func useless(err error) bool {
	word, _, _ := strings.Cut(err.Error(), " ")
	return refusals[word] != ""
}

// refusal says what to do about what Redis answers.
func refusal(err error) error {
	word, _, _ := strings.Cut(err.Error(), " ")
	if advice := refusals[word]; advice != "" {
		return fmt.Errorf("%w (%s)", err, advice)
	}
	return err
}

// run keeps a connection until ctx ends. begin is called when one is taken
// into use, with a context that ends when it is lost; it is not to block.
func (l *link) run(ctx context.Context, begin func(ctx context.Context, c *conn)) {
	for ctx.Err() == nil {
		c := l.conn.Load()
		if c == nil {
			var err error
			if c, err = l.connect(ctx); err != nil {
				if ctx.Err() == nil {
					l.down(refusal(err))
				}
				select {
				case <-ctx.Done():
				case <-time.After(tryEvery):
				}
				continue
			}
			l.up(c)
		}
		while, stop := context.WithCancel(ctx)
		begin(while, c)
		select {
		case <-ctx.Done():
		case lost := <-l.gone:
			stop()
			lost.Close()
		}
		stop()
	}
}

// end closes what is open.
func (l *link) end() {
	if c := l.conn.Swap(nil); c != nil {
		c.Close()
	}
	select {
	case c := <-l.gone:
		c.Close()
	default:
	}
}
