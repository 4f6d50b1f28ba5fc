package multimatch

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// A model estimates how likely a window is in ordinary text. It is a Markov chain, in which
// each byte depends on the two before it, learned from the patterns themselves and from common
// words.
type model struct {
	three [65536]float32 // frequencies of three bytes, by a hash of them
	two   [65536]float32 // of two bytes, exact
	one   [256]float32
	all   float32
}

// commonplace stands for ordinary text: windows that resemble it are bad ones. In each row the
// most frequent words come first; word n counts weight/(n+3) times, by Zipf's law.
var commonplace = [...]struct {
	weight float32
	words  string
}{
	{4000, `the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know get through back much before go good new write our used me man too any day same right look think also around another came come work three word must because does part even place well such here take why things help put years different away again off went old number great tell men say small every found still between name should home big give air line set own under read last never us left end along while might next sound below saw something thought both few those always looked show large often together asked house world going want school important until form food keep children feet land side without boy once animals life enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts country father let night following picture being study second eyes soon times story since white days ever paper hard near sentence better best across during today others however sure means knew try told young miles ways thing whole hear example heard several change answer room sea against top turned learn point city play toward five using himself usually government company system program service group information state public health market business`},
	{1500, `com www http https html news search contact about us privacy policy terms service cookies share facebook twitter email login sign account menu close next previous comments posted by read more related articles article photo video image script text main post content site web online free download click here all rights reserved copyright january monday updated ago hours`},
	{500, `de la que el en los les des et une pour dans par sur`},
	{500, `der die und das den von zu mit ist nicht auf ein`},
	{300, `het van een och att det som er på`},
	{500, `на и в что с по для это как из`},
}

func learn(patterns [][]byte) *model {
	m := new(model)
	for _, p := range patterns {
		m.count(p, 1)
	}
	for _, row := range commonplace {
		for n, word := range strings.Fields(row.words) {
			m.count([]byte(" "+word+" "), row.weight/float32(n+3))
		}
	}
	return m
}

func (m *model) count(p []byte, weight float32) {
	for i, c := range p {
		m.one[c] += weight
		m.all += weight
		if i >= 1 {
			m.two[uint16(p[i-1])<<8|uint16(c)] += weight
		}
		if i >= 2 {
			m.three[trigram(p[i-2:])] += weight
		}
	}
}

func trigram(p []byte) uint16 {
	return uint16((uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16) * mul4 >> 16)
}

// chance returns a rough estimate of the frequency of window w. A byte that was never seen
// after the two bytes before it is estimated by one byte, or by none.
func (m *model) chance(w []byte) float32 {
	p := (m.one[w[0]] + 0.1) / (m.all + 1)
	for i := 1; i < len(w); i++ {
		q := (m.one[w[i]] + 0.1) / (m.all + 1)
		pair := uint16(w[i-1])<<8 | uint16(w[i])
		q = (m.two[pair] + 20*q) / (m.one[w[i-1]] + 20)
		if i >= 2 {
			q = (m.three[trigram(w[i-2:])] + 10*q) / (m.two[uint16(w[i-2])<<8|uint16(w[i-1])] + 10)
		}
		p *= q
	}
	return p
}

// classEntries collects the entries of one class before they are packed.
type classEntries struct {
	entries []entry
	hash    []uint32
	load    []uint8 // entries by bucket
}

func newFiling(bits int) *classEntries { return &classEntries{load: make([]uint8, 1<<bits)} }

func (f *classEntries) add(hash uint32, e entry) {
	f.hash = append(f.hash, hash)
	f.entries = append(f.entries, e)
	if f.load[hash] < math.MaxUint8 {
		f.load[hash]++
	}
}

// pack sorts the entries by bucket, with a counting sort.
func (f *classEntries) pack() buckets {
	b := buckets{start: make([]uint32, len(f.load)+1), entries: make([]entry, len(f.entries))}
	for _, h := range f.hash {
		b.start[h+1]++
	}
	for i := 1; i < len(b.start); i++ {
		b.start[i] += b.start[i-1]
	}
	next := slices.Clone(b.start)
	for i, h := range f.hash {
		b.entries[next[h]] = f.entries[i]
		next[h]++
	}
	return b
}

// file adds each pattern to the filter's tables.
func (s *Set) file(patterns [][]byte) {
	m := learn(patterns)
	short, middle, long := newFiling(shortBits), newFiling(middleBits), newFiling(longBits)
	for i, p := range patterns {
		id := uint32(i)
		switch {
		case len(p) == 1:
			s.hasOne = true
			s.one[p[0]] = id + 1
		case len(p) < 4:
			s.addNear(p)
			short.add(hash2(binary.LittleEndian.Uint16(p)), newEntry(p, id, 0))
		case len(p) < 7:
			off := m.best(p, 4, 0, 1, middle.load, func(w []byte) uint32 {
				return hash4(binary.LittleEndian.Uint32(w))
			})
			s.addNear(p[off:])
			middle.add(hash4(binary.LittleEndian.Uint32(p[off:])), newEntry(p, id, off))
		default:
			for first := range 2 {
				off := m.best(p, 6, first, 2, long.load, func(w []byte) uint32 { return windowHash(w) >> (32 - longBits) })
				h := windowHash(p[off:])
				s.addFar(h)
				long.add(h>>(32-longBits), newEntry(p, id, off))
			}
		}
	}
	s.shorts, s.middles, s.longs = short.pack(), middle.pack(), long.pack()
}

// fileWord adds w, a blank and the beginning of a word, to the filter's tables.
func (s *Set) fileWord(w []byte) {
	for c := 0; len(w) < 4 && c < 256; c++ {
		s.fileWord(append(slices.Clip(w), byte(c)))
	}
	if len(w) < 4 {
		return
	}
	x := binary.LittleEndian.Uint32(w)
	s.addNear(w)
	h := uint64(hash4(x))
	if len(w) > 4 {
		h = hash5(uint64(w[4])<<32 | uint64(x))
	}
	s.words[h>>6] |= 1 << (h & 63)
}

// windowHash returns the hash of the first six bytes of w.
func windowHash(w []byte) uint32 {
	return farHash(uint64(binary.LittleEndian.Uint32(w)) | uint64(binary.LittleEndian.Uint16(w[4:]))<<32)
}

// best returns the offset of the window of n bytes under which to file p, among first,
// first+step, …. It prefers a rare window in a bucket with few entries, so that no text can
// cause many comparisons.
func (m *model) best(p []byte, n, first, step int, load []uint8, hash func([]byte) uint32) int {
	best, least := first, float32(math.Inf(1))
	for off := first; off+n <= len(p); off += step {
		w := p[off : off+n]
		crowd := float32(load[hash(w)])
		if cost := (m.chance(w) + 1e-9) * (1 + crowd*crowd); cost < least {
			best, least = off, cost
		}
	}
	return best
}
