package multimatch

import "encoding/binary"

const (
	blockLen = 32 // positions of a block
	ahead    = 8  // bytes after a block that are read with it
)

// Multipliers of the filters' hashes; filter_amd64.s has them as well.
const (
	nearMul = 0x9E37
	farMul1 = 0x9E3779B1
	farMul2 = 0x85EBCA77
)

// filters say at which positions of a text windows of patterns may begin.
type filters struct {
	near [1 << 16]byte   // for patterns of 2 to 6 bytes
	far  [1 << 14]uint32 // for longer ones; it is 4 % full with 5,000 patterns
}

// marks are the candidates in a block, a bit for each position; those of far are even.
type marks struct{ near, far uint32 }

// nearIndex returns which byte of the filter the first three bytes of w select.
func nearIndex(w uint32) uint32 { return uint32(uint16(w)*nearMul)&0xFFE0 | w>>16&0x1F }

// farHash returns the hash of the first six bytes of w. Its upper bits select a word of the
// filter, the next ones two bits of it.
func farHash(w uint64) uint32 { return uint32(w)*farMul1 + uint32(w>>16)*farMul2 }

// addNear files a window of p: its first four bytes or, if it has fewer, all of them.
func (f *filters) addNear(p []byte) {
	switch {
	case len(p) == 2:
		w := uint32(binary.LittleEndian.Uint16(p))
		for third := range uint32(32) {
			f.near[nearIndex(w|third<<16)] = 0xff
		}
	case len(p) == 3:
		f.near[nearIndex(uint32(binary.LittleEndian.Uint16(p))|uint32(p[2])<<16)] = 0xff
	default:
		w := binary.LittleEndian.Uint32(p)
		f.near[nearIndex(w)] |= 1 << (w >> 24 & 7)
	}
}

// addFar files the window with this hash.
func (f *filters) addFar(h uint32) { f.far[h>>18] |= 1<<(h>>13&31) | 1<<(h>>8&31) }

// sift marks the candidates in blocks at the beginning of text, which has ahead bytes more.
func (f *filters) sift(m []marks, text []byte) {
	_ = text[len(m)*blockLen+ahead-1]
	if vectors {
		siftAVX2(&m[0], &text[0], len(m), f)
		return
	}
	for i := range m {
		var near, far uint32
		block := (*[blockLen + ahead]byte)(text[i*blockLen:])
		for k := 0; k < blockLen; k += 4 {
			w := binary.LittleEndian.Uint64(block[k:])
			near |= (f.isNear(uint32(w))&1 | f.isNear(uint32(w>>8))&1<<1 | f.isNear(uint32(w>>16))&1<<2 | f.isNear(uint32(w>>24))&1<<3) << k
			far |= (f.isFar(farHash(w))&1 | f.isFar(farHash(w>>16))&1<<2) << k
		}
		m[i] = marks{near, far}
	}
}

// isNear returns in its lowest bit whether a pattern of 2 to 6 bytes may have its window at the
// four bytes w.
func (f *filters) isNear(w uint32) uint32 { return uint32(f.near[nearIndex(w)]) >> (w >> 24 & 7) }

// isFar is like isNear for longer patterns, given the hash of six bytes.
func (f *filters) isFar(h uint32) uint32 {
	x := f.far[h>>18]
	return x >> (h >> 13 & 31) & (x >> (h >> 8 & 31))
}
