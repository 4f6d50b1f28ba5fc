// Package bloom remembers keys in a fixed number of bits: it never forgets one
// that was added, and takes about 1 of 100 others for one of them.
//
// Data moves so. A key is hashed once to 64 bits ([Sum]). The upper bits of the
// hash choose a block of 2 KiB, the others 7 bits in it. [Filter.Add] sets these,
// [Filter.Has] looks whether all of them are set. A [Pair] is two filters that
// take turns, so that what it remembers is a window over the last keys.
//
// All methods may be called by many goroutines at once, without locks.
package bloom

import (
	"math/bits"
	"sync/atomic"

	"github.com/zeebo/xxh3"
)

// A filter for n keys has bitsPerKey·n bits. The least for which 1 % of other
// keys are found is 9.585, -ln 0.01 / (ln 2)². The number of hash functions that
// goes with it is 6.6, and probes is the next whole number.
const (
	bitsPerKey = 9.649
	probes     = 7
)

// A block is small enough that 14 bits of a hash choose a bit in it, and large
// enough that all blocks of a filter hold nearly the same number of keys: the
// differences add 0.007 of the false positives. Filters of fewer than leastBlocks
// blocks do without, since the last block would overlap too much with others.
const (
	blockWords  = 256
	leastBlocks = 256
)

type block [blockWords]uint64

// A Key is the hash of a key, in which every bit depends on all of it.
type Key uint64

// Sum returns the hash of s.
func Sum(s string) Key { return Key(xxh3.HashString(s)) }

// A Filter is a Bloom filter.
type Filter struct {
	words  []uint64
	blocks uint64 // 0: the whole filter is one, of any size
	stride uint64 // from one block to the next, in words · 2³²
	keys   int    // it is made for
	added  atomic.Int64
}

// New returns a filter for n keys: when it holds so many, at most 1 % of other
// keys are found in it. It takes 9.65 bits for each.
func New(n int) *Filter {
	n = max(n, 1)
	words := max(1, int(float64(n)*bitsPerKey/64))
	f := &Filter{words: make([]uint64, words), keys: n}
	if blocks := (words + blockWords - 1) / blockWords; blocks >= leastBlocks {
		f.blocks = uint64(blocks)
		f.stride = uint64(words-blockWords) << 32 / (f.blocks - 1) // the last ends with the filter
	}
	return f
}

// Bits is the size of the filter in bits.
func (f *Filter) Bits() int { return len(f.words) * 64 }

// Added returns how many keys were added that it did not have. Keys that it
// seemed to have are not counted, about 1 of 100 when the filter is full.
func (f *Filter) Added() int { return int(f.added.Load()) }

// block returns the block for k, and a second hash of k, whose upper bits are
// independent of the lower ones of k. They choose four bits, k itself three.
func (f *Filter) block(k Key) (b *block, second Key) {
	i, _ := bits.Mul64(uint64(k), f.blocks) // a number below blocks, without a division
	return (*block)(f.words[i*f.stride>>32:]), k * golden
}

const golden = 0x9e3779b97f4a7c15

// bit returns a number whose lowest bit is the one that a hash chooses.
func (b *block) bit(hash Key) uint64 {
	return atomic.LoadUint64(&b[hash>>6%blockWords]) >> (hash & 63)
}

func (b *block) set(hash Key) { atomic.OrUint64(&b[hash>>6%blockWords], 1<<(hash&63)) }

// Has says whether k was added. It may be wrong when it says yes.
func (f *Filter) Has(k Key) bool {
	if f.blocks == 0 {
		return f.smallHas(k)
	}
	b, k2 := f.block(k)
	// Three bits are fetched together: half of the keys that are not there end
	// with any one, and the processor would guess wrong.
	if b.bit(k)&b.bit(k>>14)&b.bit(k>>28)&1 == 0 {
		return false
	}
	return b.bit(k2>>8)&b.bit(k2>>22)&b.bit(k2>>36)&b.bit(k2>>50)&1 != 0 // up to probes
}

// Add adds k and says whether the filter had it already, or seemed to.
func (f *Filter) Add(k Key) (had bool) {
	if f.blocks == 0 {
		return f.smallAdd(k)
	}
	b, k2 := f.block(k)
	if b.bit(k)&b.bit(k>>14)&b.bit(k>>28)&b.bit(k2>>8)&b.bit(k2>>22)&b.bit(k2>>36)&b.bit(k2>>50)&1 != 0 {
		return true
	}
	// Bits that are set already are set again: a branch for each costs more, as
	// the processor would guess it wrong.
	b.set(k)
	b.set(k >> 14)
	b.set(k >> 28)
	b.set(k2 >> 8)
	b.set(k2 >> 22)
	b.set(k2 >> 36)
	b.set(k2 >> 50)
	f.added.Add(1)
	return false
}

// small returns the word and the bit for one of the hashes of a key, in a filter
// without blocks.
func (f *Filter) small(hash Key) (word *uint64, mask uint64) {
	i, rest := bits.Mul64(uint64(hash), uint64(len(f.words)))
	return &f.words[i], 1 << (rest >> 58)
}

// step is how far each hash of a key is from the one before.
func (k Key) step() Key { return k*golden | 1 }

func (f *Filter) smallHas(k Key) bool {
	for i := range Key(probes) {
		if word, mask := f.small(k + i*k.step()); atomic.LoadUint64(word)&mask == 0 {
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
		word, mask := f.small(k + i*k.step())
		atomic.OrUint64(word, mask)
	}
	f.added.Add(1)
	return false
}

// Reset takes all keys out. A key that is added meanwhile may stay in part.
func (f *Filter) Reset() {
	f.added.Store(0)
	for i := range f.words {
		atomic.StoreUint64(&f.words[i], 0)
	}
}
