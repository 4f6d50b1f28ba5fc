// Package bloom remembers keys in a fixed number of bits: it never forgets one
// that was added, and takes about 1 of 100 others for one of them.
//
// Data moves so. A key is hashed once to 64 bits ([Sum]). [Filter.Add] sets 7
// bits chosen by the hash, [Filter.Has] looks whether all of them are set. A
// [Pair] is two filters that take turns, so that what it remembers is a window
// over the last keys.
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
	bitsPerKey = 9.64
	probes     = 7
)

// A Key is the hash of a key, in which every bit depends on all of it.
type Key uint64

// Sum returns the hash of s.
func Sum(s string) Key { return Key(xxh3.HashString(s)) }

// A Filter is a Bloom filter.
type Filter struct {
	words []uint64
	size  uint64 // bits
	keys  int    // it is made for
	added atomic.Int64
}

// New returns a filter for n keys: when it holds so many, at most 1 % of other
// keys are found in it. It takes 9.64 bits for each.
func New(n int) *Filter {
	n = max(n, 1)
	words := max(1, int(float64(n)*bitsPerKey/64))
	return &Filter{words: make([]uint64, words), size: uint64(words) * 64, keys: n}
}

// Bits is the size of the filter in bits.
func (f *Filter) Bits() int { return int(f.size) }

// Added returns how many keys were added that it did not have. Keys that it
// seemed to have are not counted, about 1 of 100 when the filter is full.
func (f *Filter) Added() int { return int(f.added.Load()) }

// at returns the bit for a hash: the upper half of hash × size is a number below
// size, for which no division is needed.
func (f *Filter) at(hash uint64) uint64 {
	hi, _ := bits.Mul64(hash, f.size)
	return hi
}

// bit returns a number whose lowest bit is that for a hash.
func (f *Filter) bit(hash uint64) uint64 {
	i := f.at(hash)
	return atomic.LoadUint64(&f.words[i>>6]) >> (i & 63)
}

// step is how far each hash of a key is from the one before.
func (k Key) step() uint64 { return uint64(k)*0x9e3779b97f4a7c15 | 1 }

// Has says whether k was added. It may be wrong when it says yes.
func (f *Filter) Has(k Key) bool {
	a, b := uint64(k), k.step()
	// Three bits are fetched together: half of the keys that are not there end
	// with any one, and the processor would guess wrong.
	found := f.bit(a) & f.bit(a+b) & f.bit(a+2*b)
	if found&1 == 0 {
		return false
	}
	found &= f.bit(a+3*b) & f.bit(a+4*b) & f.bit(a+5*b) & f.bit(a+6*b) // up to probes
	return found&1 != 0
}

// Add adds k and says whether the filter had it already, or seemed to.
func (f *Filter) Add(k Key) (had bool) {
	a, b := uint64(k), k.step()
	var at [probes + 1]uint64 // of bits that are not set; a place more for what comes behind the last
	missing := uint64(0)
	for range probes { // fetched together, and without a branch for each, which the processor would guess wrong
		i := f.at(a)
		at[missing&probes] = i
		missing += ^(atomic.LoadUint64(&f.words[i>>6]) >> (i & 63)) & 1
		a += b
	}
	if missing == 0 {
		return true
	}
	for _, i := range at[:missing] {
		atomic.OrUint64(&f.words[i>>6], 1<<(i&63))
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
