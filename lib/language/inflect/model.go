package inflect

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A layout assigns numbers below size to the features of candidates. Each feature has a
// weight. The numbers of one kind form a block.
type layout struct {
	l, m, s, r int // letters, endings, starts, repairs
	at         [kinds]int
	size       int
}

// A kind is a kind of features: of a word that is left whole, or of the stem, the endings and
// the repair of a cut.
type kind int

const (
	byWhole kind = iota
	byWhole1
	byWhole2
	byWhole3
	byWholeLength
	byWholeVowels
	byWholeKnown
	byStart
	byEnding
	byPair
	byLast
	byCount
	byEndingVowels
	byEndingLength
	byEnding1
	byEnding2
	byStem2
	byStem3
	byStartLength
	byAgree
	byKnownLength
	byKnownEnding
	byFact
	byWholeFact
	byRepair
	byRepair1
	byRepairEnding
	kinds
)

const (
	lengths = 8
	vowels  = 5
	facts   = 16 // the lexicons' facts about a stem, as bits
)

func newLayout(c *compiledGrammar) layout {
	x := layout{l: len(c.letters), m: len(c.endings), s: len(c.starts), r: len(c.repairs) + len(c.inserts) + 1}
	at := 0
	block := func(k kind, n int) { x.at[k], at = at, at+n }
	block(byWhole, 1)
	block(byWhole1, x.l)
	block(byWhole2, x.l*x.l)
	block(byWhole3, x.l*x.l*x.l)
	block(byWholeLength, lengths+4)
	block(byWholeVowels, vowels+1)
	block(byWholeKnown, facts*lengths)
	block(byStart, x.s)
	block(byEnding, x.m)
	block(byPair, x.m*x.m)
	block(byLast, x.m)
	block(byCount, maxChain+1)
	block(byEndingVowels, x.m*vowels)
	block(byEndingLength, x.m*lengths)
	block(byEnding1, x.m*x.l)
	block(byEnding2, x.m*x.l*x.l)
	block(byStem2, x.l*x.l)
	block(byStem3, x.l*x.l*x.l)
	block(byStartLength, x.s*lengths)
	block(byAgree, x.m*2)
	block(byKnownLength, facts*x.s*lengths)
	block(byKnownEnding, facts*x.m)
	block(byFact, 4*x.s)
	block(byWholeFact, 4)
	block(byRepair, x.r*x.s)
	block(byRepair1, x.r*x.l*x.l)
	block(byRepairEnding, x.r*x.m)
	x.size = at
	return x
}

// shows lists the features of a candidate. known is the lexicons' facts about its
// stem.
func (y *layout) shows(c *compiledGrammar, x *candidate, stem []uint8, known int) (dst []int32) {
	for i, m := range x.chain[:x.length] {
		dst = append(dst, int32(y.at[byEnding]+int(m)))
		if i > 0 {
			dst = append(dst, int32(y.at[byPair]+int(x.chain[i-1])*y.m+int(m)))
		}
	}
	if x.length > 0 {
		dst = append(dst, int32(y.at[byLast]+int(x.chain[x.length-1])), int32(y.at[byCount]+int(x.length)))
	}
	return y.stem(dst, c, x, stem, known)
}

// stem appends the features that depend only on the stem and the first ending.
func (y *layout) stem(dst []int32, c *compiledGrammar, x *candidate, stem []uint8, known int) []int32 {
	put := func(k kind, i int) { dst = append(dst, int32(y.at[k]+i)) }
	n := len(stem)
	l1, l2, l3 := int(stem[n-1]), 0, 0
	if n > 1 {
		l2 = int(stem[n-2])
	}
	if n > 2 {
		l3 = int(stem[n-3])
	}
	vow := 0
	for _, l := range stem {
		if c.vowel(l) {
			vow++
		}
	}
	if x.length == 0 {
		put(byWhole, 0)
		put(byWhole1, l1)
		put(byWhole2, l2*y.l+l1)
		put(byWhole3, (l3*y.l+l2)*y.l+l1)
		put(byWholeLength, min(n, lengths+3))
		put(byWholeVowels, min(vow, vowels))
		for i := range 4 {
			if known>>i&1 != 0 {
				put(byWholeFact, i)
			}
		}
		put(byWholeKnown, known*lengths+min(n, lengths-1))
		return dst
	}
	s, first := int(x.start), int(x.chain[0])
	long := min(n, lengths-1)
	put(byStart, s)
	put(byEndingVowels, first*vowels+min(vow, vowels-1))
	put(byEndingLength, first*lengths+long)
	put(byEnding1, first*y.l+l1)
	put(byEnding2, (first*y.l+l2)*y.l+l1)
	put(byStem2, l2*y.l+l1)
	put(byStem3, (l3*y.l+l2)*y.l+l1)
	put(byStartLength, s*lengths+long)
	v := 0
	if c.vowel(uint8(l1)) {
		v = 1
	}
	put(byAgree, first*2+v)
	for i := range 4 {
		if known>>i&1 != 0 {
			put(byFact, i*y.s+s)
		}
	}
	put(byKnownLength, (known*y.s+s)*lengths+long)
	put(byKnownEnding, known*y.m+first)
	put(byRepair, int(x.repair)*y.s+s)
	if x.repair != 0 {
		put(byRepair1, (int(x.repair)*y.l+l2)*y.l+l1)
		put(byRepairEnding, int(x.repair)*y.m+first)
	}
	return dst
}

