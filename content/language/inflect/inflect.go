package inflect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Stemmer finds stems of one language. It is safe for concurrent use.
type Stemmer struct {
	c       *compiled
	layout  layout
	weights []float32
	known   []*lexicon
	stems   map[string]bool // common ones, as letter codes
	words   map[string]string

	longest, longestWord int // of stems in letters, of words in bytes
}

// New joins a grammar and the model that was trained with it.
func New(g Grammar, m *Model) (*Stemmer, error) {
	s, err := blank(g)
	if err != nil {
		return nil, err
	}
	if len(m.weights) != s.layout.size {
		return nil, fmt.Errorf("the model has %d weights, the grammar wants %d: train it again", len(m.weights), s.layout.size)
	}
	s.weights, s.known = m.weights, m.lexicons
	return s, nil
}

func blank(g Grammar) (*Stemmer, error) {
	c, err := compile(g)
	if err != nil {
		return nil, err
	}
	s := &Stemmer{c: c, layout: newLayout(c), stems: map[string]bool{}, words: g.Words}
	for _, x := range append(strings.Fields(g.Stems), slices.Collect(maps.Values(g.Changed))...) {
		letters := c.codes(x)
		s.stems[string(letters)] = true
		s.longest = max(s.longest, len(letters))
	}
	for x := range g.Words {
		s.longestWord = max(s.longestWord, len(x))
	}
	return s, nil
}

// facts says what is known of a stem, as bits.
func (s *Stemmer) facts(stem []uint8) int {
	known := 0
	if len(s.known) > 0 {
		a, b := digest(stem)
		for i, x := range s.known {
			if x.has(a, b) {
				known |= 1 << i
			}
		}
	}
	if len(stem) <= s.longest && s.stems[string(stem)] {
		known |= 8
	}
	return known
}

// A search looks for the candidate of one word with the highest sum.
type search struct {
	s       *Stemmer
	w       spelled
	reach   [maxLetters + 1]uint32
	left    int
	firsts  [maxFirsts]first
	nfirsts int
	best    candidate
	highest float32
	stem    [maxLetters + 4]uint8
}

// A first is an ending that begins chains at a cut, and the best sum of the
// weights of one.
type first struct {
	ending uint16
	sum    float32
}

const maxFirsts = 12

// Stem appends the stem of a folded word to dst: the word itself, if no ending
// of it is certain. It allocates nothing if dst has room.
func (s *Stemmer) Stem(dst, word []byte) []byte {
	if len(word) <= s.longestWord {
		if stem, ok := s.words[string(word)]; ok {
			return append(dst, stem...)
		}
	}
	var k search
	k.s = s
	if !s.c.spell(word, &k.w) || k.w.n < 3 {
		return append(dst, word...)
	}
	k.run()
	x := &k.best
	if x.whole != nil {
		return s.spelling(x.whole, dst)
	}
	if x.repair == 0 {
		return append(dst, word[:k.w.end[x.cut]]...)
	}
	n := x.stem(&k.w, &k.stem)
	same := x.cut - int(x.drop)
	if x.insert != 0 {
		same--
	}
	return s.spelling(k.stem[same:n], append(dst, word[:k.w.end[same]]...))
}

func (k *search) run() {
	c := k.s.c
	i := c.reaches(&k.w, &k.reach)
	k.highest = -1 << 20
	k.offer(&candidate{cut: k.w.n}, 0)
	for ; i < k.w.n; i++ {
		for s, start := range c.starts {
			if k.reach[i]>>start&1 == 0 {
				continue
			}
			k.left, k.nfirsts = maxChains, 0
			k.follow(i, uint32(1)<<start, 0, 0, 0, 0)
			for _, f := range k.firsts[:k.nfirsts] {
				x := candidate{cut: i, start: uint8(s), length: 1}
				x.chain[0] = f.ending
				k.repaired(&x, f.sum)
			}
		}
	}
}

// follow adds up the weights of every chain from letter i on.
func (k *search) follow(i int, state uint32, begin, last uint16, length int, sum float32) {
	y, w := &k.s.layout, k.s.weights
	if i == k.w.n {
		k.left--
		sum += w[y.at[byLast]+int(last)] + w[y.at[byCount]+length]
		for f := range k.firsts[:k.nfirsts] {
			if x := &k.firsts[f]; x.ending == begin {
				x.sum = max(x.sum, sum)
				return
			}
		}
		if k.nfirsts < maxFirsts {
			k.firsts[k.nfirsts] = first{begin, sum}
			k.nfirsts++
		}
		return
	}
	if length == maxChain {
		return
	}
	c := k.s.c
	at := uint16(0)
	for j := i; j < k.w.n; j++ {
		if at = c.nodes[at].next[k.w.letter[j]]; at == 0 {
			return
		}
		for _, e := range c.nodes[at].edges {
			if k.left <= 0 {
				return
			}
			if e.from&state == 0 || k.reach[j+1]>>e.to&1 == 0 {
				continue
			}
			more := sum + w[y.at[byEnding]+int(e.index)]
			from := begin
			if length == 0 {
				from = e.index
			} else {
				more += w[y.at[byPair]+int(last)*y.m+int(e.index)]
			}
			k.follow(j+1, uint32(1)<<e.to, from, e.index, length+1, more)
		}
	}
}

// repaired offers a cut with its stem as it is and with every repair, as
// compiled.repaired does.
func (k *search) repaired(x *candidate, sum float32) {
	c := k.s.c
	if x.whole = c.whole(&k.w, x.cut); x.whole != nil {
		k.offer(x, sum)
		return
	}
	k.offer(x, sum)
	for r := range c.repairs {
		if c.repair(&k.w, x, r) {
			k.offer(x, sum)
		}
	}
	if c.mayInsert(&k.w, x.cut) {
		x.drop, x.adds = 0, 0
		for v, l := range c.inserts {
			x.insert, x.repair = l, uint8(len(c.repairs)+1+v)
			k.offer(x, sum)
		}
	}
}

// offer adds the weights of a candidate's stem to those of its chain.
func (k *search) offer(x *candidate, sum float32) {
	s := k.s
	n := x.stem(&k.w, &k.stem)
	stem := k.stem[:n]
	var room [24]int32
	for _, i := range s.layout.stem(room[:0], s.c, x, stem, s.facts(stem)) {
		sum += s.weights[i]
	}
	if sum > k.highest {
		k.highest, k.best = sum, *x
	}
}

// spelling appends letters to dst.
func (s *Stemmer) spelling(letters []uint8, dst []byte) []byte {
	for _, l := range letters {
		dst = utf8.AppendRune(dst, s.c.letters[l])
	}
	return dst
}
