package state

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"shuultuur/state/keyspace"
)

const (
	// knownBits is the size of a known, 4 MiB: with 2 million verdicts in it
	// one in a thousand others is taken for one of them, with 8 million one in
	// five.
	knownBits = 1 << 25
	// knownFor is how long one is used: verdicts whose time is up stay in it
	// and fill it.
	knownFor = time.Hour
	// scanned is how many keys Redis looks at in one step, so that nobody
	// waits for long.
	scanned = 1000
)

// A known is what a node has been told of the verdicts in Redis: those that
// were there when it began to listen, and those brought since, by whomever. It
// may take a verdict for one of them that is not, never the other way round. So
// a page that is new to the whole fleet costs nobody a question. It is a Bloom
// filter in blocks of a cache line (Putze, Sanders, Singler: Cache-, Hash- and
// Space-Efficient Bloom Filters, 2007).
type known [knownBits / 512][8]atomic.Uint64

// place returns the block of a key, and the bits in it: six of nine bits each.
func (k *known) place(key []byte) (block *[8]atomic.Uint64, marks uint64) {
	// Keys are digests, but a test may count them.
	hi, lo := bits.Mul64(binary.BigEndian.Uint64(key)^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	hi, lo = bits.Mul64(hi^lo^binary.BigEndian.Uint64(key[8:])^0xa0761d6478bd642f, 0xe7037ed1a0b428db)
	h := (hi ^ lo) * 0x8ebc6af09c88c6e3
	h ^= h >> 32
	g := h * 0x589965cc75374cc3
	return &k[h%uint64(len(k))], g ^ g>>31
}

func (k *known) add(key []byte) {
	block, marks := k.place(key)
	for range 6 {
		block[marks>>6&7].Or(1 << (marks & 63))
		marks >>= 9
	}
}

func (k *known) has(key []byte) bool {
	block, marks := k.place(key)
	for range 6 {
		if block[marks>>6&7].Load()&(1<<(marks&63)) == 0 {
			return false
		}
		marks >>= 9
	}
	return true
}

// brought takes in the keys that a node, this one too, has brought to Redis.
func (c *conn) brought(keys string) {
	filling, whole := c.filling.Load(), c.known.Load()
	for b := []byte(keys); len(b) >= 16; b = b[16:] {
		if filling != nil {
			filling.add(b)
		}
		if whole != nil && whole != filling {
			whole.add(b)
		}
	}
}

// listen hears what is published until ctx ends.
func (f *Fleet) listen(ctx context.Context, c *conn) {
	changes, learned := f.link.prefix+"changes", f.link.prefix+"learned"
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind != "subscribe" || s.Channel != learned {
			return
		}
		c.filling.Store(new(known))
		select {
		case c.listening <- struct{}{}:
		default:
		}
	})
	for ctx.Err() == nil {
		err := c.Receive(hooked, c.B().Subscribe().Channel(changes, learned).Build(), func(m rueidis.PubSubMessage) {
			if m.Channel == learned {
				c.brought(m.Message)
			} else if words := strings.Split(m.Message, " "); len(words) == 3 && words[0] != f.node {
				f.hear(words[1], words[2])
			}
		})
		// What is brought now this node is not told.
		c.filling.Store(nil)
		c.known.Store(nil)
		if err != nil && ctx.Err() == nil {
			f.link.judge(ctx, c, err)
			select {
			case <-ctx.Done():
			case <-time.After(tryEvery):
			}
		}
	}
}

// know makes c.known while c listens: when it has begun to, and anew once in a
// while.
func (f *Fleet) know(ctx context.Context, c *conn) {
	again := time.NewTimer(knownFor)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.listening:
		case <-again.C:
			if old := c.filling.Load(); old == nil || !c.filling.CompareAndSwap(old, new(known)) {
				continue // it listens no more, or has just begun
			}
		}
		k := c.filling.Load()
		if k == nil {
			continue
		}
		// What is brought from here on is heard, what was before is there.
		if f.scan(ctx, c, k) != nil {
			again.Reset(lookEvery) // until then every page is asked about
			continue
		}
		again.Reset(knownFor)
		c.known.Store(k)
		if c.filling.Load() != k { // it has ceased to listen meanwhile
			c.known.CompareAndSwap(k, nil)
		}
	}
}

// scan adds the verdicts that are in Redis, on all nodes of a cluster.
func (f *Fleet) scan(ctx context.Context, c *conn, k *known) error {
	prefix := f.link.prefix + "v:"
	pattern := keyspace.Escape(prefix) + "*"
	for _, node := range c.Nodes() {
		for at := uint64(0); ; {
			part, cancel := context.WithTimeout(ctx, patient)
			e, err := node.Do(part, node.B().Scan().Cursor(at).Match(pattern).Count(scanned).Build()).AsScanEntry()
			cancel()
			if err != nil {
				return err
			}
			for _, name := range e.Elements {
				if key, err := hex.DecodeString(name[len(prefix):]); err == nil && len(key) == 16 {
					k.add(key)
				}
			}
			if at = e.Cursor; at == 0 {
				break
			}
		}
	}
	return nil
}
