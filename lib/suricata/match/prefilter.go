package match

import (
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"
	"sort"

	"shuultuur/lib/suricata/rule"
)

// A Prefilter finds which of many patterns occur in a buffer.
//
// A scan hashes the four bytes at every second position, and examines only positions where two
// runs, two bytes apart, may belong to the same pattern. A table maps each hash to groups of
// patterns: those for which such a run may be the first, and those for which it may be the
// second. So each pattern has two pairs of runs in the table, one at an even position in it
// and one at an odd position: the pairs that are rarest in web traffic. A pattern too short
// for a pair has one run, in its own group, for which any run may be the second. If a run
// extends beyond the pattern, the table has it with every byte that may be before or after.
// Before a pattern is compared, a second hash of both runs has to be known.
// Patterns of one and two bytes are searched for one by one, or, if there are many, in
// separate tables.
//
// On processors with AVX2, vector instructions hash 16 positions at a time, and positions to
// examine are first collected.
//
// This resembles the filter in Hyperscan (Wang and others, Hyperscan: A Fast Multi-pattern
// Regex Matcher for Modern CPUs, 2019), with hashes instead of shifts.
type Prefilter struct {
	groups   groups   // nil if no pattern has a hash
	buckets  []int32  // index of the first run of each
	shift    uint8    // of the hash for buckets
	runs     []run    // by bucket
	known    []uint32 // bits of pairs of runs, which most false candidates lack
	entries  []entry
	pairs    *[1 << 10]uint64
	short    map[uint16][]int32 // two bytes, folded, to patterns
	single   *[256][]int32
	Patterns []Pattern
	Longest  int // length of the longest pattern in bytes
	few      []rarePattern
	threes   []int32 // patterns of three bytes, for data of three bytes
}

// A Pattern is a pattern of a prefilter. It is folded unless it is exact.
type Pattern struct {
	Text  string
	Exact bool // case matters
}

// Begins reports whether data begins with the pattern.
func (p *Pattern) Begins(data []byte) bool {
	if len(data) < len(p.Text) {
		return false
	}
	if p.Exact {
		return string(data[:len(p.Text)]) == p.Text
	}
	for i := range len(p.Text) {
		if lower[data[i]] != p.Text[i] {
			return false
		}
	}
	return true
}

// PatternOf returns the pattern for the whole content.
func PatternOf(c *rule.Content) Pattern { return NewPattern(c.Pattern, !c.NoCase) }

func NewPattern(text []byte, exact bool) Pattern {
	if !exact {
		text = Fold(text)
	}
	return Pattern{string(text), exact}
}

// A rarePattern is one of a few patterns, or of a few short ones. It is searched for by its rarest
// bytes, which is faster than examining every position.
type rarePattern struct {
	pat           int32
	text          []byte
	first, second int // positions of its rarest bytes
}

// maxFew is the number of patterns, or of short ones, up to which they are searched for one by
// one.
const maxFew = 8

// A run is four bytes, folded, that may be where an entry says. Most lookups need nothing
// else.
type run struct {
	key   uint32
	entry int32
}

// An entry is a pattern and the position of four of its bytes in it. eight has the eight bytes
// of the pattern at a position relative to those four. Most false candidates differ in them and
// need no full comparison.
type entry struct {
	eight, mask uint64
	fold        uint64 // the bits of case, if case does not matter
	pat         int32
	off, to     int16
}

const multiplier = 0x9E3779B1

// The number of slots of a table depends on its patterns: a table should be so small that it stays
// in the cache, and so large that few candidates are false. The largest has 128 KiB.
const (
	leastSlots = 1 << 6
	mostSlots  = 1 << 16
	runSlots   = 8 // slots for each run
)

// groups has the groups of patterns, by slot. Their number is a power of two.
type groups []uint16

// pairGroups is the number of groups of patterns with pairs. In a slot they are bits of the
// lower byte for the first run, of the upper byte for the second. The bit after them marks
// single runs.
const pairGroups = 7

// pair is the length of two runs together, in bytes.
const pair = Gram + 2

// runMask has the bits of a run that tables use. It folds case and has five bits of the outer
// bytes, so that patterns with any byte there take less room.
const runMask = 0x1fdfdf1f

