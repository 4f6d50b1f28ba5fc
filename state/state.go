// Package state remembers what outlives one request and may be forgotten:
// learned verdicts now, counters and what nodes of a fleet share later.
//
// Data goes in by Put under a 128-bit key with a time to live and comes out by
// Get until that time is up or room is needed for what is asked for more
// often. Whoever uses it says in an interface of its own what it needs;
// package statetest is what every store has to pass.
package state

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

// Config says how much is remembered.
type Config struct {
	// Size is how many bytes entries may take in all; 0 means 16 MiB, the
	// least is 64 KiB.
	Size int64 `yaml:"size"`
}

const (
	defaultSize = 16 << 20
	leastSize   = 64 << 10
	// overhead is what an entry costs beside its value: key, header of the
	// slice, expiry, the cache's own node and table slot.
	overhead = 160
)

// Memory is a store in this process (W-TinyLFU, so that one pass over many
// pages does not wash out what is asked for often). It is safe for many
// goroutines.
type Memory struct {
	cache *otter.Cache[[16]byte, entry]
	most  int
}

type entry struct {
	value []byte
	ttl   time.Duration
}

// New makes a store. It has to be closed.
func New(cfg Config) (*Memory, error) {
	size := cfg.Size
	if size == 0 {
		size = defaultSize
	}
	if size < leastSize {
		return nil, fmt.Errorf("size %d: a memory of less than %d bytes is of no use", size, leastSize)
	}
	cache, err := otter.New(&otter.Options[[16]byte, entry]{
		MaximumWeight:    uint64(size),
		Weigher:          func(_ [16]byte, e entry) uint32 { return uint32(len(e.value) + overhead) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[[16]byte, entry]) time.Duration { return e.Value.ttl }),
		// Upkeep is short and done by the caller, so that no goroutine is
		// left without an owner.
		Executor: func(work func()) { work() },
	})
	if err != nil {
		return nil, fmt.Errorf("make memory: %w", err)
	}
	return &Memory{cache, int(min(size/16, 1<<20))}, nil
}

// Get returns what was put under key. The value belongs to the store: read
// only.
func (m *Memory) Get(_ context.Context, key [16]byte) ([]byte, bool) {
	e, ok := m.cache.GetIfPresent(key)
	return e.value, ok
}

// Put keeps a copy of value for ttl, or less if room is needed. A value of
// more than a sixteenth of the store, or of 1 MiB, is not kept, nor is one
// whose time is up.
func (m *Memory) Put(_ context.Context, key [16]byte, value []byte, ttl time.Duration) {
	if len(value) > m.most || ttl <= 0 {
		m.cache.Invalidate(key)
		return
	}
	m.cache.Set(key, entry{append([]byte(nil), value...), ttl})
}

// Close stops the store's upkeep. What it holds can still be read.
func (m *Memory) Close() { m.cache.StopAllGoroutines() }
