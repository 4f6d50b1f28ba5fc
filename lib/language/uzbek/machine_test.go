package uzbek

import (
	"bytes"
	"strings"
	"testing"

	"shuultuur/lib/language/inflect"
)

// machine is the finite-state stemmer for Uzbek nouns of 2016, which reads a word from its
// end: in each state, an ending leads to another state.
var machine = map[string][]struct {
	endings string
	to      string
}{
	"start":    {{"dir dirda ku mi mikan siz day dek niki dagi", "start"}, {"mas", "negative"}, {"ning", "genitive"}, {"lar", "plural"}, {"dan da ga ni", "case"}, {"miz ngiz m si i ng", "owned"}},
	"negative": {{"dan da ga ni", "case"}},
	"case":     {{"miz ngiz m si i ng", "owned"}, {"lar", "plural"}},
	"genitive": {{"miz ngiz m si i ng", "owned"}, {"lar", "plural"}},
	"owned":    {{"lar", "plural"}},
	"plural":   {{"dagi", "start"}},
}

// byMachine takes the longest path through the machine that leaves a stem.
func byMachine(word, state string, stems map[string]bool) {
	if len(word) < 2 {
		return
	}
	stems[word] = true
	if state == "owned" {
		if w, ok := strings.CutSuffix(word, "i"); ok { // the vowel before m, ng, miz, ngiz
			byMachine(w, "owned", stems)
		}
	}
	for _, step := range machine[state] {
		for _, e := range strings.Fields(step.endings) {
			if w, ok := strings.CutSuffix(word, e); ok {
				byMachine(w, step.to, stems)
			}
		}
	}
}

func TestNounsAreCutWhereThePublishedMachineCuts(t *testing.T) {
	s := stemmer(t)
	rows := pairs(t, "uz-nouns")
	outside := 0
	for _, r := range rows {
		stems := map[string]bool{}
		byMachine(r[0], "start", stems)
		if !stems[string(s.Stem(nil, []byte(r[0])))] {
			outside++
		}
	}
	if outside > len(rows)/50 {
		t.Errorf("%d of %d nouns are cut where the machine does not cut", outside, len(rows))
	}
}

func TestAccuracy(t *testing.T) {
	s := stemmer(t)
	for _, c := range []struct {
		set       string
		exact, f1 float64
	}{
		{"uz-nouns", 0.95, 0.95},
		{"uz-verbs", 0.90, 0.90},
		{"uz-text", 0.88, 0.85},
		{"uz-judged", 0.88, 0.85},
	} {
		var rows [][3]string
		for _, r := range pairs(t, c.set) {
			rows = append(rows, [3]string{r[0], r[1], string(s.Stem(nil, []byte(r[0])))})
		}
		got := inflect.Judge(rows)
		t.Log(c.set, got)
		if got.Exact < c.exact || got.F1 < c.f1 {
			t.Errorf("%s: %s; want at least %.1f %% exact and F1 %.2f", c.set, got, 100*c.exact, c.f1)
		}
	}
}

func TestStemmingAllocatesNothing(t *testing.T) {
	s := stemmer(t)
	dst := make([]byte, 0, 64)
	for _, w := range []string{"mahallamizdagilardanmisiz", "китобларимиздан", "shahrida", "unga"} {
		word := []byte(w)
		if n := testing.AllocsPerRun(100, func() { dst = s.Stem(dst[:0], word) }); n != 0 {
			t.Errorf("Stem(%q) allocates %v times, want 0", w, n)
		}
	}
}

func FuzzStem(f *testing.F) {
	s := stemmer(f)
	for _, w := range []string{"kitoblarimizdan", "o‘g‘limga", "маҳалламиз", "\xff", "iiiiiiiiiiiiiiiiiiiiiiii", strings.Repeat("lar", 40)} {
		f.Add([]byte(w))
	}
	f.Fuzz(func(t *testing.T, word []byte) {
		got := s.Stem(nil, word)
		if len(got) == 0 && len(word) > 0 && len(Latin(nil, word)) > 0 {
			t.Errorf("the stem of %q is empty", word)
		}
		if again := s.Stem([]byte("x"), word); !bytes.Equal(again[1:], got) {
			t.Errorf("Stem(%q) = %q, then %q", word, got, again[1:])
		}
	})
}
