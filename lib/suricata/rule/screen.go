package rule

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
)

// A screen is a finite automaton for the beginnings of an expression's matches. It reads bytes
// and rejects most positions after a few of them, much faster than the expression. Each match
// passes, but what passes need not match: conditions without bytes, such as \b, always hold,
// and expressions with too many states pass early.
type screen struct {
	classes [256]uint8 // bytes that no part of the expression tells apart have the same class
	width   int        // number of classes
	next    []uint8    // state after each class, by state
	first   [256]bool  // bytes with which a match may begin
	few     []byte     // the same, if they are at most two
	free    bool       // whether a match begins does not depend on the bytes before
}

// States of a screen. Reading begins at screenStart.
const (
	screenNo    = iota // no match
	screenMaybe        // a match, or too many states
	screenStart
	screenStates = 256
)

// screenSize limits the transitions, which take a microsecond each to find.
const screenSize = 4 << 10

// screenParts limits the parts of an expression that a state stands for.
const screenParts = 64

// screenLength limits the instructions of an expression with a screen.
const screenLength = 20_000

// newScreen returns a screen for an expression of package regexp, nil if there is none.
func newScreen(expr string) *screen {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil || len(prog.Inst) > screenLength {
		return nil
	}
	s := &screen{}
	sets := s.classify(prog)
	m := &screenMaker{prog: prog, seen: make([]uint32, len(prog.Inst))}
	start, bare, ok := m.closure(uint32(prog.Start))
	if !ok {
		return nil // every position passes
	}
	s.free = bare
	for c, k := range s.classes {
		s.first[c] = slices.ContainsFunc(start, func(pc uint32) bool { return sets[pc][k] })
		if s.first[c] {
			s.few = append(s.few, byte(c))
		}
	}
	if len(s.few) > 2 {
		s.few = nil
	}
	numbers := map[string]uint8{m.key(start): screenStart}
	states := [][]uint32{nil, nil, start}
	s.next = make([]uint8, screenStart*s.width, 8*s.width)
	for n := screenStart; n < len(states); n++ {
		for k := range s.width {
			after := m.next[:0]
			for _, pc := range states[n] {
				if sets[pc][k] {
					after = append(after, prog.Inst[pc].Out)
				}
			}
			to := uint8(screenNo)
			if len(after) > 0 {
				to = screenMaybe
				if set, _, ok := m.closure(after...); ok {
					key := m.key(set)
					if numbers[key] == 0 && len(states) < screenStates && len(states)*s.width < screenSize {
						numbers[key], states = uint8(len(states)), append(states, set)
					}
					to = max(numbers[key], screenMaybe)
				}
			}
			s.next = append(s.next, to)
		}
	}
	return s
}

// classify finds the classes of bytes, and returns for each instruction that reads a byte which
// classes it accepts.
func (s *screen) classify(prog *syntax.Prog) map[uint32][]bool {
	readers := map[uint32][]bool{}
	alike := map[string][]uint32{} // instructions that accept the same bytes
	for pc := range prog.Inst {
		switch x := &prog.Inst[pc]; x.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			key := fmt.Sprint(x.Op, x.Arg, x.Rune)
			alike[key] = append(alike[key], uint32(pc))
		}
	}
	keys := slices.Sorted(maps.Keys(alike))
	accepted := make([]byte, len(keys))
	numbers := map[string]uint8{}
	var classes [][]byte
	for c := range s.classes {
		for i, key := range keys {
			accepted[i] = 0
			if prog.Inst[alike[key][0]].MatchRune(rune(c)) {
				accepted[i] = 1
			}
		}
		k, ok := numbers[string(accepted)]
		if !ok {
			k = uint8(len(numbers))
			numbers[string(accepted)], classes = k, append(classes, slices.Clone(accepted))
		}
		s.classes[c] = k
	}
	s.width = len(classes)
	for i, key := range keys {
		accepts := make([]bool, len(classes))
		for k := range classes {
			accepts[k] = classes[k][i] == 1
		}
		for _, pc := range alike[key] {
			readers[pc] = accepts
		}
	}
	return readers
}

// A screenMaker is the memory for making a screen.
type screenMaker struct {
	prog  *syntax.Prog
	seen  []uint32 // round in which an instruction was last seen
	round uint32
	next  []uint32
	text  []byte
}

// key returns a text that is different for each set of instructions.
func (m *screenMaker) key(set []uint32) string {
	m.text = m.text[:0]
	for _, pc := range set {
		m.text = binary.LittleEndian.AppendUint32(m.text, pc)
	}
	return string(m.text)
}

// closure returns the instructions that read the next byte after some others, sorted. bare
// means that there are no conditions between them. ok is false if there may be a match already,
// or too many instructions.
func (m *screenMaker) closure(from ...uint32) (set []uint32, bare, ok bool) {
	bare = true
	m.round++
	next := append(m.next[:0], from...)
	for len(next) > 0 {
		pc := next[len(next)-1]
		if next = next[:len(next)-1]; m.seen[pc] == m.round {
			continue
		}
		m.seen[pc] = m.round
		switch x := &m.prog.Inst[pc]; x.Op {
		case syntax.InstMatch:
			return nil, bare, false
		case syntax.InstAlt, syntax.InstAltMatch:
			next = append(next, x.Out, x.Arg)
		case syntax.InstEmptyWidth:
			bare = false
			next = append(next, x.Out)
		case syntax.InstCapture, syntax.InstNop:
			next = append(next, x.Out)
		case syntax.InstFail:
		default:
			if set = append(set, pc); len(set) > screenParts {
				return nil, bare, false
			}
		}
	}
	m.next = next
	slices.Sort(set)
	return set, bare, true
}

// rejects reports that no match begins at the beginning of data, and how many bytes it read.
func (s *screen) rejects(data []byte) (read int, no bool) {
	at := screenStart * s.width
	for i, c := range data {
		to := s.next[at+int(s.classes[c])]
		if to <= screenMaybe {
			return i + 1, to == screenNo
		}
		at = int(to) * s.width
	}
	return len(data), true // a match needs more bytes
}

// screenReads limits what skip reads, as a multiple of the bytes that it searches. Beyond that,
// the expression itself is faster.
const screenReads = 4

// skip returns the first position at which a match may begin, or -1.
func (s *screen) skip(data []byte) int {
	left := screenReads * len(data)
	for i := 0; ; i++ {
		n := s.candidate(data[i:])
		if n < 0 {
			return -1
		}
		i += n
		read, no := s.rejects(data[i:])
		if left -= read; !no || left < 0 {
			return i
		}
	}
}

// candidate returns the first position of a byte with which a match may begin, or -1.
func (s *screen) candidate(data []byte) int {
	switch len(s.few) {
	case 1:
		return bytes.IndexByte(data, s.few[0])
	case 2:
		a := bytes.IndexByte(data, s.few[0])
		if a >= 0 {
			data = data[:a]
		}
		if b := bytes.IndexByte(data, s.few[1]); b >= 0 {
			return b
		}
		return a
	}
	for i, c := range data {
		if s.first[c] {
			return i
		}
	}
	return -1
}
