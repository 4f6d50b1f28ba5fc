package inflect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Stemmer finds stems in one language. It is safe for concurrent use.
type Stemmer struct {
	c       *compiledGrammar
	layout  layout
	weights *weights // nil during training
	known   []*lexicon
	common  map[string]bool // stems, as letter codes
	maybe   *lexicon        // of common
	words   map[string]string
	lengths [256]uint64 // lengths of words in bytes, by first byte, one bit each
}

// New makes a stemmer from a grammar and the model trained with it.
func New(g Grammar, m *Model) (*Stemmer, error) {
	s, err := blank(g)
	if err != nil {
		return nil, err
	}
	if len(m.weights) != s.layout.size {
		return nil, fmt.Errorf("the model has %d weights, the grammar wants %d: train it again", len(m.weights), s.layout.size)
	}
	s.known = m.lexicons
	if s.weights, err = s.layout.join(s.c, m.weights); err != nil {
		return nil, err
	}
	return s, nil
}

func blank(g Grammar) (*Stemmer, error) {
	c, err := compile(g)
	if err != nil {
		return nil, err
	}
	s := &Stemmer{c: c, layout: newLayout(c), common: map[string]bool{}, words: g.Words}
	stems := append(strings.Fields(g.Stems), slices.Collect(maps.Values(g.Changed))...)
	s.maybe = newLexicon(len(stems))
	for _, x := range stems {
		letters := c.codes(x)
		s.common[string(letters)] = true
		s.maybe.add(letters)
	}
	for x := range g.Words {
		if len(x) >= 64 {
			return nil, fmt.Errorf("%q is longer than 63 bytes", x)
		}
		s.lengths[x[0]] |= 1 << len(x)
	}
	return s, nil
}

// isCommon is the bit in facts for the grammar's own stems, above those of the lexicons.
const isCommon = 8

// facts returns the lexicons' facts about a stem, as bits.
func (s *Stemmer) facts(stem []uint8) int {
	known := 0
	a, b := digest(stem)
	for i, x := range s.known {
		if x.has(a, b) {
			known |= 1 << i
		}
	}
	if s.maybe.has(a, b) && s.common[string(stem)] {
		known |= isCommon
	}
	return known
}

// InLexicon reports whether a lexicon contains a stem in the form of [Stemmer.Stem]. It may be
// wrong for one in a hundred other words.
func (s *Stemmer) InLexicon(stem []byte) bool {
	var w codedWord
	return s.c.spell(stem, &w) && s.facts(w.letter[:w.n]) != 0
}

// A search finds the candidate of one word with the highest sum.
type search struct {
	s       *Stemmer
	w       codedWord
	ways    ways
	left    int
	firsts  [maxFirsts]firstEnding
	nfirsts int
	best    candidate
	highest int
	shapes  [maxRepairs]shape // of the stems at one cut, by repair
	stem    [maxLetters + 4]uint8
}

// A firstEnding is the first ending of chains at a cut, with the best sum of the weights of
// such a chain.
type firstEnding struct {
	ending uint16
	sum    int
}

const maxFirsts = 12

// Stem appends the stem of a folded word to dst: the word itself if no ending is certain. It
// allocates nothing if dst has room.
func (s *Stemmer) Stem(dst, word []byte) []byte {
	if len(word) == 0 {
		return dst
	}
	if s.lengths[word[0]]>>len(word)&1 != 0 {
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
	i := c.find(&k.w, &k.ways)
	k.highest = -1 << 20
	k.offer(&candidate{cut: k.w.n}, 0)
	for ; i < k.w.n; i++ {
		if k.ways.begin[i] == k.ways.end[i] {
			continue
		}
		whole := c.listedStem(&k.w, i)
		for s, start := range c.starts {
			if k.ways.states[i]>>start&1 == 0 {
				continue
			}
			k.left, k.nfirsts = maxChains, 0
			k.follow(i, uint32(1)<<start, 0, 0, 0, 0)
			for _, f := range k.firsts[:k.nfirsts] {
				x := candidate{cut: i, start: uint8(s), length: 1, whole: whole}
				x.chain[0] = f.ending
				k.repaired(&x, f.sum)
			}
		}
	}
}

// follow adds the weights of every chain from letter i on.
func (k *search) follow(i int, state uint32, begin, last uint16, length, sum int) {
	w := k.s.weights
	if i == k.w.n {
		k.left--
		sum += int(w.last[last]) + int(w.count[length])
		for f := range k.firsts[:k.nfirsts] {
			if x := &k.firsts[f]; x.ending == begin {
				x.sum = max(x.sum, sum)
				return
			}
		}
		if k.nfirsts < maxFirsts {
			k.firsts[k.nfirsts] = firstEnding{begin, sum}
			k.nfirsts++
		}
		return
	}
	if length == maxChain {
		return
	}
	c := k.s.c
	for _, s := range k.ways.steps[k.ways.begin[i]:k.ways.end[i]] {
		for _, e := range c.of(s) {
			if k.left <= 0 {
				return
			}
			if e.from&state == 0 || k.ways.states[s.to]>>e.to&1 == 0 {
				continue
			}
			from, more := begin, 0
			if length == 0 {
				from, more = e.index, int(w.first[e.index])
			} else {
				more = int(w.next[int(last)*w.m+int(e.index)])
			}
			k.follow(int(s.to), uint32(1)<<e.to, from, e.index, length+1, sum+more)
		}
	}
}

// repaired offers a cut without and with every repair, like compiled.repaired.
func (k *search) repaired(x *candidate, sum int) {
	c := k.s.c
	k.offer(x, sum)
	if x.whole != nil {
		return
	}
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

// offer adds the weights of a candidate's stem to those of its chain. It asks the lexicons
// last, and only if their answer can matter.
func (k *search) offer(x *candidate, sum int) {
	h := &k.shapes[x.repair]
	if int(h.cut) != x.cut {
		*h = k.s.c.shape(k.letters(x))
		h.cut = uint8(x.cut)
	}
	w := k.s.weights
	sum += w.stem(x, h)
	if sum+w.maxFacts(x, h) <= k.highest {
		return
	}
	if !h.asked {
		h.known, h.asked = uint8(k.s.facts(k.letters(x))), true
	}
	if sum += w.facts(x, h); sum > k.highest {
		k.highest, k.best = sum, *x
	}
}

// letters returns the stem of a candidate.
func (k *search) letters(x *candidate) []uint8 {
	if x.repair == 0 && x.whole == nil {
		return k.w.letter[:x.cut]
	}
	return k.stem[:x.stem(&k.w, &k.stem)]
}

// spelling appends letters to dst.
func (s *Stemmer) spelling(letters []uint8, dst []byte) []byte {
	for _, l := range letters {
		dst = utf8.AppendRune(dst, s.c.letters[l])
	}
	return dst
}
