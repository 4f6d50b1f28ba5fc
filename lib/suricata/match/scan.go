package match

import (
	"encoding/binary"
	"math/bits"
)

// Scan calls hit once for every pattern that occurs in data, and records its positions in seen.
func (f *Prefilter) Scan(data []byte, seen *Sight, hit func(pat int32)) (candidates int) {
	seen.reset(len(f.Patterns))
	if len(f.entries) > 0 && len(data) >= Gram {
		candidates = f.scanLong(data, seen, hit)
	} else if len(data) == Gram-1 {
		for _, p := range f.threes {
			if f.Patterns[p].Begins(data) && seen.mark(p) {
				hit(p)
			}
		}
	}
	for i := range f.few {
		if x := &f.few[i]; x.occursIn(data, f.Patterns[x.pat].Exact) && seen.mark(x.pat) {
			candidates++
			hit(x.pat)
		}
	}
	if f.pairs != nil {
		for i := 0; i+2 <= len(data); i++ {
			k := binary.LittleEndian.Uint16(data[i:]) | 0x2020
			if f.pairs[k>>6]>>(k&63)&1 == 0 {
				continue
			}
			candidates++
			for _, p := range f.short[k] {
				if !seen.full(p) && f.Patterns[p].Begins(data[i:]) && seen.mark(p) {
					hit(p)
				}
			}
		}
	}
	if f.single != nil {
		for i, c := range data {
			for _, p := range f.single[lower[c]] {
				if f.Patterns[p].Begins(data[i:]) && seen.mark(p) {
					hit(p)
				}
			}
		}
	}
	return candidates
}

func (f *Prefilter) scanLong(data []byte, seen *Sight, hit func(int32)) (candidates int) {
	i, groups := 0, f.groups
	if vectors {
		i, candidates = f.scanBlocks(data, seen, hit)
	}
	before := uint64(0) // value for the run two bytes before
	if i > 0 {
		before = uint64(groups.of(binary.LittleEndian.Uint32(data[i-2:])))
	}
	for ; i+12 <= len(data); i += 8 {
		d := data[i : i+12 : i+12]
		v, w := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[4:])
		x := uint64(groups.of(uint32(v))) | uint64(groups.of(uint32(v>>16)))<<16 |
			uint64(groups.of(uint32(w)))<<32 | uint64(groups.of(uint32(w>>16)))<<48
		if c := (x<<16 | before) & (x >> 8) & 0x00ff00ff00ff00ff; c != 0 {
			candidates += f.four(data, i-2, c, seen, hit)
		}
		before = x >> 48
	}
	for i = max(0, i-2); i+Gram <= len(data); i++ { // every position, because a pattern of four bytes may be at the end
		key := binary.LittleEndian.Uint32(data[i:]) & runMask
		if uint8(groups.of(key)) != 0 {
			candidates++
			f.comparePatterns(data, i, key, seen, hit)
		}
	}
	return candidates
}

// manyBlocks is the number of blocks of 32 bytes that are sieved at a time, manySuspects the
// number of candidates that are examined together, and manySimilar that of entries.
const (
	manyBlocks   = 64
	manySuspects = 64
	manySimilar  = 128
)

// A suspect is a position where a pattern may be, with its bucket and the first run in that.
type suspect struct {
	at       int
	key      uint32
	from, to int32
	first    run
}

// A sieve is the memory of scanBlocks.
type sieve struct {
	values   [1 + manyBlocks*16]uint16
	out      [manyBlocks]uint64
	suspects [manySuspects]suspect
	similar  [manySimilar]similar
}

// A similar is a position that has the four bytes of an entry.
type similar struct {
	at    int
	entry int32
}

