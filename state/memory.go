package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	defaultSize = 16 << 20
	leastSize   = 64 << 10
	// overhead is what an entry costs beside its value: key, the entry itself,
	// expiry, the cache's own node and table slot.
	overhead = 168
)

// Memory is a store in this process. It evicts by W-TinyLFU, so that one pass
// over many pages does not evict what is asked for often.
type Memory struct {
	cache    *otter.Cache[[16]byte, *entry]
	most     int
	size     int64
	counters counters
	file     string // "" keeps nothing
	*Instructions
}

// An entry is kept by its address, as what package intercept keeps is: caches of
// addresses with equal keys share their code, and each further type would be 200
// KB of program.
type entry struct {
	value []byte
	ttl   time.Duration
	gone  bool   // known not to be there
	epoch uint32 // of a Fleet: 0 for what this node has put, else see Fleet.epoch
}

func newMemory(size int64, instructions *Instructions) (*Memory, error) {
	cache, err := otter.New(&otter.Options[[16]byte, *entry]{
		MaximumWeight:    uint64(size),
		Weigher:          func(_ [16]byte, e *entry) uint32 { return uint32(len(e.value) + overhead) },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[[16]byte, *entry]) time.Duration { return e.Value.ttl }),
		// Upkeep is short. The caller does it, so that every goroutine has an
		// owner.
		Executor: func(work func()) { work() },
	})
	if err != nil {
		return nil, fmt.Errorf("make memory: %w", err)
	}
	return &Memory{cache: cache, most: int(min(size/16, 1<<20)), size: size, counters: counters{log: slog.New(slog.DiscardHandler)}, Instructions: instructions}, nil
}

// Get returns what was put under key. The value belongs to the store: it is not
// to be changed.
func (m *Memory) Get(_ context.Context, key [16]byte) ([]byte, bool) {
	if e, ok := m.cache.GetIfPresent(key); ok && !e.gone {
		return e.value, true
	}
	return nil, false
}

// Put keeps a copy of value for ttl, or for less if room is needed. A value of
// more than a sixteenth of the store, or of 1 MiB, is not kept. A ttl of 0 or
// less removes what is there.
func (m *Memory) Put(_ context.Context, key [16]byte, value []byte, ttl time.Duration) {
	if len(value) > m.most || ttl <= 0 {
		m.cache.Invalidate(key)
		return
	}
	m.cache.Set(key, &entry{value: append([]byte(nil), value...), ttl: ttl})
}

// Count adds to counters and reads them.
func (m *Memory) Count(_ context.Context, counts []Count) {
	m.counters.take(time.Now(), counts)
}

// CountHere is Count: nobody else counts.
func (m *Memory) CountHere(counts []Count) { m.counters.take(time.Now(), counts) }

// Forget removes counters, also from the file.
func (m *Memory) Forget(_ context.Context, keys ...[16]byte) error {
	m.counters.forget(keys)
	if m.file == "" {
		return nil
	}
	return m.save()
}

// Run removes counters whose time is over until ctx ends.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.counters.sweep(time.Now())
			m.agree(time.Now())
		}
	}
}

// Stats returns the counters of the store.
func (m *Memory) Stats() Stats {
	s := Stats{Uncounted: m.counters.uncounted.Load(), Counters: m.counters.held.Load()}
	s.Instructions, s.Open, s.Received = m.Instructions.stats()
	return s
}

// Leave writes the file and the instructions out for another process that goes
// on with them. What is remembered from here on is lost with this process.
func (m *Memory) Leave() error {
	err := m.Instructions.leave()
	if m.file != "" {
		err = errors.Join(err, m.save())
		m.file = ""
	}
	return err
}

// Close ends the store's upkeep and writes its file, if it has one. What it
// holds can still be read.
func (m *Memory) Close() error {
	m.cache.StopAllGoroutines()
	err := m.Instructions.close()
	if m.file != "" {
		err = errors.Join(err, m.save())
	}
	return err
}
