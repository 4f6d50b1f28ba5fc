package state

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"shuultuur/queue"
)

const (
	defaultSize = 16 << 20
	leastSize   = 64 << 10
	// overhead is what an entry costs beside its value: the entry itself, its
	// place in a queue, its slot in a table.
	overhead = 176
	// parts is how many locks share the entries: fewer than 16, so that the
	// largest value has room in a part.
	parts = 8
)

// Memory is a store in this process.
type Memory struct {
	cache    *queue.Shared[*entry]
	most     int
	size     int64
	counters counters
	file     string // "" keeps nothing
	*Instructions
}

// An entry is what is kept under a key until a time.
type entry struct {
	value []byte
	until time.Time
	gone  bool   // known not to be there
	epoch uint32 // of a Fleet: 0 for what this node has put, else see Fleet.epoch
}

func (e *entry) size() int64 { return int64(len(e.value) + overhead) }

func newMemory(size int64, instructions *Instructions) *Memory {
	return &Memory{
		cache: queue.NewShared[*entry](size, int(size/(2*overhead)), parts), most: int(min(size/16, 1<<20)), size: size,
		Instructions: instructions,
	}
}

// at returns a key as the queue has it: keys are hashes.
func at(key [16]byte) queue.Key {
	return queue.Key{Hi: binary.BigEndian.Uint64(key[:8]), Lo: binary.BigEndian.Uint64(key[8:])}
}

// get returns what is kept under key, nil where its time is up.
func (m *Memory) get(key [16]byte) *entry {
	if e, ok := m.cache.Get(at(key)); ok && time.Now().Before(e.until) {
		return e
	}
	return nil
}

// Get returns what was put under key. The value belongs to the store: it is not
// to be changed.
func (m *Memory) Get(_ context.Context, key [16]byte) ([]byte, bool) {
	if e := m.get(key); e != nil && !e.gone {
		return e.value, true
	}
	return nil, false
}

// Put keeps a copy of value for ttl, or for less if room is needed. A value of
// more than a sixteenth of the store, or of 1 MiB, is not kept. A ttl of 0 or
// less removes what is there.
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
	err := m.Instructions.close()
	if m.file != "" {
		err = errors.Join(err, m.save())
	}
	return err
}
