// Package intercept decrypts TLS connections as a man in the middle.
//
// A Sniffer parses a connection's first bytes, and returns the client's Hello without consuming
// them. If the policy wants decryption, a Verifier checks the certificate of the real server
// and lists its faults. Then an Authority mints a leaf certificate for the host and returns a
// tls.Config. It holds the Root that an administrator has made and given to the clients. A Root
// is one file; this package also makes, exports and rotates it.
package intercept

import (
	"errors"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/clock"
	"shuultuur/lib/queue"
)

// A cache keeps a bounded number of values, each until it expires. For each key, one caller at
// a time makes the value while others wait for it.
type cache[V any] struct {
	most    int
	reading func(now time.Time) reading

	mu     sync.Mutex
	cached *queue.Queue[*cachedValue] // guarded by mu
	making map[string]*making         // guarded by mu
}

type cachedValue struct {
	name  string // guards against hash collisions, since strangers choose names
	value any
	until time.Time
	made  reading
}

// A reading is what the wall clock and a clock that nobody sets show at a moment.
type reading struct {
	wall    time.Time
	running time.Duration
}

var begin = time.Now()

func read(now time.Time) reading { return reading{now.Round(0), now.Sub(begin)} }

// set reports whether the wall clock was set between two readings. What was made by the wrong time, a
// leaf that begins in a year or the finding that a certificate has expired, does not hold then.
func (r reading) set(later reading) bool {
	return (later.wall.Sub(r.wall) - (later.running - r.running)).Abs() > clock.Tolerance
}

// A making is a value in the making, for which other callers wait.
type making struct {
	done  chan struct{}
	value any
	err   error
}

func newCache[V any](most int) *cache[V] {
	return &cache[V]{most: most, reading: read, cached: queue.New[*cachedValue](int64(most), most), making: map[string]*making{}}
}

// get returns the value of name, and calls load if there is none or it has expired. load
// returns when the value expires; the zero time means that it must not be kept. Errors are not
// kept.
func (c *cache[V]) get(name string, load func() (V, time.Time, error)) (v V, err error) {
	key, now := xxh3.HashString128(name), time.Now()
	at := c.reading(now)
	c.mu.Lock()
	if k, _, ok := c.cached.Get(key); ok && k.name == name && now.Before(k.until) && !k.made.set(at) {
		c.mu.Unlock()
		return k.value.(V), nil
	}
	if m := c.making[name]; m != nil {
		c.mu.Unlock()
		<-m.done
		v, _ = m.value.(V)
		return v, m.err
	}
	m := &making{done: make(chan struct{}), err: errUnmade}
	c.making[name] = m
	c.mu.Unlock()
	var until time.Time
	defer func() { // even if load panics
		c.mu.Lock()
		delete(c.making, name)
		if m.err == nil && !until.IsZero() {
			c.cached.Put(key, &cachedValue{name, v, until, at}, 1)
		}
		c.mu.Unlock()
		close(m.done)
	}()
	v, until, err = load()
	m.value, m.err = v, err
	return v, err
}

var errUnmade = errors.New("the value was not made")
