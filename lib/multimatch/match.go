// Package multimatch finds all occurrences of many fixed byte patterns in a text, including
// overlapping ones, and counts them.
//
// It is a filter in front of a verifier. Each pattern is filed under one or two short windows
// of its bytes, which are rare in ordinary text. For blocks of 32 positions of the text, the
// filter marks those at which such a window may begin. The verifier compares the few candidates
// with the patterns filed under them. There are two filters:
//
//   - Patterns of 2 to 6 bytes, at every position. A hash of two bytes and the lower bits of the
//     third select a byte, the fourth byte a bit of it. Patterns of 4 to 6 bytes set the bit of
//     their rarest window, those of 3 bytes all bits of a byte, those of 2 bytes all bits of 32
//     bytes. Common pairs of bytes are few, so that ordinary text needs a small part of the table.
//   - Patterns of 7 bytes and more, at even positions only: windows of six bytes in a Bloom
//     filter of one machine word per probe. Each pattern is filed twice, under its rarest window
//     at an even and at an odd offset, so that one of the two is at an even position wherever the
//     pattern begins.
//
// A separate pass counts patterns of a single byte. An Aho-Corasick automaton is not used: for
// ten thousand phrases its table takes 60 MB and every byte of text is a cache miss. It is a
// third slower on ordinary text, and twenty times slower on adversarial text.
//
// [New] compiles patterns to a [Set], which never changes. [Set.Scan] and [Set.Feed] add the
// matches in a piece of text to a [Hits]. One scan owns a Hits, and can reuse it after
// [Hits.Reset].
package multimatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// MaxLen is the length in bytes of the longest pattern a Set accepts.
const MaxLen = 1024

// maxPatterns keeps offsets into the pattern bytes within 32 bits.
const maxPatterns = 1 << 20

// An entry files a pattern under a window of it.
type entry struct {
	key   uint64 // up to eight bytes of the pattern, with the window
	id    uint32
	off   uint16 // offset of the window in the pattern
	back  uint8  // where in the key the window is
	shift uint8  // bits of the key that are not of the pattern
}

// newEntry returns the entry of pattern p, whose index is id, under its window at off.
func newEntry(p []byte, id uint32, off int) entry {
	from := max(0, min(off, len(p)-8))
	var key [8]byte
	n := copy(key[:], p[from:])
	return entry{
		key:   binary.LittleEndian.Uint64(key[:]),
		id:    id,
		off:   uint16(off),
		back:  uint8(off - from),
		shift: uint8(64 - 8*n),
	}
}

// buckets are entries by hash: those of bucket h are entries[start[h]:start[h+1]].
type buckets struct {
	start   []uint32
	entries []entry
}

// A Set is a compiled set of patterns. It is safe for concurrent use.
type Set struct {
	text   []byte   // all patterns, one after the other
	end    []uint32 // pattern id is text[end[id]:end[id+1]]
	maxLen int

	where func(id uint32, before, behind []byte) bool // nil if every match counts

	hasOne bool
	words  *[1 << middleBits / 64]uint64 // filter for a blank and the beginning of a word, whose first bytes are also in near; nil without words
	one    [256]uint32                   // pattern id + 1 by its only byte
	filters
	shorts  buckets // by a hash of the first two bytes
	middles buckets
	longs   buckets
}

// Multipliers of hashes, which are odd and have well mixed bits.
const (
	mul4 = 0x9E3779B1
	mul5 = 0x9E3779B97F4A7C15
)

const (
	shortBits  = 10
	middleBits = 13
	longBits   = 14
)

func hash2(w uint16) uint32 { return uint32(w) * mul4 >> (32 - shortBits) }
func hash4(w uint32) uint32 { return w * mul4 >> (32 - middleBits) }
func hash5(w uint64) uint64 { return w << 24 * mul5 >> (64 - middleBits) }