// slot returns the slot of a run.
func (g groups) slot(run uint32) uint32 {
	return run & runMask * multiplier >> 16 & uint32(len(g)-1)
}

// of returns the groups of a run.
func (g groups) of(run uint32) uint16 { return g[g.slot(run)] }

// Gram is the number of bytes of a pattern that are hashed.
const Gram = 4

// NewPrefilter compiles patterns. They are reported by their index.
func NewPrefilter(patterns []Pattern) *Prefilter {
	f := &Prefilter{Patterns: patterns}
	if len(patterns) <= maxFew { // a table would not be worth its memory
		for i := range patterns {
			if p := patterns[i].Text; len(p) > 0 {
				f.few = append(f.few, newFew(int32(i), patterns[i].Text))
				f.Longest = max(f.Longest, len(p))
			}
		}
		return f
	}
	long, short := 0, 0 // number of runs of four bytes, and of patterns that have none
	for i := range patterns {
		n := len(patterns[i].Text)
		f.Longest = max(f.Longest, n)
		switch {
		case n > Gram:
			long += 2
		case n == Gram:
			long += 1 + 1<<5
		case n == Gram-1:
			long += 2 << 5
			f.threes = append(f.threes, int32(i))
		case n > 0:
			short++
		}
	}
	f.shift = uint8(32 - max(4, bits.Len(uint(long))))
	nb := 1 << (32 - f.shift)
	if long > 0 {
		f.known = make([]uint32, nb*knownBits/32)
		f.groups = make(groups, min(max(1<<bits.Len(uint(long*runSlots)), leastSlots), mostSlots))
		for i := range f.groups { // any run may follow a single run
			f.groups[i] = 1 << (pairGroups + 8)
		}
	}
	for i := range patterns {
		p := Fold([]byte(patterns[i].Text))
		if len(p) > 0 && len(p) < Gram-1 && short <= maxFew {
			f.few = append(f.few, newFew(int32(i), patterns[i].Text))
			continue
		}
		f.add(int32(i), p)
	}
	sort.Slice(f.runs, func(i, j int) bool { return f.bucket(f.runs[i].key) < f.bucket(f.runs[j].key) }) // slices.SortFunc would be compiled for this type
	f.buckets = make([]int32, nb+1)
	for i := range f.runs {
		f.buckets[f.bucket(f.runs[i].key)+1] = int32(i + 1)
	}
	for b := range nb { // an empty bucket ends where the one before ends
		f.buckets[b+1] = max(f.buckets[b+1], f.buckets[b])
	}
	f.runs, f.entries = slices.Clone(append(f.runs, run{})), slices.Clone(f.entries) // without spare capacity; a run after the last bucket
	return f
}

// bucket returns the bucket for runs of four bytes.
func (f *Prefilter) bucket(key uint32) uint32 { return key * multiplier >> f.shift }

// knownBits is the number of bits in known for each bucket.
const knownBits = 16

// bit returns the bit in known of the six bytes that two runs have. Like runMask, it uses five
// bits of the outer bytes.
func (f *Prefilter) bit(first uint32, last uint16) (word, bit uint32) {
	h := (first&0x1f|first&0xffffff00|0x20202000)*multiplier ^ uint32(last&0x1fff|0x2020)*0x85EBCA6B
	return h >> 12 & uint32(len(f.known)-1), h >> 7 & 31
}

// mayBe returns 1 if both runs at position i may be those of a pattern, or the first one a single
// run.
func (f *Prefilter) mayBe(data []byte, i int, value uint16) int {
	d := data[i : i+pair : i+pair]
	first := binary.LittleEndian.Uint32(d)
	word, bit := f.bit(first, binary.LittleEndian.Uint16(d[Gram:]))
	alone, its := f.bit(first&runMask, 0)
	return int(f.known[word]>>bit&1 | f.known[alone]>>its&uint32(value>>pairGroups)&1)
}

func newFew(i int32, text string) rarePattern {
	x := rarePattern{pat: i, text: []byte(text)}
	x.first, x.second = rarestBytes(Fold(x.text))
	return x
}

