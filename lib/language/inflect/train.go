package inflect

import "math/rand/v2"

// A Pair is a word and its stem. Weight is its weight in training.
type Pair struct {
	Word, Stem string
	Weight     float32
}

// Train trains a model with pairs: an averaged perceptron over the candidates of each word
// (Collins 2002). Each lexicon is a list of stems; there may be three. Features of fewer than
// rare stems are not learned.
func Train(g Grammar, pairs []Pair, lexicons [][]string, rounds, rare int) (*Model, error) {
	s, err := blank(g)
	if err != nil {
		return nil, err
	}
	for _, words := range lexicons {
		x := newLexicon(len(words))
		for _, w := range words {
			if l := s.c.codes(w); len(l) > 0 {
				x.add(l)
			}
		}
		s.known = append(s.known, x)
	}
	examples := s.examples(pairs, rare)
	w := make([]float32, s.layout.size)
	sum := make([]float64, s.layout.size)
	score := func(shows []int32) (x float32) {
		for _, i := range shows {
			x += w[i]
		}
		return x
	}
	t := 1.0
	r := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		r.Shuffle(len(examples), func(i, j int) { examples[i], examples[j] = examples[j], examples[i] })
		for _, e := range examples {
			var good, bad option
			g, b := float32(-1<<20), float32(-1<<20)
			for _, o := range e.options {
				x := score(o.shows)
				if o.right && x > g {
					g, good = x, o
				} else if !o.right && x+1 > b {
					b, bad = x+1, o
				}
			}
			t++
			if bad.shows == nil || g >= b {
				continue
			}
			for _, i := range good.shows {
				w[i] += e.weight
				sum[i] += float64(e.weight) * t
			}
			for _, i := range bad.shows {
				w[i] -= e.weight
				sum[i] -= float64(e.weight) * t
			}
		}
	}
	for i := range w {
		w[i] -= float32(sum[i] / t)
	}
	return &Model{weights: w, lexicons: s.known}, nil
}

type option struct {
	shows []int32
	right bool
}

type example struct {
	options []option
	weight  float32
}

// examples lists the candidates of every pair if one of them is right.
func (s *Stemmer) examples(pairs []Pair, rare int) []example {
	last := map[int32]string{}
	count := make([]int, s.layout.size)
	var all []example
	for n, p := range pairs {
		// Every second word is trained as if its stem were not common, so that other stems are
		// found, too.
		common := n%2 == 0
		var k walk
		k.c = s.c
		if !s.c.spell([]byte(p.Word), &k.w) || k.w.n < 3 || s.words[p.Word] != "" {
			continue
		}
		want := string(s.c.codes(p.Stem))
		e := example{weight: p.Weight}
		found := false
		k.each = func(x *candidate) {
			var stem [maxLetters + 4]uint8
			n := x.stem(&k.w, &stem)
			known := s.facts(stem[:n])
			if !common {
				known &^= isCommon
			}
			o := option{shows: s.layout.shows(s.c, x, stem[:n], known), right: string(stem[:n]) == want}
			found = found || o.right
			e.options = append(e.options, o)
			for _, i := range o.shows {
				if last[i] != p.Stem {
					last[i] = p.Stem
					count[i]++
				}
			}
		}
		k.candidates()
		if found {
			all = append(all, e)
		}
	}
	for i := range all {
		for j := range all[i].options {
			o := &all[i].options[j]
			kept := o.shows[:0]
			for _, n := range o.shows {
				if count[n] >= rare {
					kept = append(kept, n)
				}
			}
			o.shows = kept
		}
	}
	return all
}
