package state

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"sync/atomic"
	"time"

	"shuultuur/lib/redis"
	"shuultuur/lib/redis/keyspace"
)

const (
	// filterBits is the size of a keyFilter, 4 MiB. Its false positive rate is one in a thousand
	// with 2 million keys, and one in five with 8 million.
	filterBits = 1 << 25
	// filterFor is how long a filter is used: expired verdicts stay in it and fill it.
	filterFor = time.Hour
)

// A keyFilter holds which verdicts are in Redis: those present when this node began to listen,
// and those any node has stored since. It may have false positives, but no false negatives. So
// a page that is new to the whole fleet does not wait for Redis.
//
// It is a Bloom filter in blocks of a cache line (Putze, Sanders, Singler: Cache-, Hash- and
// Space-Efficient Bloom Filters, 2007).
type keyFilter [filterBits / 512][8]atomic.Uint64

// place returns the block of a key and its six bits in it, of nine bits each.
func (k *keyFilter) place(key []byte) (block *[8]atomic.Uint64, marks uint64) {
	// Keys are digests, but tests use consecutive numbers.
	hi, lo := bits.Mul64(binary.BigEndian.Uint64(key)^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	hi, lo = bits.Mul64(hi^lo^binary.BigEndian.Uint64(key[8:])^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	h := (hi ^ lo) * 0x8ebc6af09c88c6e3
	h ^= h >> 32
	g := h * 0x589965cc75374cc3
	return &k[h%uint64(len(k))], g ^ g>>31
}

func (k *keyFilter) add(key []byte) {
	block, marks := k.place(key)
	for range 6 {
		block[marks>>6&7].Or(1 << (marks & 63))
		marks >>= 9
	}
}

func (k *keyFilter) has(key []byte) bool {
	block, marks := k.place(key)
	for range 6 {
		if block[marks>>6&7].Load()&(1<<(marks&63)) == 0 {
			return false
		}
		marks >>= 9
	}
	return true
}

// announced adds the keys, 16 bytes each, of verdicts that any node has stored in Redis.
func (c *conn) announced(keys []byte) {
	filling, whole := c.filling.Load(), c.stored.Load()
	for b := keys; len(b) >= 16; b = b[16:] {
		if filling != nil {
			filling.add(b)
		}
		if whole != nil && whole != filling {
			whole.add(b)
		}
	}
}

// listen receives announcements until ctx ends.
func (f *Fleet) listen(ctx context.Context, c *conn) {
	changes, learned := f.link.config.Prefix+"changes", f.link.config.Prefix+"learned"
	for ctx.Err() == nil {
		err := c.Subscribe(ctx, redis.Subscription{
			Channels: []string{changes, learned},
			Ready: func() {
				nudge(f.meet)
				c.filling.Store(new(keyFilter))
				select {
				case c.listening <- struct{}{}:
				default:
				}
			},
			Message: func(channel string, payload []byte) {
				if channel == learned {
					c.announced(payload)
				} else {
					f.receive(payload)
				}
			},
		})
		// Announcements no longer reach this node.
		c.filling.Store(nil)
		c.stored.Store(nil)
		if ctx.Err() == nil {
			f.link.judge(ctx, c, err)
			select {
			case <-ctx.Done():
			case <-time.After(tryEvery):
			}
		}
	}
}

// fill builds c.stored once c listens, and rebuilds it from time to time.
func (f *Fleet) fill(ctx context.Context, c *conn) {
	again := time.NewTimer(filterFor)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.listening:
		case <-again.C:
			if old := c.filling.Load(); old == nil || !c.filling.CompareAndSwap(old, new(keyFilter)) {
				continue // it no longer listens, or has just begun
			}
		}
		k := c.filling.Load()
		if k == nil {
			continue
		}
		// A value stored from here on is announced; earlier verdicts are in the
		// scan.
		if f.scan(ctx, c, k) != nil {
			again.Reset(lookEvery) // until then every page is looked up
			continue
		}
		again.Reset(filterFor)
		c.stored.Store(k)
		if c.filling.Load() != k { // it stopped listening in the meantime
			c.stored.CompareAndSwap(k, nil)
		}
	}
}

// scan adds the verdicts that are in Redis, on all nodes of a cluster.
func (f *Fleet) scan(ctx context.Context, c *conn, k *keyFilter) error {
	s := c.Session(ctx, 1)
	defer s.Close()
	prefix := f.link.config.Prefix + verdicts
	var key [16]byte
	return s.Keys(keyspace.Escape(prefix)+"*", func(name []byte) error {
		if len(name) == len(prefix)+2*len(key) {
			if _, err := hex.Decode(key[:], name[len(prefix):]); err == nil {
				k.add(key[:])
			}
		}
		return nil
	})
}
