package inflect

// A candidate is a cut of a word: its first cut letters, with the end repaired, are the stem.
type candidate struct {
	cut    int
	drop   uint8    // letters that the repair removes
	add    [3]uint8 // letters that the repair appends
	adds   uint8
	insert uint8   // a vowel to insert before the last letter; 0 for none
	whole  []uint8 // the stem, if the grammar lists it
	repair uint8   // 0 for none, otherwise the number of the repair or the insertion
	start  uint8   // index in starts
	chain  [maxChain]uint16
	length uint8 // of the chain; 0 for the whole word
}

// stem writes the letter codes of the candidate's stem to dst.
func (x *candidate) stem(w *codedWord, dst *[maxLetters + 4]uint8) int {
	if x.whole != nil {
		return copy(dst[:], x.whole)
	}
	n := x.cut - int(x.drop)
	copy(dst[:], w.letter[:n])
	n += copy(dst[n:], x.add[:x.adds])
	if x.insert != 0 {
		dst[n] = dst[n-1]
		dst[n-1] = x.insert
		n++
	}
	return n
}

// A walk enumerates the candidates of one word.
type walk struct {
	c    *compiledGrammar
	w    codedWord
	ways ways
	each func(*candidate)
	x    candidate
	left int // chains that may still be tried at this cut
}

// ways are the endings that lead from each letter of a word to its end.
type ways struct {
	states     [maxLetters + 1]uint32 // from which the rest is a chain of endings
	begin, end [maxLetters + 1]uint16 // of the steps of each letter
	steps      [maxSteps]step
	n          int
}

// A step is an ending: the letter after it, and its edges in the tree.
type step struct {
	to, edges uint8
	at        uint16
}

const maxSteps = 256 // five per letter; words have about one

const maxChains = 24 // limit of chains tried at one cut

// candidates calls each for the whole word and for every cut of it.
func (k *walk) candidates() {
	k.x = candidate{cut: k.w.n}
	k.each(&k.x)
	for i := k.c.find(&k.w, &k.ways); i < k.w.n; i++ {
		for s, start := range k.c.starts {
			if k.ways.states[i]>>start&1 != 0 {
				k.x = candidate{cut: i, start: uint8(s)}
				k.left = maxChains
				k.follow(i, uint32(1)<<start)
			}
		}
	}
}

// find finds the endings of a word that lead to its end, and returns the first letter at which
// the word may be cut.
func (c *compiledGrammar) find(w *codedWord, x *ways) int {
	first := 0
	for first < w.n && !c.vowel(w.letter[first]) {
		first++
	}
	first = max(2, first+1)
	x.states[w.n] = ^uint32(0)
	for i := w.n - 1; i >= first; i-- {
		x.begin[i] = uint16(x.n)
		states := uint32(0)
		node := 0
		for j := i; j < w.n; j++ {
			if node = int(c.next[node<<c.shift|int(w.letter[j])]); node == 0 {
				break
			}
			at, end := c.at[node], c.at[node+1]
			if at == end || x.states[j+1] == 0 || x.n == maxSteps {
				continue
			}
			more := uint32(0)
			for _, e := range c.edges[at:end] {
				if x.states[j+1]>>e.to&1 != 0 {
					more |= e.from
				}
			}
			if more != 0 {
				states |= more
				x.steps[x.n] = step{uint8(j + 1), uint8(end - at), at}
				x.n++
			}
		}
		x.states[i], x.end[i] = states, uint16(x.n)
	}
	return first
}

// of returns the edges of a step.
func (c *compiledGrammar) of(s step) []edge { return c.edges[s.at : int(s.at)+int(s.edges)] }

// follow continues a chain at letter i, in one of the states.
func (k *walk) follow(i int, state uint32) {
	if i == k.w.n {
		k.left--
		k.c.repaired(&k.w, &k.x, k.each)
		return
	}
	if k.x.length == maxChain {
		return
	}
	for _, s := range k.ways.steps[k.ways.begin[i]:k.ways.end[i]] {
		for _, e := range k.c.of(s) {
			if k.left <= 0 {
				return
			}
			if e.from&state == 0 || k.ways.states[s.to]>>e.to&1 == 0 {
				continue
			}
			k.x.chain[k.x.length] = e.index
			k.x.length++
			k.follow(int(s.to), uint32(1)<<e.to)
			k.x.length--
		}
	}
}

// repaired calls each for a cut without and with every possible repair.
func (c *compiledGrammar) repaired(w *codedWord, x *candidate, each func(*candidate)) {
	if x.whole = c.listedStem(w, x.cut); x.whole != nil {
		each(x)
		x.whole = nil
		return
	}
	each(x)
	for r := range c.repairs {
		if c.repair(w, x, r) {
			each(x)
		}
	}
	if c.mayInsert(w, x.cut) {
		x.drop, x.adds = 0, 0
		for v, l := range c.inserts {
			x.insert, x.repair = l, uint8(len(c.repairs)+1+v)
			each(x)
		}
	}
	x.insert, x.repair, x.drop, x.adds = 0, 0, 0, 0
}

// listedStem returns the stem that the grammar lists for the letters before a cut.
func (c *compiledGrammar) listedStem(w *codedWord, cut int) []uint8 {
	if len(c.changed) == 0 || !c.vowel(w.letter[cut]) {
		return nil
	}
	return c.changed[string(w.letter[:cut])]
}

// repair applies repair r to a candidate, if possible.
func (c *compiledGrammar) repair(w *codedWord, x *candidate, r int) bool {
	p := &c.repairs[r]
	if p.before>>w.letter[x.cut]&1 == 0 || x.cut-len(p.from) < 2 || !ends(w.letter[:x.cut], p.from) {
		return false
	}
	x.repair, x.drop = uint8(r+1), uint8(len(p.from))
	x.adds = uint8(copy(x.add[:], p.to))
	return true
}

// mayInsert reports whether a vowel may be missing before the last letter.
func (c *compiledGrammar) mayInsert(w *codedWord, cut int) bool {
	return len(c.inserts) > 0 && cut > 2 && !c.vowel(w.letter[cut-1]) && !c.vowel(w.letter[cut-2])
}

func ends(s, end []uint8) bool {
	if len(s) < len(end) {
		return false
	}
	for i, l := range end {
		if s[len(s)-len(end)+i] != l {
			return false
		}
	}
	return true
}
