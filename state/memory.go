package state

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"shuultuur/lib/queue"
)

const (
	defaultSize = 16 << 20
	leastSize   = 64 << 10
	// overhead is the memory of an entry besides its value: the entry, its place in a queue, its
	// slot in a table.
	overhead = 176
	// parts is the number of shards, each with a lock: fewer than 16, so that the largest value
	// fits in a shard.
	parts = 8
)

// Memory is a store within one process.
type Memory struct {
	cache    *queue.Shared[*entry]
	most     int
	size     int64
	counters counters
	file     string // "" means no file
	*Instructions
}

// An entry is a value with its expiry.
type entry struct {
	value []byte
	until time.Time
	gone  bool   // known to be missing
	epoch uint32 // in a Fleet: 0 for entries of this node, else see Fleet.epoch
}

func (e *entry) size() int64 { return int64(len(e.value) + overhead) }

func newMemory(size int64, instructions *Instructions) *Memory {
	return &Memory{
		cache: queue.NewShared[*entry](size, int(size/(2*overhead)), parts), most: int(min(size/16, 1<<20)), size: size,
		Instructions: instructions,
	}
}

// at returns a key in the form the queue uses: keys are hashes already.
func at(key [16]byte) queue.Key {
	return queue.Key{Hi: binary.BigEndian.Uint64(key[:8]), Lo: binary.BigEndian.Uint64(key[8:])}
}

// get returns the entry under key, nil if it has expired.
func (m *Memory) get(key [16]byte) *entry {
	if e, ok := m.cache.Get(at(key)); ok && time.Now().Before(e.until) {
		return e
	}
	return nil
}

// Get returns the value that was put under key. Callers must not change the value.
func (m *Memory) Get(_ context.Context, key [16]byte) ([]byte, bool) {
	if e := m.get(key); e != nil && !e.gone {
		return e.value, true
	}
	return nil, false
}

// Put keeps a copy of value for ttl, or for less if room is needed. A value larger than a
// sixteenth of the store, or than 1 MiB, is not kept. A ttl of 0 or less removes the entry.
func (m *Memory) Put(_ context.Context, key [16]byte, value []byte, ttl time.Duration) {
	if len(value) > m.most || ttl <= 0 {
		m.cache.Remove(at(key))
		return
	}
	m.set(key, &entry{value: append([]byte(nil), value...), until: time.Now().Add(ttl)})
}

func (m *Memory) set(key [16]byte, e *entry) { m.cache.Put(at(key), e, e.size()) }

// Count adds to counters and reads them.
func (m *Memory) Count(_ context.Context, counts []Count) {
	m.counters.take(time.Now(), counts)
}

// CountHere is Count: there are no other nodes.
func (m *Memory) CountHere(counts []Count) { m.counters.take(time.Now(), counts) }

// Forget removes counters, also from the file.
func (m *Memory) Forget(_ context.Context, keys ...[16]byte) error {
	m.counters.forget(keys)
	return m.Keep()
}

// Run removes expired counters until ctx ends.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.counters.sweep(m.certain())
			m.agree()
		}
	}
}

// Stats returns the counters of the store.
func (m *Memory) Stats() Stats {
	s := Stats{Uncounted: m.counters.uncounted.Load(), Counters: m.counters.held.Load()}
	s.Instructions, s.Open, s.Received = m.Instructions.stats()
	return s
}

// Keep writes the file, if there is one, while the store is in use: for a backup.
func (m *Memory) Keep() error {
	if m.file == "" {
		return nil
	}
	return m.save()
}

// HandOver writes the state to disk for the process that takes over. Later changes are lost with
// this process.
func (m *Memory) HandOver() error {
	err := m.Instructions.leave()
	if m.file != "" {
		err = errors.Join(err, m.save())
		m.file = ""
	}
	return err
}

// Close stops background work and writes the file, if there is one. The store can still be
// read.
func (m *Memory) Close() error {
	err := m.Instructions.close()
	if m.file != "" {
		err = errors.Join(err, m.save())
	}
	return err
}
