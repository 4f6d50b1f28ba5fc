// Package state remembers what outlives one request and may be forgotten:
// learned verdicts, what clients have used up of their limits and quotas, which
// version of a list the fleet is at. One gateway alone needs nothing for it; a
// fleet remembers together, in Redis.
//
// Verdicts go in by Put under a 128-bit key with a time to live and come out by
// Get until that time is up or room is needed for what is asked for more
// often. What is used up is a [Count]: every node counts for itself and knows
// what the others had counted a moment ago. What has changed goes to the other
// nodes by Publish.
//
// [Memory] does it for one process. [Fleet] has a Memory of its own and
// exchanges with Redis what is new, in pipelines in the background; a request
// waits for Redis once at most, and never longer than the settings allow. When
// Redis is lost the Memory goes on alone, and when it is back what was counted
// meanwhile is added.
//
// Whoever uses a store says in an interface of its own what it needs; package
// statetest is what every store has to pass.
package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shuultuur/filter"
)

// Config says how much is remembered, and with whom.
type Config struct {
	// Size is how many bytes learned verdicts may take in all; 0 means 16 MiB,
	// the least is 64 KiB.
	Size int64 `yaml:"size"`
	// File keeps what one gateway remembers over a restart; "" forgets it.
	File  string `yaml:"file"`
	Redis *Redis `yaml:"redis"`
}

// A Store remembers. It is safe for many goroutines.
type Store interface {
	// Get returns what was put under key. The value belongs to the store:
	// read only.
	Get(ctx context.Context, key [16]byte) ([]byte, bool)
	// Put keeps a copy of value for ttl, or less if room is needed. One whose
	// time is up already removes what is there.
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
	// Count adds to counters and reads them: all of these, or, if that would
	// bring one of them over its most, none.
	Count(ctx context.Context, counts []Count)
	// CountHere is Count by what this node knows of the others, without waiting:
	// they hear of it, and it of them, a moment later. It does not allocate,
	// but for new counters.
	CountHere(counts []Count)
	// Publish tells the other nodes which version of a topic is in use now,
	// those that are not there too, when they come.
	Publish(ctx context.Context, topic, version string) error
	// Run does the upkeep until ctx ends, then writes out what is left.
	Run(ctx context.Context) error
	Stats() Stats
	// Close lets go of it. Run has to be over.
	Close() error
}

// Stats are the counters of a store, and how it is.
type Stats struct {
	Lost      string    // why Redis is not used, "" when it is or none is set up
	Since     time.Time // since when
	Losses    int64     // how often it was lost
	Trips     int64     // requests that waited for Redis
	Late      int64     // of these, those that went on without its answer
	Dropped   int64     // verdicts that did not reach Redis: the queue was full
	Uncounted int64     // counts that had no room
	Counters  int64     // counters held
	Changes   int64     // changes other nodes have published
}

// Open makes the store that cfg asks for. Relative paths stand on dir, those
// of data files on data. changed is called, one at a time, when another node
// has published a version; it is not to block. Redis does not have to be
// there yet. Mistakes in cfg are a [filter.SettingError].
func Open(cfg Config, dir, data string, changed func(topic, version string), log *slog.Logger) (Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	m.counters.log = log
	if cfg.Redis != nil {
		if cfg.File != "" {
			return nil, filter.Setting("file", errors.New("Redis keeps what a fleet remembers; leave this out"))
		}
		return newFleet(*cfg.Redis, dir, m, changed, log)
	}
	if cfg.File != "" {
		m.keep(within(data, cfg.File), log)
	}
	return m, nil
}

// New makes a store in this process. It has to be closed.
func New(cfg Config) (*Memory, error) {
	size := cfg.Size
	if size == 0 {
		size = defaultSize
	}
	if size < leastSize {
		return nil, filter.Setting("size", fmt.Errorf("%d: a memory of less than %d bytes is of no use", size, leastSize))
	}
	return newMemory(size)
}
