package inflect

import "fmt"

// A Score is the quality of a stemmer.
type Score struct {
	Words int
	Exact float64 // share of words with the expected stem
	F1    float64 // of pairs of words with the same stem
	Over  float64 // share of words cut too short
	Under float64 // share of words left too long
}

func (s Score) String() string {
	return fmt.Sprintf("%d words: %.1f %% exact, F1 %.3f, over-stemmed %.1f %%, under-stemmed %.1f %%", s.Words, 100*s.Exact, s.F1, 100*s.Over, 100*s.Under)
}

// Judge compares stems: each row is a word, the expected stem and the stem found. F1 is over
// pairs of words with the same stem.
func Judge(rows [][3]string) (s Score) {
	want, got, both := map[string]int{}, map[string]int{}, map[[2]string]int{}
	for _, r := range rows {
		want[r[1]]++
		got[r[2]]++
		both[[2]string{r[1], r[2]}]++
		switch {
		case r[1] == r[2]:
			s.Exact++
		case len(r[2]) < len(r[1]):
			s.Over++
		default:
			s.Under++
		}
	}
	pairs := func(n int) float64 { return float64(n) * float64(n-1) / 2 }
	var w, g, b float64
	for _, n := range want {
		w += pairs(n)
	}
	for _, n := range got {
		g += pairs(n)
	}
	for _, n := range both {
		b += pairs(n)
	}
	if w+g > 0 {
		s.F1 = 2 * b / (w + g)
	}
	s.Words = len(rows)
	n := float64(max(1, s.Words))
	s.Exact, s.Over, s.Under = s.Exact/n, s.Over/n, s.Under/n
	return s
}
