// Package intercept holds what it takes to stand in the middle of a TLS
// connection and to answer for it.
//
// A connection's first bytes go through a Sniffer, which says what the client
// wants to reach (Hello) without taking anything from the connection. Where
// the policy wants to see inside, a Verifier first looks at the certificate of
// the true server and lists its faults; then an Authority, which holds the
// Root that an administrator made and gave to the clients, mints a leaf
// certificate for the host and gives the tls.Config to go on with. A Root is
// one file; it is made, exported and rotated here too.
package intercept

import (
	"errors"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/queue"
)

// A cache keeps a bounded number of values, each until its time, and lets one
// caller at a time make the value of a key while others wait for it.
type cache[V any] struct {
	most int

	mu     sync.Mutex
	kept   *queue.Queue[*kept] // guarded by mu
	making map[string]*making  // guarded by mu
}

type kept struct {
	name  string // whoever chooses names may find two with one key
	value any
	until time.Time
}

// A making is a value that one caller makes, and others wait for.
type making struct {
	done  chan struct{}
	value any
	err   error
}

func newCache[V any](most int) *cache[V] {
	return &cache[V]{most: most, kept: queue.New[*kept](int64(most), most), making: map[string]*making{}}
}

// get returns the value of name, made by load if there is none or its time is
// up. load says until when the value is good; the zero time means that it is
// not to be kept. An error is not kept.
func (c *cache[V]) get(name string, load func() (V, time.Time, error)) (v V, err error) {
	key := xxh3.HashString128(name)
	c.mu.Lock()
	if k, _, ok := c.kept.Get(key); ok && k.name == name && time.Now().Before(k.until) {
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
	defer func() { // also where load panics
		c.mu.Lock()
		delete(c.making, name)
		if m.err == nil && !until.IsZero() {
			c.kept.Put(key, &kept{name, v, until}, 1)
		}
		c.mu.Unlock()
		close(m.done)
	}()
	v, until, err = load()
	m.value, m.err = v, err
	return v, err
}

var errUnmade = errors.New("the value was not made")