// A lexicon is a Bloom filter of stems (Bloom 1970): it may contain one in a hundred other
// words.
type lexicon struct {
	bits  []uint64
	words uint32
}

const lexiconHashes = 6

func newLexicon(words int) *lexicon {
	return &lexicon{bits: make([]uint64, (words*10+63)/64+1), words: uint32(words)}
}

// digest returns the hashes of a stem in a lexicon.
func digest(stem []uint8) (a, b uint32) {
	h := uint64(14695981039346656037) // FNV-1a, mixed
	for _, l := range stem {
		h = (h ^ uint64(l)) * 1099511628211
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return uint32(h), uint32(h>>32) | 1
}

func (x *lexicon) add(stem []uint8) {
	a, b := digest(stem)
	n := uint64(len(x.bits)) * 64
	for range lexiconHashes {
		i := uint64(a) * n >> 32
		x.bits[i/64] |= 1 << (i % 64)
		a += b
	}
}

func (x *lexicon) has(a, b uint32) bool {
	n := uint64(len(x.bits)) * 64
	for range lexiconHashes {
		i := uint64(a) * n >> 32
		if x.bits[i/64]>>(i%64)&1 == 0 {
			return false
		}
		a += b
	}
	return true
}

// A Model is the result of Train: weights and lexicons.
type Model struct {
	weights  []float32
	lexicons []*lexicon
}

const (
	modelMagic = "inflect1"
	scale      = 32 // steps of a weight in the file
)

// Write writes the model, compressed.
func (m *Model) Write(w io.Writer) error {
	if _, err := io.WriteString(w, modelMagic); err != nil {
		return err
	}
	z, err := flate.NewWriter(w, flate.BestCompression)
	if err != nil {
		return err
	}
	var b []byte
	b = binary.AppendUvarint(b, uint64(len(m.weights)))
	last := -1
	for i, x := range m.weights {
		if n := int64(math.Round(float64(x) * scale)); n != 0 {
			b = binary.AppendUvarint(b, uint64(i-last))
			b = binary.AppendVarint(b, n)
			last = i
		}
	}
	b = binary.AppendUvarint(b, 0)
	b = binary.AppendUvarint(b, uint64(len(m.lexicons)))
	for _, x := range m.lexicons {
		b = binary.AppendUvarint(b, uint64(len(x.bits)))
		for _, v := range x.bits {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	if _, err := z.Write(b); err != nil {
		return err
	}
	return z.Close()
}

var errModel = errors.New("not a model of stems, or a damaged one")

// ReadModel reads a model written by Write.
func ReadModel(r io.Reader) (*Model, error) {
	head := make([]byte, len(modelMagic))
	if _, err := io.ReadFull(r, head); err != nil || string(head) != modelMagic {
		return nil, errModel
	}
	const most = 8 << 20
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(r), most))
	if err != nil {
		return nil, fmt.Errorf("unpacking a model of stems: %w", err)
	}
	b := bytes.NewReader(data)
	size, err := binary.ReadUvarint(b)
	if err != nil || size > most {
		return nil, errModel
	}
	m := &Model{weights: make([]float32, size)}
	for at := -1; ; {
		step, err := binary.ReadUvarint(b)
		if err != nil {
			return nil, errModel
		}
		if step == 0 {
			break
		}
		n, err := binary.ReadVarint(b)
		if at += int(min(step, most)); err != nil || at >= len(m.weights) {
			return nil, errModel
		}
		m.weights[at] = float32(n) / scale
	}
	count, err := binary.ReadUvarint(b)
	if err != nil || count > 4 {
		return nil, errModel
	}
	for range count {
		n, err := binary.ReadUvarint(b)
		if err != nil || n == 0 || n > uint64(b.Len()/8) {
			return nil, errModel
		}
		x := &lexicon{bits: make([]uint64, n)}
		if err := binary.Read(b, binary.LittleEndian, x.bits); err != nil {
			return nil, errModel
		}
		m.lexicons = append(m.lexicons, x)
	}
	return m, nil
}