// New compiles patterns; the id of a pattern is its index. Patterns must not be empty and at most
// MaxLen bytes long; those of a single byte must be distinct. words are beginnings of words; Hits.Starts reports
// where they may occur, and the caller verifies them.
func New(patterns, words [][]byte) (*Set, error) {
	if len(patterns) > maxPatterns {
		return nil, fmt.Errorf("%d patterns: at most %d can be searched for at once", len(patterns), maxPatterns)
	}
	s := &Set{end: make([]uint32, 1, len(patterns)+1)}
	seen := make(map[string]bool, len(patterns))
	for _, p := range patterns {
		switch {
		case len(p) == 0:
			return nil, errors.New("an empty pattern matches everywhere")
		case len(p) > MaxLen:
			return nil, fmt.Errorf("pattern %.40q… has %d bytes, at most %d are allowed", p, len(p), MaxLen)
		case len(p) == 1 && seen[string(p)]:
			return nil, fmt.Errorf("pattern %q is given twice", p)
		}
		seen[string(p)] = true
		s.text = append(s.text, p...)
		s.end = append(s.end, uint32(len(s.text)))
		s.maxLen = max(s.maxLen, len(p))
	}
	s.text = slices.Clip(s.text)
	s.file(patterns)
	if len(words) > 0 {
		s.words = new([1 << middleBits / 64]uint64)
	}
	for _, w := range words {
		s.fileWord(append([]byte{' '}, w...))
	}
	return s, nil
}

// Where makes a match of pattern id count only if where returns true for the text before and behind
// it. Call it before the first scan.
func (s *Set) Where(where func(id uint32, before, behind []byte) bool) { s.where = where }

// Len returns the number of patterns.
func (s *Set) Len() int { return len(s.end) - 1 }

// MaxLen returns the length of the longest pattern.
func (s *Set) MaxLen() int { return s.maxLen }

// Pattern returns pattern id. It must not be changed.
func (s *Set) Pattern(id uint32) []byte { return s.text[s.end[id]:s.end[id+1]] }

// Size returns the memory of the set in bytes.
func (s *Set) Size() int {
	n := len(s.text) + 4*len(s.end) + 4*len(s.one) + len(s.near) + 4*len(s.far)
	for _, b := range []*buckets{&s.shorts, &s.middles, &s.longs} {
		n += 4*len(b.start) + 16*len(b.entries)
	}
	return n
}

// Hits are the matches found by a scan. It belongs to one goroutine.
type Hits struct {
	N    []uint32 // occurrences by pattern id
	Seen []uint32 // ids with N > 0, in the order they were first found

	// Once permits not to count a pattern again; N is then 0 or at least 1.
	Once bool

	// Starts are the positions in the new part of the last text of Scan at which a word of the
	// set may begin.
	Starts []int

	tail []byte // end of the text passed to Feed, at most MaxLen-1 bytes
}

// NewHits returns an empty Hits for s and for more patterns that the caller searches for:
// their ids follow those of s.
func (s *Set) NewHits(more int) *Hits {
	return &Hits{
		N:    make([]uint32, s.Len()+more),
		Seen: make([]uint32, 0, s.Len()+more),
		tail: make([]byte, 0, 2*s.maxLen),
	}
}

// Reset prepares h for the next text, in time proportional to the matches in the last.
func (h *Hits) Reset() {
	for _, id := range h.Seen {
		h.N[id] = 0
	}
	h.Seen = h.Seen[:0]
	h.tail = h.tail[:0]
}

// Add counts a match of a pattern.
func (h *Hits) Add(id uint32) {
	n := h.N[id]
	if n == 0 {
		h.Seen = append(h.Seen, id)
	}
	if n != ^uint32(0) {
		h.N[id] = n + 1
	}
}

// Feed counts the matches in the next piece of a text, including those that began in previous
// pieces since the last Reset. It keeps a copy of the last MaxLen()-1 bytes of p.
func (s *Set) Feed(h *Hits, p []byte) {
	if len(p) == 0 || s.maxLen == 0 {
		return
	}
	from := 0
	if t := len(h.tail); t > 0 {
		from = min(len(p), s.maxLen-1)
		h.tail = append(h.tail, p[:from]...)
		s.Scan(h, h.tail, t)
		h.tail = h.tail[:t]
	}
	s.Scan(h, p, from)

	keep := s.maxLen - 1
	if len(p) >= keep {
		h.tail = append(h.tail[:0], p[len(p)-keep:]...)
		return
	}
	if drop := len(h.tail) + len(p) - keep; drop > 0 {
		h.tail = h.tail[:copy(h.tail, h.tail[drop:])]
	}
	h.tail = append(h.tail, p...)
}