// occursIn reports whether the pattern is in data.
func (x *rarePattern) occursIn(data []byte, exact bool) bool {
	if len(data) < len(x.text) {
		return false
	}
	if x.first == x.second || common(lower[x.text[x.first]]) <= rareByte {
		return findBy(data, x.text, x.first, !exact) >= 0
	}
	return findByTwo(data, x.text, x.first, x.second, !exact) >= 0
}

func (f *Prefilter) add(i int32, p []byte) {
	switch {
	case len(p) >= pair:
		for parity := range 2 {
			f.pair(i, p, rarest(p, parity))
		}
	case len(p) > Gram:
		f.pair(i, p, 0)
		f.pair(i, p, -1)
	case len(p) == Gram:
		f.enter(i, 0)
		f.first(binary.LittleEndian.Uint32(p), 1<<pairGroups)
		f.pair(i, p, -1)
	case len(p) == Gram-1:
		for _, off := range []int{0, -1} {
			f.enter(i, off)
			for key := range runs(p, off) {
				f.first(key, 1<<pairGroups)
			}
		}
	case len(p) >= 2:
		if f.pairs == nil {
			f.pairs, f.short = new([1 << 10]uint64), map[uint16][]int32{}
		}
		k := binary.LittleEndian.Uint16(p) | 0x2020
		f.pairs[k>>6] |= 1 << (k & 63)
		f.short[k] = append(f.short[k], i)
	case len(p) == 1:
		if f.single == nil {
			f.single = new([256][]int32)
		}
		f.single[p[0]] = append(f.single[p[0]], i)
	}
}

// pair adds two runs of a pattern to the table, at position off in it and two bytes after.
func (f *Prefilter) pair(i int32, p []byte, off int) {
	f.enter(i, off)
	group := uint16(0)
	for key := range runs(p, off) {
		if group == 0 {
			group = 1 << (key * multiplier >> 16 % pairGroups)
		}
		f.first(key, group)
	}
	for key := range runs(p, off+2) {
		f.groups[f.groups.slot(key)] |= group << 8
		for first := range runs(p, off) {
			word, bit := f.bit(first, uint16(key>>16))
			f.known[word] |= 1 << bit
		}
	}
}

// runs iterates over the runs possible at a position of a pattern. A byte before or after the
// pattern can be any; bytes that fold to the same one are included once.
func runs(p []byte, off int) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		key, outside := uint32(0), -1
		for k := range Gram {
			if at := off + k; at >= 0 && at < len(p) {
				key |= uint32(p[at]) << (8 * k)
			} else {
				outside = 8 * k
			}
		}
		if outside < 0 {
			yield(key)
			return
		}
		for c := range uint32(1 << 5) {
			if !yield(key | c<<outside) {
				return
			}
		}
	}
}

// enter adds a pattern with position off in it to the table.
func (f *Prefilter) enter(pat int32, off int) {
	p := &f.Patterns[pat]
	at := rarestEight(p.Text, off)
	x := entry{pat: pat, off: int16(off), to: int16(at - off)}
	if !p.Exact {
		x.fold = 0x2020202020202020
	}
	for w := 0; w < 8 && at+w < len(p.Text); w++ {
		x.eight |= (uint64(p.Text[at+w]) | x.fold&0xff) << (8 * w)
		x.mask |= 0xff << (8 * w)
	}
	f.entries = append(f.entries, x)
}

// rarestEight returns the position of the eight bytes of a pattern that are rarest in web traffic,
// not counting those of the pair at position off.
func rarestEight(p string, off int) (at int) {
	most := -1
	for i := 0; i == 0 || i+8 <= len(p) && i < 1<<14; i++ {
		sum := 0
		for k := i; k < min(i+8, len(p)); k++ {
			if k < off || k >= off+pair {
				sum += anyByte - common(lower[p[k]])
			}
		}
		if sum > most {
			most, at = sum, i
		}
	}
	return at
}

// first adds four bytes that may be at the position of the last entry to the table, as the
// first run of patterns of a group.
func (f *Prefilter) first(key uint32, group uint16) {
	key &= runMask
	f.groups[f.groups.slot(key)] |= group
	if group == 1<<pairGroups {
		word, bit := f.bit(key, 0)
		f.known[word] |= 1 << bit
	}
	f.runs = append(f.runs, run{key, int32(len(f.entries) - 1)})
}
