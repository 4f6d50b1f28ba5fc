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
	"context"
	"crypto/sha256"
	"time"

	"github.com/maypok86/otter/v2"
)

// A cache keeps a bounded number of values, each until its time, and lets one
// caller at a time make the value of a key while others wait for it. All caches
// are of one type below, with the keys of package state: each further one would
// be 200 KB of program.
type cache[V any] struct{ *otter.Cache[[16]byte, *kept] }

type kept struct {
	value any
	until time.Time
}

func newCache[V any](size int) (cache[V], error) {
	c, err := otter.New(&otter.Options[[16]byte, *kept]{
		MaximumSize: size,
		// Upkeep is short and done by the caller, so that no goroutine is
		// left without an owner.
		Executor: func(work func()) { work() },
	})
	return cache[V]{c}, err
}

// get returns the value of name, made by load if there is none or its time is
// up. load says until when the value is good; the zero time means that it is
// not to be kept. An error is not kept.
func (c cache[V]) get(name string, load func() (V, time.Time, error)) (V, error) {
	sum := sha256.Sum256([]byte(name)) // whoever chooses names cannot have two with one key
	key := [16]byte(sum[:])
	if k, ok := c.GetIfPresent(key); ok {
		if time.Now().Before(k.until) {
			return k.value.(V), nil
		}
		c.Invalidate(key)
	}
	k, err := c.Get(context.Background(), key, otter.LoaderFunc[[16]byte, *kept](func(context.Context, [16]byte) (*kept, error) {
		v, until, err := load()
		if err != nil {
			return nil, err
		}
		return &kept{v, until}, nil
	}))
	if err != nil {
		var none V
		return none, err
	}
	if k.until.IsZero() {
		c.Invalidate(key)
	}
	return k.value.(V), nil
}