// Scan counts the matches in text that end after its first from bytes. To scan a long text in
// steps, include the MaxLen()-1 bytes before each step:
// s.Scan(h, text[max(0, i-s.MaxLen()+1):j], …).
func (s *Set) Scan(h *Hits, text []byte, from int) {
	h.Starts = h.Starts[:0]
	if from >= len(text) {
		return
	}
	if s.words != nil {
		h.Starts = append(h.Starts, 0)
	}
	if s.hasOne {
		for i := from; i < len(text); i++ {
			if id := s.one[text[i]]; id != 0 && s.counts(id-1, text, i, i+1) {
				h.Add(id - 1)
			}
		}
	}
	// Matches that end after from begin here or later, and so do their windows.
	i := max(0, from-max(s.maxLen, 2)+1)
	var marks [64]marks
	for n := (len(text) - i - ahead) / blockLen; n > 0; n = (len(text) - i - ahead) / blockLen {
		n = min(n, len(marks))
		s.sift(marks[:n], text[i:])
		for k := range marks[:n] {
			s.look(h, text, i, from, marks[k], text[i:])
			i += blockLen
		}
	}
	// The rest is padded with zeros. The end of a word that begins in its last bytes may be
	// missing.
	var pad [3 * blockLen]byte
	n := copy(pad[:2*blockLen], text[i:])
	s.sift(marks[:2], pad[:])
	for k := max(0, n-7); s.words != nil && k < n; k++ {
		if pad[k] == ' ' {
			marks[k/blockLen].near |= 1 << (k % blockLen)
		}
	}
	for k := range marks[:2] {
		s.look(h, text, i, from, marks[k], pad[k*blockLen:])
		i += blockLen
	}
}

// look examines the candidates in the block of text at i. block has its bytes, and at least
// eight more.
func (s *Set) look(h *Hits, text []byte, i, from int, m marks, block []byte) {
	for ; m.near != 0; m.near &= m.near - 1 {
		k := bits.TrailingZeros32(m.near)
		w := binary.LittleEndian.Uint64(block[k:])
		if s.words != nil && byte(w) == ' ' && i+k+1 >= from && (i+k+8 > len(text) || s.isWord(w)) {
			h.Starts = append(h.Starts, i+k+1-from)
		}
		s.try(h, text, i+k, from, &s.shorts, hash2(uint16(w)))
		s.try(h, text, i+k, from, &s.middles, hash4(uint32(w)))
	}
	for ; m.far != 0; m.far &= m.far - 1 {
		k := bits.TrailingZeros32(m.far)
		w := binary.LittleEndian.Uint64(block[k:])
		s.try(h, text, i+k, from, &s.longs, farHash(w)>>(32-longBits))
	}
}

// isWord reports whether a word may begin at the five bytes w.
func (s *Set) isWord(w uint64) bool {
	a, b := hash4(uint32(w)), hash5(w)
	return (s.words[a>>6]>>(a&63)|s.words[b>>6]>>(b&63))&1 != 0
}

// try counts the patterns of a bucket that match with their window at position i of text.
func (s *Set) try(h *Hits, text []byte, i, from int, b *buckets, bucket uint32) {
	for k, end := b.start[bucket], b.start[bucket+1]; k < end; k++ {
		e := &b.entries[k]
		at := i - int(e.back)
		if at >= 0 && len(text)-at >= 8 && (binary.LittleEndian.Uint64(text[at:])^e.key)<<(e.shift&63) != 0 {
			continue
		}
		s.verify(h, text, i, from, e)
	}
}

// verify counts the pattern of e if its window at i belongs to a match.
func (s *Set) verify(h *Hits, text []byte, i, from int, e *entry) {
	if h.Once && h.N[e.id] != 0 {
		return
	}
	p := s.text[s.end[e.id]:s.end[e.id+1]]
	at := i - int(e.off)
	if end := at + len(p); at < 0 || end <= from || end > len(text) || string(text[at:end]) != string(p) || !s.counts(e.id, text, at, end) {
		return
	}
	h.Add(e.id)
}

func (s *Set) counts(id uint32, text []byte, at, end int) bool {
	return s.where == nil || s.where(id, text[:at], text[end:])
}
