package sqlite

import (
	"encoding/binary"

	"shuultuur/event"
)

// Texts are found through their grams, the pieces of four bytes in them. A segment is divided
// into 64 blocks of rows. For each of 32768 hashes of grams, one word says in which of the
// blocks such grams occur. A search for a text reads the words of its grams; blocks that lack
// one of them cannot contain the text.

const (
	blockRows  = segmentRows / 64
	gramBits   = 15
	gramParts  = 16
	partWords  = 1 << gramBits / gramParts // words in one part
	blockWords = 1 << gramBits / 64        // words in which a block collects its grams
)

// gramHash hashes four bytes. Letters hash the same in either case, and so do
// some other pairs of bytes, which only costs precision.
func gramHash(x uint32) uint32 { return (x | 0x20202020) * 0x9e3779b1 >> (32 - gramBits) }

// grams collects the grams of a segment, block by block.
type grams struct {
	block [64][blockWords]uint64
	used  int // blocks
}

func (g *grams) begin() {
	clear(g.block[:g.used])
	g.used = 0
}

// add adds those texts of row i of the segment that have no dictionary.
func (g *grams) add(i int, r *event.Row) {
	i /= blockRows
	g.used = i + 1
	b := &g.block[i]
	addGrams(b, r.URL)
	addGrams(b, r.Evidence)
	addGrams(b, r.Note)
}

func addGrams(b *[blockWords]uint64, s string) {
	for ; len(s) >= 8; s = s[5:] { // these are five grams; the next begins with the sixth byte
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h0, h1, h2, h3, h4 := gramHash(uint32(x)), gramHash(uint32(x>>8)), gramHash(uint32(x>>16)), gramHash(uint32(x>>24)), gramHash(uint32(x>>32))
		b[h0>>6] |= 1 << (h0 & 63)
		b[h1>>6] |= 1 << (h1 & 63)
		b[h2>>6] |= 1 << (h2 & 63)
		b[h3>>6] |= 1 << (h3 & 63)
		b[h4>>6] |= 1 << (h4 & 63)
	}
	for ; len(s) >= 4; s = s[1:] {
		h := gramHash(gram(s))
		b[h>>6] |= 1 << (h & 63)
	}
}

func gram(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// parts yields the words of all grams.
func (g *grams) parts(yield func(part int, blob []byte) bool) {
	var m [64]uint64
	buf := make([]byte, 0, 8*partWords)
	for w := range blockWords {
		for b := range m {
			m[b] = g.block[b][w]
		}
		transpose(&m)
		for _, word := range m {
			buf = binary.LittleEndian.AppendUint64(buf, word)
		}
		if len(buf) == 8*partWords {
			if !yield(partGrams+w*64/partWords, buf) {
				return
			}
			buf = buf[:0]
		}
	}
}

// transpose mirrors a matrix of 64 × 64 bits at its diagonal, by exchanging
// ever smaller squares.
func transpose(m *[64]uint64) {
	mask := uint64(1<<32 - 1)
	for j := 32; j > 0; j, mask = j>>1, mask^mask<<(j>>1) {
		for k := 0; k < 64; k = (k + j + 1) &^ j {
			t := (m[k]>>j ^ m[k+j]) & mask
			m[k] ^= t << j
			m[k+j] ^= t
		}
	}
}

// blocksWith returns the blocks, as bits, that may contain text. read returns a
// part of the segment, or nil if it is missing.
func blocksWith(text string, read func(part int) ([]byte, error)) (uint64, error) {
	blocks := ^uint64(0)
	for ; len(text) >= 4 && blocks != 0; text = text[1:] {
		h := int(gramHash(gram(text)))
		b, err := read(partGrams + h/partWords)
		if err != nil {
			return 0, err
		}
		if len(b) == 8*partWords {
			blocks &= binary.LittleEndian.Uint64(b[8*(h%partWords):])
		}
	}
	return blocks, nil
}
