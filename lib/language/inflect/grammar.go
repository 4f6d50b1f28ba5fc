// Package inflect finds the stem of a word in languages that inflect by a chain
// of endings, such as Uzbek and Mongolian.
//
// A Grammar defines which endings may follow each other. A word may be cut wherever the rest
// of it is a chain of endings that the grammar allows. Each cut is a candidate, also with
// letters restored that the ending changed, and so is the whole word. A linear model adds up
// the weights of a candidate's features (its endings, the letters before them, its length,
// whether a lexicon contains the stem). The candidate with the highest sum gives the stem.
// Train learns the weights from pairs of words and stems.
//
// Words are read as letter codes of the grammar's alphabet. Stemming allocates nothing.
package inflect

import (
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

const (
	maxLetters = 48 // of a word; a longer one is its own stem
	maxChain   = 12 // endings of a word
	maxStates  = 32
	maxRepairs = 32 // with insertions, and none
)

// A Repair reverses the change of a stem by an ending: a stem that ends in From, before an
// ending that begins with one of the letters Before, originally ended in To. Before "" means
// any ending.
type Repair struct {
	From, To, Before string
}

// A Grammar describes the words of a language.
type Grammar struct {
	Letters string // lower case; at most 62
	Vowels  string
	Starts  []string // the states in which a stem may end, such as noun and verb
	// Slots define the order of endings, one slot per line: in state FROM, one of the endings
	// may follow and lead to state TO. "FROM TO?: ENDING …" means that the slot may stay
	// empty.
	Slots   string
	Repairs []Repair
	// Changed are stems in their form before an ending that begins with a vowel, if no rule
	// gives it.
	Changed map[string]string
	// Inserts are vowels that a stem ending in two consonants may have lost between them.
	Inserts string
	// Words are inflected forms whose stem no rule gives, such as pronouns.
	Words map[string]string
	// Stems are common stems that are too short or too irregular to be judged by their form.
	Stems string
}

type slot struct {
	from, to string
	optional bool
	endings  []string
}

func parseSlots(text string) (all []slot, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		head, endings, _ := strings.Cut(line, ":")
		states := strings.Fields(head)
		if len(states) != 2 {
			return nil, fmt.Errorf("%q is not a slot of endings: write FROM TO: ENDING …", line)
		}
		to, optional := strings.CutSuffix(states[1], "?")
		all = append(all, slot{from: states[0], to: to, optional: optional, endings: strings.Fields(endings)})
	}
	return all, nil
}

type edge struct {
	from  uint32 // states from which this ending may follow
	to    uint8
	index uint16 // of the ending
}

// A node is a node in the tree of endings.
type node struct {
	next  map[uint8]uint16 // by letter
	edges []edge           // of the ending that ends here
}

// A tree has the nodes as tables, which take few lines of the processor's cache.
type tree struct {
	shift uint     // letters of a node are below 1<<shift
	next  []uint16 // by node and letter; 0 for none
	at    []uint16 // by node, and one more: position of its edges in edges
	edges []edge
}

func grow(nodes []node, letters int) tree {
	t := tree{shift: uint(bits.Len(uint(letters - 1)))}
	t.next = make([]uint16, len(nodes)<<t.shift)
	for i, n := range nodes {
		for l, to := range n.next {
			t.next[i<<t.shift|int(l)] = to
		}
		t.at = append(t.at, uint16(len(t.edges)))
		t.edges = append(t.edges, n.edges...)
	}
	t.at = append(t.at, uint16(len(t.edges)))
	return t
}

type repair struct {
	from, to []uint8
	before   uint64 // letters
}

// A compiledGrammar is a Grammar as tables.
type compiledGrammar struct {
	letters []rune // by code; code 0 is any other letter
	code    [128]uint8
	wide    map[rune]uint8 // beyond ASCII
	vowels  uint64
	starts  []uint8
	tree
	endings []string
	repairs []repair
	inserts []uint8
	changed map[string][]uint8
}

