// Package bloom remembers keys in a fixed number of bits: it never forgets an added key, and
// mistakes about 1 of 100 others for an added one.
//
// A key is hashed once to 64 bits ([Sum]). The upper bits of the hash select a block of 2 KiB,
// the others 7 bits in it. [Filter.Add] sets these bits, [Filter.Has] tests whether all of
// them are set. A [Pair] is two filters used in turn, so that it remembers a window of the
// latest keys.
//
// All methods are safe for concurrent use, without locks.
package bloom

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A filter for n keys has bitsPerKey·n bits. The least for 1 % of false positives is 9.585,
// -ln 0.01 / (ln 2)². The number of hash functions for that is 6.6, and probes is the next
// integer.
const (
	bitsPerKey = 9.649
	probes     = 7
)

// A block is so small that 14 bits of a hash select a bit in it, and so large that all blocks
// of a filter hold nearly the same number of keys: the differences add 0.007 of the false
// positives. Filters of fewer than leastBlocks blocks have none, because the last block would
// overlap too much with others.
const (
	blockWords  = 256
	leastBlocks = 256
)

type block [blockWords]uint64

// A Key is the hash of a key. Every bit of it depends on the whole key.
type Key uint64

// Sum returns the hash of s.
func Sum(s string) Key { return Key(xxh3.HashString(s)) }

// A Filter is a Bloom filter.
type Filter struct {
	words  []uint64
	blocks uint64 // 0 if the whole filter is one block of any size
	stride uint64 // distance of blocks, in words · 2³²
	keys   int    // number of keys that it is sized for
	added  atomic.Int64
	sample Key // the keys that are counted; random, so that clients cannot choose others
}

// A filter with blocks counts one of so many keys, because counting all of them would take an
// eighth of the time. Of a million keys, the count is wrong by 0.3 % (one standard deviation).
const sampled = 8

// New returns a filter for n keys: when it has that many, it reports at most 1 % of other
// keys. It takes 9.65 bits per key.
func New(n int) *Filter {
	n = max(n, 1)
	words := max(1, int(float64(n)*bitsPerKey/64))
	f := &Filter{words: make([]uint64, words), keys: n}
	if blocks := (words + blockWords - 1) / blockWords; blocks >= leastBlocks {
		f.blocks, f.sample = uint64(blocks), Key(rand.Uint64())
		f.stride = uint64(words-blockWords) << 32 / (f.blocks - 1) // the last block ends with the filter
	}
	return f
}

// Bits returns the size of the filter in bits.
func (f *Filter) Bits() int { return len(f.words) * 64 }

// Added returns the number of added keys that it did not have; filters with blocks estimate it. It omits those that
// it seemed to have, about 1 of 100 when the filter is full.
func (f *Filter) Added() int { return int(f.added.Load()) }

// block returns the block for k, and a second hash of k, whose upper bits are independent of
// the lower ones of k.
func (f *Filter) block(k Key) (b *block, second Key) {
	i, _ := bits.Mul64(uint64(k), f.blocks) // a number below blocks, without a division
	return (*block)(f.words[i*f.stride>>32:]), k * golden
}

const golden = 0x9e3779b97f4a7c15

// A key selects four bits in two words of its block, two in each, and three in any words. That
// costs two writes less than seven bits in any words, and adds 0.012 of the false positives,
// because bits of a word are set together a little more often than others. More pairs would
// add too many.

// pair selects a word and two different bits in it, with the lowest 19 bits of a hash.
func (b *block) pair(hash Key) (word *uint64, mask uint64) {
	return &b[hash%blockWords], bits.RotateLeft64(1|2<<(hash>>8%32), int(hash>>13))
}

// one selects a word and a bit in it, with the lowest 14 bits of a hash.
func (b *block) one(hash Key) (word *uint64, mask uint64) {
	return &b[hash>>6%blockWords], 1 << (hash & 63)
}

// lacks returns the bits of the mask that are not set in the word.
func lacks(word *uint64, mask uint64) uint64 { return ^atomic.LoadUint64(word) & mask }

// Has reports whether k was added. It may be wrong if it returns true.
func (f *Filter) Has(k Key) bool {
	if f.blocks == 0 {
		return f.smallHas(k)
	}
	b, k2 := f.block(k)
	// Three bits are tested together: half of the absent keys end with any one, so that the
	// processor would mispredict.
	if lacks(b.pair(k))|lacks(b.one(k>>19)) != 0 {
		return false
	}
	return lacks(b.pair(k2>>17))|lacks(b.one(k2>>36))|lacks(b.one(k2>>50)) == 0
}

// Add adds k and reports whether the filter already contained it, or seemed to.
func (f *Filter) Add(k Key) (had bool) {
	if f.blocks == 0 {
		return f.smallAdd(k)
	}
	b, k2 := f.block(k)
	w1, m1 := b.pair(k)
	w2, m2 := b.one(k >> 19)
	w3, m3 := b.pair(k2 >> 17)
	w4, m4 := b.one(k2 >> 36)
	w5, m5 := b.one(k2 >> 50)
	if lacks(w1, m1)|lacks(w2, m2)|lacks(w3, m3)|lacks(w4, m4)|lacks(w5, m5) == 0 {
		return true
	}
	// Bits that are already set are set again: a branch for each costs more, because the
	// processor would mispredict it.
	atomic.OrUint64(w1, m1)
	atomic.OrUint64(w2, m2)
	atomic.OrUint64(w3, m3)
	atomic.OrUint64(w4, m4)
	atomic.OrUint64(w5, m5)
	if (k2>>32^f.sample)%sampled == 0 {
		f.added.Add(sampled)
	}
	return false
}

// smallPlace returns the word and the bit for one hash of a key, in a filter without blocks.
func (f *Filter) smallPlace(hash Key) (word *uint64, mask uint64) {
	i, rest := bits.Mul64(uint64(hash), uint64(len(f.words)))
	return &f.words[i], 1 << (rest >> 58)
}

// step returns the distance between successive hashes of a key.
func (k Key) step() Key { return k*golden | 1 }

func (f *Filter) smallHas(k Key) bool {
	for i := range Key(probes) {
		if word, mask := f.smallPlace(k + i*k.step()); atomic.LoadUint64(word)&mask == 0 {
			return false
		}
	}
	return true
}

func (f *Filter) smallAdd(k Key) (had bool) {
	if f.smallHas(k) {
		return true
	}
	for i := range Key(probes) {
		word, mask := f.smallPlace(k + i*k.step())
		atomic.OrUint64(word, mask)
	}
	f.added.Add(1)
	return false
}

// Reset removes all keys. A key that is added concurrently may stay in part.
func (f *Filter) Reset() {
	f.added.Store(0)
	for i := range f.words {
		atomic.StoreUint64(&f.words[i], 0)
	}
}