// scanBlocks is scanLong with vector instructions, for whole blocks, and returns where it
// ended.
func (f *Prefilter) scanBlocks(data []byte, seen *Sight, hit func(int32)) (end, candidates int) {
	s := &seen.sieve
	n := 0
	s.values[0] = 0
	for {
		blocks := min(manyBlocks, (len(data)-end-2)/32)
		if blocks <= 0 {
			f.examine(data, s.suspects[:n], seen, hit)
			return end, candidates
		}
		for _, x := range s.out[:sieveAVX2(&data[end], blocks, &f.groups[0], len(f.groups)-1, &s.values[0], &s.out[0])] {
			for which := uint32(x); which != 0; which &= which - 1 {
				i := end + int(x>>32) + 2*bits.TrailingZeros32(which) - 2
				candidates++
				s.suspects[n].at = i
				if n += f.mayBe(data, i, s.values[(i+2-end)/2]); n == len(s.suspects) {
					f.examine(data, s.suspects[:n], seen, hit)
					n = 0
				}
			}
		}
		end += blocks * 32
		s.values[0] = s.values[blocks*16]
	}
}

// examine compares patterns at suspects. It takes each step for all of them before the next
// step, so that memory accesses overlap.
func (f *Prefilter) examine(data []byte, suspects []suspect, seen *Sight, hit func(int32)) {
	for n := range suspects {
		x := &suspects[n]
		x.key = binary.LittleEndian.Uint32(data[x.at:]) & runMask
		b := f.bucket(x.key)
		x.from, x.to = f.buckets[b], f.buckets[b+1]
	}
	for n := range suspects {
		x := &suspects[n]
		x.first = f.runs[x.from]
	}
	all := seen.sieve.similar[:0]
	for n := range suspects {
		x := &suspects[n]
		for k, r := x.from, x.first; k < x.to; r = f.runs[k] { // there is a run after the last
			if k++; r.key != x.key {
				continue
			}
			if all = append(all, similar{x.at, r.entry}); len(all) == manySimilar {
				f.compareAll(data, all, seen, hit)
				all = all[:0]
			}
		}
	}
	f.compareAll(data, all, seen, hit)
}

// compareAll compares the patterns of entries.
func (f *Prefilter) compareAll(data []byte, all []similar, seen *Sight, hit func(int32)) {
	kept := 0
	for _, m := range all {
		all[kept] = m
		kept += f.entries[m.entry].mayBe(data, m.at)
	}
	for _, m := range all[:kept] {
		f.compare(data, m.at, &f.entries[m.entry], seen, hit)
	}
}

// four examines four positions from i on, two apart. which has 16 bits for each, which are 0
// if no pair of runs may begin there.
func (f *Prefilter) four(data []byte, i int, which uint64, seen *Sight, hit func(int32)) (candidates int) {
	for ; which != 0; which >>= 16 {
		if uint16(which) != 0 {
			candidates++
			f.comparePatterns(data, i, binary.LittleEndian.Uint32(data[i:])&runMask, seen, hit)
		}
		i += 2
	}
	return candidates
}

// comparePatterns compares the patterns whose four bytes may be at position i.
func (f *Prefilter) comparePatterns(data []byte, i int, key uint32, seen *Sight, hit func(int32)) {
	b := f.bucket(key)
	for _, r := range f.runs[f.buckets[b]:f.buckets[b+1]] {
		if r.key == key && f.entries[r.entry].mayBe(data, i) > 0 {
			f.compare(data, i, &f.entries[r.entry], seen, hit)
		}
	}
}

// mayBe returns 1 unless the eight bytes differ, for four bytes at position i.
func (x *entry) mayBe(data []byte, i int) int {
	if from := i + int(x.to); from >= 0 && from+8 <= len(data) && (binary.LittleEndian.Uint64(data[from:])|x.fold)&x.mask != x.eight {
		return 0
	}
	return 1
}

// compare compares the pattern of an entry whose four bytes are at position i.
func (f *Prefilter) compare(data []byte, i int, x *entry, seen *Sight, hit func(int32)) {
	at := i - int(x.off)
	if !seen.full(x.pat) && at >= 0 && at <= len(data) && f.Patterns[x.pat].Begins(data[at:]) && seen.add(x.pat, at) {
		hit(x.pat)
	}
}