func compile(g Grammar) (*compiledGrammar, error) {
	c := &compiledGrammar{letters: []rune{0}, wide: map[rune]uint8{}, changed: map[string][]uint8{}}
	for _, r := range g.Letters {
		n := uint8(len(c.letters))
		if n > 62 {
			return nil, fmt.Errorf("the alphabet has more than 62 letters")
		}
		c.letters = append(c.letters, r)
		if r < 128 {
			c.code[r] = n
		} else {
			c.wide[r] = n
		}
	}
	for _, r := range g.Vowels {
		c.vowels |= 1 << c.codeOf(r)
	}
	if err := c.place(g); err != nil {
		return nil, err
	}
	for _, r := range g.Repairs {
		x := repair{from: c.codes(r.From), to: c.codes(r.To), before: ^uint64(0)}
		if r.Before != "" {
			x.before = 0
			for _, l := range r.Before {
				x.before |= 1 << c.codeOf(l)
			}
		}
		c.repairs = append(c.repairs, x)
	}
	c.inserts = c.codes(g.Inserts)
	if n := len(c.repairs) + len(c.inserts); n >= maxRepairs {
		return nil, fmt.Errorf("the grammar has %d repairs and insertions, more than %d", n, maxRepairs-1)
	}
	for from, to := range g.Changed {
		c.changed[string(c.codes(from))] = c.codes(to)
	}
	return c, nil
}

// place makes the tree of endings.
func (c *compiledGrammar) place(g Grammar) error {
	states := map[string]uint8{}
	state := func(name string) uint8 {
		n, ok := states[name]
		if !ok {
			n = uint8(len(states))
			states[name] = n
		}
		return n
	}
	for _, s := range g.Starts {
		c.starts = append(c.starts, state(s))
	}
	// skips has, for each state, the states from which empty slots lead to it.
	var skips [maxStates]uint32
	slots, err := parseSlots(g.Slots)
	if err != nil {
		return err
	}
	for _, s := range slots {
		state(s.from)
		state(s.to)
	}
	if len(states) > maxStates {
		return fmt.Errorf("the grammar has %d states, more than %d", len(states), maxStates)
	}
	for i := range skips {
		skips[i] = 1 << i
	}
	for changed := true; changed; {
		changed = false
		for _, s := range slots {
			if s.optional {
				from, to := states[s.from], states[s.to]
				if more := skips[to] | skips[from]; more != skips[to] {
					skips[to], changed = more, true
				}
			}
		}
	}
	nodes := []node{{next: map[uint8]uint16{}}}
	index := map[string]uint16{}
	for _, s := range slots {
		for _, e := range s.endings {
			at := uint16(0)
			for _, r := range e {
				n := c.codeOf(r)
				if n == 0 {
					return fmt.Errorf("ending %q has a letter that is not in the alphabet", e)
				}
				if nodes[at].next[n] == 0 {
					nodes[at].next[n] = uint16(len(nodes))
					nodes = append(nodes, node{next: map[uint8]uint16{}})
				}
				at = nodes[at].next[n]
			}
			i, ok := index[e]
			if !ok {
				i = uint16(len(c.endings))
				index[e] = i
				c.endings = append(c.endings, e)
			}
			nodes[at].edges = append(nodes[at].edges, edge{from: skips[states[s.from]], to: states[s.to], index: i})
		}
	}
	c.tree = grow(nodes, len(c.letters))
	return nil
}

func (c *compiledGrammar) codeOf(r rune) uint8 {
	if r < 128 {
		return c.code[r]
	}
	return c.wide[r]
}

func (c *compiledGrammar) codes(s string) []uint8 {
	var dst []uint8
	for _, r := range s {
		dst = append(dst, c.codeOf(r))
	}
	return dst
}

// A codedWord is a word as letter codes.
type codedWord struct {
	letter [maxLetters]uint8
	end    [maxLetters + 1]uint8 // bytes of the word up to each letter
	n      int
}

// spell converts a word to letter codes. It returns false for one that is too long or has
// other letters.
func (c *compiledGrammar) spell(word []byte, w *codedWord) bool {
	w.n = 0
	if len(word) > 255 {
		return false
	}
	for i := 0; i < len(word); {
		if w.n == maxLetters {
			return false
		}
		var l uint8
		if b := word[i]; b < utf8.RuneSelf {
			l = c.code[b]
			i++
		} else {
			r, size := utf8.DecodeRune(word[i:])
			l = c.wide[r]
			i += size
		}
		if l == 0 {
			return false
		}
		w.letter[w.n] = l
		w.n++
		w.end[w.n] = uint8(i)
	}
	return w.n > 0
}

func (c *compiledGrammar) vowel(l uint8) bool { return c.vowels>>l&1 != 0 }
