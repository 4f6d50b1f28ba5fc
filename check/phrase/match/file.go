package match

import (
	"encoding/binary"
	"math"
	"slices"
)

// A model says how likely a window is in ordinary text: a chain in which each
// byte depends on the one before, learned from the patterns themselves and
// from a handful of words that any page has.
type model struct {
	bits [256][256]float32 // bits of surprise of the second byte after the first
}

// commonplace stands for the text that is looked at: what it holds is likely,
// so windows that look like it are bad ones. Words are repeated by being
// frequent parts of others, so each is here once.
const commonplace = ` the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know get through back much before go good new write our used me man too any day same right look think also around another came come work three word must because does part even place well such here take why things help put years different away again off went old number great tell men say small every found still between name should home big give air line set own under read last never us left end along while might next sound below saw something thought both few those always looked show large often together asked house world going want school important until form food keep children feet land side without boy once animals life enough took sometimes four head above kind began almost live page got earth need far hand high year mother light parts country father let night following picture being study second eyes soon times story boys since white days ever paper hard near sentence better best across during today others however sure means knew try told young miles sun ways thing whole hear example heard several change answer room sea against top turned learn point city play toward five using himself usually
 com www http https html news search contact about us privacy policy terms service cookies share facebook twitter email login sign account menu close next previous comments posted by read more related articles photo video image script text main post content site web online free download click here all rights reserved copyright 2016 2024 january monday updated ago hours
 de la que el en los les des et une pour dans par sur der die und das den von zu mit ist nicht auf ein het van een och att det som som er og på i не на и в что с по для это как из `

func learn(patterns [][]byte) *model {
	var seen [256][256]uint32
	var sum [256]uint32
	count := func(p []byte, weight uint32) {
		for i := 1; i < len(p); i++ {
			seen[p[i-1]][p[i]] += weight
			sum[p[i-1]] += weight
		}
	}
	for _, p := range patterns {
		count(p, 1)
	}
	count([]byte(commonplace), 4)
	m := new(model)
	for a := range m.bits {
		for b := range m.bits[a] {
			m.bits[a][b] = float32(math.Log2(float64(sum[a]+64) / (float64(seen[a][b]) + 0.25)))
		}
	}
	return m
}

// rarity returns bits of surprise of window w: the more, the rarer it is.
func (m *model) rarity(w []byte) float32 {
	// The first byte counts as one that follows a blank or stands in a word.
	r := (m.bits[' '][w[0]] + m.bits['e'][w[0]]) / 2
	for i := 1; i < len(w); i++ {
		r += m.bits[w[i-1]][w[i]]
	}
	return r
}

// A filing collects the entries of one class before they are packed.
type filing struct {
	entries []entry
	hash    []uint32
	load    []uint8 // entries by bucket
}

func newFiling(bits int) *filing { return &filing{load: make([]uint8, 1<<bits)} }

func (f *filing) add(hash uint32, e entry) {
	f.hash = append(f.hash, hash)
	f.entries = append(f.entries, e)
	if f.load[hash] < math.MaxUint8 {
		f.load[hash]++
	}
}

// pack sorts the entries by bucket, counting.
func (f *filing) pack() buckets {
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

// file puts every pattern where the filter finds it.
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
			s.hasTwo = true
			w := binary.LittleEndian.Uint16(p)
			s.two[w>>3] |= 1 << (w & 7)
			short.add(hash2(w), entry{win: uint32(w), id: id})
		case len(p) < 7:
			off := m.best(p, 4, 0, 1, middle.load, func(w []byte) uint32 {
				return hash4(binary.LittleEndian.Uint32(w)) >> (32 - middleBits)
			})
			w := binary.LittleEndian.Uint32(p[off:])
			h := hash4(w)
			s.four[h>>19] |= 1 << (h >> 16 & 7)
			middle.add(h>>(32-middleBits), entry{win: w, id: id, off: uint32(off)})
		default:
			for first := range 2 {
				off := m.best(p, 6, first, 2, long.load, func(w []byte) uint32 {
					return uint32(hash6(window6(w)) >> (64 - longBits))
				})
				h := hash6(window6(p[off:]))
				s.long[h>>51] |= 1<<(h>>45&63) | 1<<(h>>39&63)
				w := binary.LittleEndian.Uint32(p[off:])
				long.add(uint32(h>>(64-longBits)), entry{win: w, id: id, off: uint32(off)})
			}
		}
	}
	s.shorts, s.middles, s.longs = short.pack(), middle.pack(), long.pack()
}

// window6 returns the first six bytes of w in the upper six of a word.
func window6(w []byte) uint64 {
	return uint64(binary.LittleEndian.Uint16(w))<<16 | uint64(binary.LittleEndian.Uint32(w[2:]))<<32
}

// best returns the offset of the window of n bytes to file p under, among
// first, first+step, …: the rarest, and away from crowded buckets, so that no
// text can lead to a long row of comparisons.
func (m *model) best(p []byte, n, first, step int, load []uint8, hash func([]byte) uint32) int {
	best, most := first, float32(math.Inf(-1))
	for off := first; off+n <= len(p); off += step {
		w := p[off : off+n]
		r := m.rarity(w) - 2*float32(load[hash(w)])
		if r > most {
			best, most = off, r
		}
	}
	return best
}
