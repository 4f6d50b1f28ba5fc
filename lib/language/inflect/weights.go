package inflect

import (
	"errors"
	"math"
)

// A shape has the features of a stem.
type shape struct {
	cut        uint8 // position of the cut
	n, vowels  uint8
	l1, l2, l3 uint8 // last letters, 0 for none
	known      uint8 // bits of the lexicons that contain it, once they were asked
	asked      bool
}

func (c *compiledGrammar) shape(stem []uint8) shape {
	n := len(stem)
	h := shape{n: uint8(n), l1: stem[n-1]}
	if n > 1 {
		h.l2 = stem[n-2]
	}
	if n > 2 {
		h.l3 = stem[n-3]
	}
	for _, l := range stem {
		if c.vowel(l) {
			h.vowels++
		}
	}
	return h
}

// weights are those of a model, combined: features that occur together are added up
// beforehand, so that a candidate needs few reads and the tables fit into a processor's cache.
// They count steps of 1/scale, as in the file.
type weights struct {
	l, m, s int // letters, endings, starts

	first []int16 // by ending: of the first
	next  []int16 // by two endings
	last  []int16
	count []int16 // by number of endings

	whole       []int16 // by three letters
	wholeLength []int16
	wholeVowels []int16
	wholeFacts  []int16 // by facts and length
	wholeMost   []int16 // by length: the maximum of wholeFacts

	ending    []int16 // by first ending and two letters
	stem3     []int16 // by three letters
	length    []int16 // by start, length and first ending
	vowels    []int16 // by first ending and number of vowels
	repair    []int16 // by repair and start
	repaired  []int16 // by repair and two letters
	repairing []int16 // by repair and first ending

	factLength []int16 // by facts, start and length
	factEnding []int16 // by facts and first ending
	factMost   []int16 // by start, length and first ending: the maximum of these two
}

// join makes weights from those that the layout numbers.
func (y *layout) join(c *compiledGrammar, from []float32) (*weights, error) {
	w := &weights{l: y.l, m: y.m, s: y.s}
	at := func(k kind, i int) int { return int(math.Round(float64(from[y.at[k]+i]) * scale)) }
	fits := true
	table := func(n int, value func(i int) int) []int16 {
		t := make([]int16, n)
		for i := range t {
			v := value(i)
			t[i] = int16(v)
			fits = fits && int(t[i]) == v
		}
		return t
	}
	w.first = table(y.m, func(i int) int { return at(byEnding, i) })
	w.next = table(y.m*y.m, func(i int) int { return at(byPair, i) + at(byEnding, i%y.m) })
	w.last = table(y.m, func(i int) int { return at(byLast, i) })
	w.count = table(maxChain+1, func(i int) int { return at(byCount, i) })

	w.whole = table(y.l*y.l*y.l, func(i int) int {
		return at(byWhole, 0) + at(byWhole1, i%y.l) + at(byWhole2, i%(y.l*y.l)) + at(byWhole3, i)
	})
	w.wholeLength = table(lengths+4, func(i int) int { return at(byWholeLength, i) })
	w.wholeVowels = table(vowels+1, func(i int) int { return at(byWholeVowels, i) })
	sum := func(k kind, known, each, i int) (sum int) {
		for b := range 4 {
			if known>>b&1 != 0 {
				sum += at(k, b*each+i)
			}
		}
		return sum
	}
	w.wholeFacts = table(facts*lengths, func(i int) int {
		return at(byWholeKnown, i) + sum(byWholeFact, i/lengths, 1, 0)
	})
	w.wholeMost = table(lengths, func(i int) int {
		return maxOver(func(known int) int { return int(w.wholeFacts[known*lengths+i]) })
	})

	w.ending = table(y.m*y.l*y.l, func(i int) int {
		first, l1 := i/(y.l*y.l), i%y.l
		open := 0
		if c.vowel(uint8(l1)) {
			open = 1
		}
		return at(byEnding2, i) + at(byEnding1, first*y.l+l1) + at(byAgree, first*2+open) + at(byStem2, i%(y.l*y.l))
	})
	w.stem3 = table(y.l*y.l*y.l, func(i int) int { return at(byStem3, i) })
	w.length = table(y.s*lengths*y.m, func(i int) int {
		first, long, s := i%y.m, i/y.m%lengths, i/y.m/lengths
		return at(byStart, s) + at(byStartLength, s*lengths+long) + at(byEndingLength, first*lengths+long)
	})
	w.vowels = table(y.m*vowels, func(i int) int { return at(byEndingVowels, i) })
	w.repair = table(y.r*y.s, func(i int) int { return at(byRepair, i) })
	w.repaired = table(y.r*y.l*y.l, func(i int) int { return at(byRepair1, i) })
	w.repairing = table(y.r*y.m, func(i int) int { return at(byRepairEnding, i) })

	w.factLength = table(facts*y.s*lengths, func(i int) int {
		return at(byKnownLength, i) + sum(byFact, i/lengths/y.s, y.s, i/lengths%y.s)
	})
	w.factEnding = table(facts*y.m, func(i int) int { return at(byKnownEnding, i) })
	w.factMost = table(y.s*lengths*y.m, func(i int) int {
		first, length := i%y.m, i/y.m
		return maxOver(func(known int) int {
			return int(w.factLength[known*y.s*lengths+length]) + int(w.factEnding[known*y.m+first])
		})
	})
	if !fits {
		return nil, errors.New("a weight of the model is too large: train it again")
	}
	return w, nil
}

// maxOver returns the largest value over all answers of the lexicons.
func maxOver(value func(known int) int) int {
	x := value(0)
	for known := 1; known < facts; known++ {
		x = max(x, value(known))
	}
	return x
}

// stem returns the sum for the letters of a candidate's stem.
func (w *weights) stem(x *candidate, h *shape) int {
	l21 := int(h.l2)*w.l + int(h.l1)
	l321 := int(h.l3)*w.l*w.l + l21
	if x.length == 0 {
		return int(w.whole[l321]) + int(w.wholeLength[min(h.n, lengths+3)]) + int(w.wholeVowels[min(h.vowels, vowels)])
	}
	s, first := int(x.start), int(x.chain[0])
	sum := int(w.ending[first*w.l*w.l+l21]) + int(w.stem3[l321]) + int(w.length[w.at(x, h)]) +
		int(w.vowels[first*vowels+int(min(h.vowels, vowels-1))]) + int(w.repair[int(x.repair)*w.s+s])
	if x.repair != 0 {
		sum += int(w.repaired[int(x.repair)*w.l*w.l+l21]) + int(w.repairing[int(x.repair)*w.m+first])
	}
	return sum
}

// at returns the index in tables by start, length and first ending.
func (w *weights) at(x *candidate, h *shape) int {
	return (int(x.start)*lengths+int(min(h.n, lengths-1)))*w.m + int(x.chain[0])
}

// facts returns the sum for the lexicons' facts about a candidate's stem.
func (w *weights) facts(x *candidate, h *shape) int {
	known, long := int(h.known), int(min(h.n, lengths-1))
	if x.length == 0 {
		return int(w.wholeFacts[known*lengths+long])
	}
	return int(w.factLength[(known*w.s+int(x.start))*lengths+long]) + int(w.factEnding[known*w.m+int(x.chain[0])])
}

// maxFacts returns the largest sum that facts may return.
func (w *weights) maxFacts(x *candidate, h *shape) int {
	if x.length == 0 {
		return int(w.wholeMost[min(h.n, lengths-1)])
	}
	return int(w.factMost[w.at(x, h)])
}
