//go:build !small

package picture

import (
	"math/bits"
	"slices"
)

// An index finds the hash nearest to another one by multi-index hashing (Norouzi, Punjani and
// Fleet 2012): it cuts hashes into bands, because two that differ in few bits differ in very
// few bits in at least one band.
//
// Each band has a table: for the first bits of its value it has the position of the hashes in
// a list of entries. An entry is the number of a hash in 24 bits and the rest of the band's
// value in eight, so that a hash is compared only if the whole band is near enough. A million
// PDQ hashes take 32 MB, eleven bands 49 MB, and lines 4 MB.
type index struct {
	words  int // 64-bit words of a hash
	within int // bits in which a match may differ
	all    []uint64
	lines  []uint32
	bands  []band
	most   []int // bits that may differ in each band; below 0 the band is not searched
}

const (
	maxIndexed = 1 << 24 // hashes, because entries have 24 bits for their number
	maxFlips   = 3       // bits within a band; for more, all hashes are compared
	fewHashes  = 4096
)

// A band is a run of bits of all hashes.
type band struct {
	from, width, rest int // first bit, number of bits, and how many of them are not in the table
	table             []uint32
	entries           []uint32
	masks             []uint32 // combinations of bits in the table that may differ
}

func (x *index) len() int { return len(x.lines) }

func (x *index) hash(i int) []uint64 { return x.all[i*x.words:][:x.words] }

// build makes the bands, unless there are only few hashes.
func (x *index) build() {
	x.all, x.lines = slices.Clip(x.all), slices.Clip(x.lines)
	n, total := x.len(), 64*x.words
	if n <= fewHashes {
		return
	}
	// A band much narrower than the logarithm of the number of hashes has long lists of
	// entries; for a wider one the table is wasteful.
	count := (total + 12) / 23
	flips, left := x.within/count, x.within%count
	if flips > maxFlips {
		return
	}
	from := 0
	for i := range count {
		b := band{from: from, width: total*(i+1)/count - from}
		b.rest = max(0, b.width-max(b.width-8, bits.Len(uint(n))-4))
		from += b.width
		// Of hashes that differ in flips*count+left bits, one of the first left+1 bands
		// differs in at most flips bits, or one of the others in fewer.
		most := flips
		if i > left {
			most--
		}
		x.most = append(x.most, most)
		if most >= 0 {
			b.fill(x)
			b.masks = masks(0, b.width-b.rest, 0, most)
		}
		x.bands = append(x.bands, b)
	}
}

// value returns the band's bits of a hash.
func (b *band) value(h []uint64) uint32 {
	w, s := b.from>>6, b.from&63
	v := h[w] >> s
	if s+b.width > 64 {
		v |= h[w+1] << (64 - s)
	}
	return uint32(v & (1<<b.width - 1))
}

// fill sorts the hashes by the first bits of the band.
func (b *band) fill(x *index) {
	n := x.len()
	b.table = make([]uint32, 1<<(b.width-b.rest)+1)
	for i := range n {
		b.table[b.value(x.hash(i))>>b.rest+1]++
	}
	for i := range b.table[1:] {
		b.table[i+1] += b.table[i]
	}
	b.entries = make([]uint32, n)
	next := slices.Clone(b.table)
	for i := range n {
		v := b.value(x.hash(i))
		at := &next[v>>b.rest]
		b.entries[*at] = uint32(i)<<8 | v&(1<<b.rest-1)
		*at++
	}
}

// nearest returns the nearest hash that differs in at most x.within bits.
func (x *index) nearest(h ...uint64) (at, distance int, ok bool) {
	if x.len() == 0 {
		return 0, 0, false
	}
	s := search{x: x, h: h, distance: x.within + 1}
	if x.bands == nil {
		s.all()
	}
	for i := range x.bands {
		if s.distance == 0 {
			break
		}
		b := &x.bands[i]
		s.band(b, x.most[i])
	}
	return s.at, s.distance, s.distance <= x.within
}

// closest is like nearest but without a limit: it compares all hashes.
func (x *index) closest(h ...uint64) (at, distance int) {
	s := search{x: x, h: h, distance: 64*x.words + 1}
	s.all()
	return s.at, s.distance
}

type search struct {
	x            *index
	h            []uint64
	at, distance int
}

func (s *search) all() {
	for i := range s.x.lines {
		s.look(i)
	}
}

func (s *search) look(i int) {
	d := 0
	for k, w := range s.x.hash(i) {
		d += bits.OnesCount64(w ^ s.h[k])
	}
	if d < s.distance {
		s.at, s.distance = i, d
	}
}

// band compares the hashes whose band differs in at most most bits. Memory latency dominates:
// three short loops let the processor wait for many reads at a time.
func (s *search) band(b *band, most int) {
	if most < 0 {
		return
	}
	v := b.value(s.h)
	first, rest := v>>b.rest, uint8(v&(1<<b.rest-1))
	type run struct{ from, to uint32 }
	var runs [64]run
	var ids [256]uint32
	found := 0
	flush := func() {
		for _, id := range ids[:found] {
			s.look(int(id))
		}
		found = 0
	}
	for masks := b.masks; len(masks) > 0; {
		n := min(len(masks), len(runs))
		for i, m := range masks[:n] {
			runs[i] = run{b.table[first^m], b.table[first^m+1]}
		}
		for i, r := range runs[:n] {
			left := most - bits.OnesCount32(masks[i])
			for _, e := range b.entries[r.from:r.to] {
				if bits.OnesCount8(uint8(e)^rest) > left {
					continue
				}
				ids[found] = e >> 8
				if found++; found == len(ids) {
					flush()
				}
			}
		}
		masks = masks[n:]
	}
	flush()
}

// masks returns mask with every combination of at most flips more bits, from bit next to
// width.
func masks(mask uint32, width, next, flips int) []uint32 {
	all := []uint32{mask}
	for bit := next; bit < width && flips > 0; bit++ {
		all = append(all, masks(mask|1<<bit, width, bit+1, flips-1)...)
	}
	return all
}
