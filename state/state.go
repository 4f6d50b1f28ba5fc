// Package state remembers values that outlive one request and may be forgotten: learned
// verdicts, clients' use of limits and quotas, and the version of each list that the fleet
// uses. A single gateway keeps it in memory; the gateways of a fleet share it in Redis.
//
// Put stores a verdict under a 128-bit key with a time to live. Get returns it until it
// expires or gives way to others that are asked for more often. Use is a [Count]: every node
// counts by itself and knows the counts of the others a moment ago.
//
// [Memory] does this for one process. A [Fleet] has its own Memory and exchanges changes with
// Redis in the background, in pipelines. A request waits for Redis at most once, and never
// longer than the settings allow. While Redis is lost, the node continues with its Memory;
// afterwards it adds its own counts of the meantime.
//
// Packages that use a store declare the interface they need. Package statetest is the
// conformance suite of all stores.
package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/redis"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// Config sets how much to remember, and with which gateways to share it.
type Config struct {
	// Size bounds the memory of all learned verdicts; default 16MiB, at least 64KiB.
	Size setting.Size `yaml:"size"`
	// File keeps the state of a single gateway over a restart, relative to the data folder;
	// default state.bin. Without a data folder there is none.
	File  string `yaml:"file"`
	Redis *Redis `yaml:"redis"` // default none: a single gateway
}

// Redis says where a fleet keeps the values that it shares.
type Redis struct {
	redis.Config `yaml:",inline"` // the prefix is "shuultuur:" by default
	// Wait bounds how long one request waits for Redis; default 20ms, at most 1s.
	Wait setting.Duration `yaml:"wait"`
}

const (
	defaultPrefix = "shuultuur:"
	defaultWait   = 20 * time.Millisecond
	longestWait   = time.Second
)

// Check finds mistakes without connecting to anything.
func (c *Config) Check() error {
	if size := c.Size.Or(defaultSize); size < leastSize {
		return setting.At("size", fmt.Errorf("%v is too little for learned verdicts: write at least 64KiB", c.Size))
	}
	switch {
	case c.Redis == nil:
		return nil
	case release.Small:
		return setting.At("redis", release.Lacks("Redis"))
	case c.File != "":
		return setting.At("file", errors.New("Redis keeps what a fleet remembers; leave this out"))
	}
	return setting.At("redis", c.Redis.check())
}

func (r *Redis) check() error {
	if w := r.Wait.Or(defaultWait); w == 0 || w > longestWait {
		return setting.At("wait", fmt.Errorf("%v is not between 1ms and 1s: each request may wait that long", r.Wait))
	}
	return r.Config.Check()
}

// A Store remembers. It is safe for concurrent use.
type Store interface {
	// Get returns what was put under key. Callers must not change the value.
	Get(ctx context.Context, key [16]byte) ([]byte, bool)
	// Put keeps a copy of value for ttl, or for less if room is needed. A ttl of 0 or less
	// removes the entry.
	Put(ctx context.Context, key [16]byte, value []byte, ttl time.Duration)
	// Count adds to counters and reads them. It adds to all of them, or to none if one would
	// exceed its limit.
	Count(ctx context.Context, counts []Count)
	// CountHere is Count by the sums that this node knows. It does not wait, and allocates
	// only for new counters.
	CountHere(counts []Count)
	// Forget resets counters on this node and in Redis. Other nodes have to forget their own.
	Forget(ctx context.Context, keys ...[16]byte) error
	// Issue, Erase, InForce and Follow are those of [Instructions].
	Issue(all ...Instruction) error
	Erase(match func(*Instruction) bool, dry bool) (int, error)
	InForce(topic string) []Instruction
	Follow(ctx context.Context, do func(ctx context.Context, all []Instruction) error)
	// Run works in the background until ctx ends, then writes the rest.
	Run(ctx context.Context) error
	Stats() Stats
	metric.Collector // the metrics of Stats
	// Close releases the resources of the store. Run must have returned.
	Close() error
}

// Stats are the metrics of a store, and its condition.
type Stats struct {
	Lost      string    // why Redis is not used; "" when it is, or when there is none
	Since     time.Time // since when
	Losses    int64     // how often it was lost
	Trips     int64     // requests that waited for Redis
	Late      int64     // requests that continued without its reply
	Dropped   int64     // verdicts that did not reach Redis: the queue was full
	Replaced  int64     // keys in Redis that had another type and were replaced
	Uncounted int64     // counts for which there was no room
	Counters  int64     // counters held
	// Instructions counts those kept, withdrawn ones included. Open counts those of other nodes
	// that are not carried out yet, and Received those that came from other nodes.
	Instructions, Open, Received int64
}

// Open makes the store for cfg. data is the folder of data files; with "", instructions are
// lost when the process ends. Redis need not be reachable yet. Mistakes in cfg are a
// [setting.Error].
func Open(cfg Config, data string, log *slog.Logger) (Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m, err := newStore(cfg, data, log)
	if err != nil {
		return nil, err
	}
	if cfg.Redis != nil && !release.Small {
		return newFleet(*cfg.Redis, m, log), nil
	}
	file := setting.Path(data, cfg.File)
	if file == "" && data != "" {
		file = filepath.Join(data, "state.bin")
	}
	if file != "" {
		m.useFile(file, log)
	}
	return m, nil
}

// New makes a Memory without a file. Close it after use.
func New(cfg Config) (*Memory, error) {
	return newStore(cfg, "", slog.New(slog.DiscardHandler))
}

func newStore(cfg Config, data string, log *slog.Logger) (*Memory, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	path := ""
	if data != "" {
		path = filepath.Join(data, "instructions")
	}
	instructions, err := openInstructions(path, log)
	if err != nil {
		return nil, err
	}
	m := newMemory(cfg.Size.Or(defaultSize), instructions)
	m.counters.log = log
	return m, nil
}
