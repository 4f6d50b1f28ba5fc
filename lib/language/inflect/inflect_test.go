package inflect

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// toy is a language with a plural and two cases; its k becomes g before i.
var toy = Grammar{
	Letters: "abcdefghijklmnopqrstuvwxyz",
	Vowels:  "aeiou",
	Starts:  []string{"noun"},
	Slots:   "noun plural?: lar\nplural case?: ni im",
	Repairs: []Repair{{From: "g", To: "k", Before: "i"}},
	Changed: map[string]string{"burn": "burun"},
	Words:   map[string]string{"unga": "u"},
}

var toyPairs = []Pair{
	{"kitob", "kitob", 1}, {"kitoblar", "kitob", 1}, {"kitobni", "kitob", 1}, {"kitoblarni", "kitob", 1},
	{"stol", "stol", 1}, {"stollar", "stol", 1}, {"stolni", "stol", 1}, {"stollarni", "stol", 1},
	{"urugim", "uruk", 1}, {"uruk", "uruk", 1}, {"erkalagim", "erkalak", 1}, {"erkalaklar", "erkalak", 1},
	{"olam", "olam", 1}, {"bola", "bola", 1}, {"bolalar", "bola", 1},
}

func TestTrainedStemmerCutsWordsItHasNotSeen(t *testing.T) {
	m, err := Train(toy, toyPairs, [][]string{{"kitob", "stol", "uruk", "erkalak", "bola", "devor", "barmak"}}, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := m.Write(&file); err != nil {
		t.Fatal(err)
	}
	if m, err = ReadModel(&file); err != nil {
		t.Fatal(err)
	}
	s, err := New(toy, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ word, want string }{
		{"devorlarni", "devor"}, {"barmagim", "barmak"}, {"devor", "devor"}, {"burnim", "burun"}, {"unga", "u"},
		{"Stol", "Stol"}, {"ni", "ni"}, {"", ""}, {strings.Repeat("a", 300), strings.Repeat("a", 300)},
	} {
		if got := string(s.Stem(nil, []byte(c.word))); got != c.want {
			t.Errorf("Stem(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

// TestWeightsAreJoined: the combined weights of a candidate equal the sum over its features.
func TestWeightsAreJoined(t *testing.T) {
	toy := toy
	toy.Stems = "kitob stol"
	m, err := Train(toy, toyPairs, [][]string{{"kitob", "erkalak"}}, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(toy, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"kitoblarni", "urugim", "stol", "burnim", "kitobim", "bolalar", "xyzlar"} {
		k := walk{c: s.c}
		if !s.c.spell([]byte(word), &k.w) {
			t.Fatalf("the grammar cannot spell %q", word)
		}
		k.each = func(x *candidate) {
			var stem [maxLetters + 4]uint8
			n := x.stem(&k.w, &stem)
			want := 0
			for _, i := range s.layout.shows(s.c, x, stem[:n], s.facts(stem[:n])) {
				want += int(math.Round(float64(m.weights[i]) * scale))
			}
			h := s.c.shape(stem[:n])
			h.known = uint8(s.facts(stem[:n]))
			w := s.weights
			got := w.stem(x, &h) + w.facts(x, &h)
			if w.facts(x, &h) > w.maxFacts(x, &h) {
				t.Errorf("%s: facts returned %d, more than maxFacts with %d", word, w.facts(x, &h), w.maxFacts(x, &h))
			}
			for i, e := range x.chain[:x.length] {
				if i == 0 {
					got += int(w.first[e])
				} else {
					got += int(w.next[int(x.chain[i-1])*w.m+int(e)])
				}
			}
			if x.length > 0 {
				got += int(w.last[x.chain[x.length-1]]) + int(w.count[x.length])
			}
			if got != want {
				t.Errorf("%s, cut after %d: the weights add up to %d, want %d", word, x.cut, got, want)
			}
		}
		k.candidates()
	}
}

func TestModelOfAnotherGrammarIsRefused(t *testing.T) {
	m, err := Train(toy, toyPairs, nil, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := toy
	other.Slots += "\ncase end: mi"
	if _, err := New(other, m); err == nil || !strings.Contains(err.Error(), "train it again") {
		t.Errorf("New with a changed grammar: %v, want advice", err)
	}
}

func TestGrammarMistakesAreNamed(t *testing.T) {
	for slots, want := range map[string]string{
		"noun: lar":         "is not a slot of endings",
		"noun plural: lär":  "has a letter that is not in the alphabet",
		"a b?:\nc d e: lar": "is not a slot of endings",
	} {
		g := toy
		g.Slots = slots
		if _, err := Train(g, nil, nil, 1, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Train with the slots %q: %v, want an error with %q", slots, err, want)
		}
	}
}

func FuzzReadModel(f *testing.F) {
	m, err := Train(toy, toyPairs, [][]string{{"kitob"}}, 1, 1)
	if err != nil {
		f.Fatal(err)
	}
	var file bytes.Buffer
	if err := m.Write(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(modelMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ReadModel(bytes.NewReader(data)); err == nil {
			if s, err := New(toy, m); err == nil {
				s.Stem(nil, []byte("kitoblarni"))
			}
		}
	})
}

func TestJudge(t *testing.T) {
	got := Judge([][3]string{{"a1", "a", "a"}, {"a2", "a", "a"}, {"a3", "a", "aa"}, {"b1", "bb", "b"}})
	if got.Exact != 0.5 || got.Over != 0.25 || got.Under != 0.25 || got.F1 != 0.5 {
		t.Errorf("Judge returned %s", got)
	}
}
