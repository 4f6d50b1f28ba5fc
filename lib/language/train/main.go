// Train learns the models of the stemmers from files of words and stems, and
// reports how well they do on stems they have not seen:
//
//	go run ./lib/language/train -lang uz -data FOLDER -roots root.csv -out uzbek.model
//	go run ./lib/language/train -lang uz -data FOLDER -roots root.csv -run 10
//
// The data are tables of words and their stems (UniMorph, CC BY-SA 3.0; UD_Uzbek-UT, CC BY-SA
// 4.0; the test sheet of UzMorphAnalyser, MIT). The roots are the word list of UzMorph (MIT).
// Only weights and the hashes of a Bloom filter are written.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shuultuur/lib/language/inflect"
	"shuultuur/lib/language/mongolian"
	"shuultuur/lib/language/uzbek"
)

// A course has the data to train the stemmer of one language.
type course struct {
	grammar  inflect.Grammar
	sets     map[string]float32        // files of pairs, and their weights
	pairs    map[string][]inflect.Pair // by set; those in files are not yet read
	lexicons [][]string
	regular  func(nouns map[string]bool, keep func(string) bool) []inflect.Pair // forms made by rules
	nouns    func(set string, p inflect.Pair) bool                              // reports whether the pair has a noun

	rounds, rare int
}

func main() {
	log.SetFlags(0)
	lang := flag.String("lang", "uz", "uz or mn")
	dir := flag.String("data", "", "folder of the pairs")
	roots := flag.String("roots", "", "root.csv of UzMorph, for uz")
	run := flag.Int("run", 0, "parts of the stems for cross-validation; 0 trains on everything and writes -out")
	rare := flag.Int("rare", 4, "stems that must show something before it is learned")
	rounds := flag.Int("rounds", 8, "passes over the data")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	c, err := newCourse(*lang, *roots)
	if err != nil {
		log.Fatal(err)
	}
	c.rounds, c.rare = *rounds, *rare
	for set := range c.sets {
		if c.pairs[set] != nil {
			continue
		}
		if c.pairs[set], err = read(filepath.Join(*dir, set+".tsv")); err != nil {
			log.Fatal(err)
		}
	}
	if *run > 0 {
		err = c.validate(*run)
	} else {
		err = c.write(*out)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func newCourse(lang, roots string) (*course, error) {
	switch lang {
	case "uz":
		lex, err := lexicons(roots)
		if err != nil {
			return nil, err
		}
		return &course{
			grammar: uzbek.Grammar, lexicons: lex, pairs: map[string][]inflect.Pair{},
			sets: map[string]float32{"uz-nouns": .5, "uz-verbs": .3, "uz-text": 1, "uz-judged": 1},
			regular: func(nouns map[string]bool, keep func(string) bool) []inflect.Pair {
				return slices.Concat(paradigms(nouns, 3), paradigms(difficult(lex[0], keep), 2), conjugations(15))
			},
			nouns: func(set string, p inflect.Pair) bool {
				return p.Word == p.Stem && (set == "uz-text" || set == "uz-judged")
			},
		}, nil
	case "mn":
		return &course{
			grammar: mongolian.Grammar,
			sets:    map[string]float32{"mn-nouns": 1, "mn-verbs": .1},
			pairs:   map[string][]inflect.Pair{"mn-verbs": mongolianVerbs(40)},
			regular: func(nouns map[string]bool, _ func(string) bool) []inflect.Pair { return mongolianPlurals(nouns, 2) },
			nouns:   func(set string, _ inflect.Pair) bool { return set == "mn-nouns" },
		}, nil
	}
	return nil, fmt.Errorf("%q is not uz or mn", lang)
}

// train trains with the pairs whose stems keep accepts.
func (c *course) train(keep func(stem string) bool) (inflect.Grammar, *inflect.Model, error) {
	var pairs []inflect.Pair
	nouns := map[string]bool{}
	for _, set := range slices.Sorted(maps.Keys(c.sets)) {
		for _, p := range c.pairs[set] {
			if keep(p.Stem) {
				p.Weight = c.sets[set]
				pairs = append(pairs, p)
				if c.nouns(set, p) {
					nouns[p.Stem] = true
				}
			}
		}
	}
	g := c.grammar
	g.Stems = ""
	for _, stem := range strings.Fields(c.grammar.Stems) {
		if keep(stem) {
			g.Stems += stem + " "
		}
	}
	m, err := inflect.Train(g, append(pairs, c.regular(nouns, keep)...), c.lexicons, c.rounds, c.rare)
	return g, m, err
}

func (c *course) write(path string) error {
	_, m, err := c.train(func(string) bool { return true })
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// validate judges the words of each part of the stems by a model trained without them.
func (c *course) validate(parts int) error {
	part := func(stem string) int {
		h := fnv.New32a()
		h.Write([]byte(stem))
		return int(h.Sum32()>>3) % parts
	}
	rows := map[string][][3]string{}
	for k := range parts {
		g, m, err := c.train(func(stem string) bool { return part(stem) != k })
		if err != nil {
			return err
		}
		s, err := inflect.New(g, m)
		if err != nil {
			return err
		}
		for set, pairs := range c.pairs {
			for _, p := range pairs {
				if part(p.Stem) == k {
					rows[set] = append(rows[set], [3]string{p.Word, p.Stem, string(s.Stem(nil, []byte(p.Word)))})
				}
			}
		}
	}
	for _, set := range slices.Sorted(maps.Keys(rows)) {
		fmt.Println(set, inflect.Judge(rows[set]))
	}
	return nil
}

// read reads lines of a word, a tab and its stem.
func read(path string) (pairs []inflect.Pair, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		w, stem, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if ok {
			pairs = append(pairs, inflect.Pair{Word: w, Stem: stem})
		}
	}
	return pairs, nil
}

// lexicons reads the word list of UzMorph: nouns and adjectives, verbs, others.
func lexicons(path string) ([][]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	one := strings.NewReplacer("ʻ", "'", "‘", "'", "’", "'", "ʼ", "'")
	lex := make([][]string, 3)
	seen := map[string]bool{}
	for line := range strings.Lines(one.Replace(strings.ToLower(string(data)))) {
		x := strings.Split(strings.TrimSpace(line), ",")
		if len(x) < 2 || len(x[0]) < 2 || strings.ContainsAny(x[0], " -") || seen[x[0]+x[1]] {
			continue
		}
		seen[x[0]+x[1]] = true
		k := 2
		switch x[1] {
		case "noun", "adj", "ppn":
			k = 0
		case "verb":
			k = 1
		}
		lex[k] = append(lex[k], x[0])
	}
	return lex, nil
}

// difficult returns nouns that are too rare in texts: short ones, and those in k and q, which
// become g and g' before a vowel. It omits those in lik, because sources disagree whether that
// belongs to the stem.
func difficult(nouns []string, keep func(string) bool) map[string]bool {
	some := map[string]bool{}
	for _, x := range nouns {
		h := fnv.New32a()
		h.Write([]byte(x))
		soft := len(x) > 3 && len(x) < 9 && !strings.HasSuffix(x, "lik") && strings.ContainsAny(x[len(x)-1:], "kq")
		if keep(x) && (soft && h.Sum32()%8 == 0 || len(x) > 1 && len(x) < 5 && h.Sum32()%8 == 3) {
			some[x] = true
		}
	}
	return some
}

// paradigms inflects nouns as grammar books do.
func paradigms(nouns map[string]bool, n int) (pairs []inflect.Pair) {
	r := rand.New(rand.NewPCG(5, 5))
	pick := func(x ...string) string { return x[r.IntN(len(x))] }
	for _, x := range slices.Sorted(maps.Keys(nouns)) {
		if len(x) < 2 || strings.ContainsAny(x[len(x)-1:], "'-") || !strings.ContainsAny(x, "aeiou") {
			continue
		}
		for range n {
			y := x + pick("", "", "lar")
			vowel := strings.ContainsAny(y[len(y)-1:], "aeiou")
			own := ""
			if r.IntN(5) < 3 {
				if vowel {
					own = pick("m", "ng", "si", "miz", "ngiz")
				} else {
					own = pick("im", "ing", "i", "imiz", "ingiz")
				}
			}
			if own != "" && !vowel && y == x && len(x) > 3 {
				if strings.HasSuffix(y, "q") {
					y = y[:len(y)-1] + "g'"
				} else if strings.HasSuffix(y, "k") {
					y = y[:len(y)-1] + "g"
				}
			}
			y += own
			c := pick("", "", "ni", "ning", "da", "dan", "ga", "dagi")
			if c == "ga" && own == "" && strings.HasSuffix(y, "k") {
				c = "ka"
			} else if c == "ga" && own == "" && strings.HasSuffix(y, "q") {
				c = "qa"
			}
			if r.IntN(4) == 0 {
				if c == "da" {
					c += "gi"
				}
				if c == "dagi" {
					c += pick("", "lar", "lar", "lari") + pick("", "ni", "ning", "dan", "ga", "da")
				}
				c += pick("mi", "misiz", "dir", "mas", "chi", "man", "siz", "miz", "ku", "")
			}
			pairs = append(pairs, inflect.Pair{Word: y + c, Stem: x, Weight: .4})
		}
	}
	return pairs
}

// conjugations inflects the common verbs.
func conjugations(n int) (pairs []inflect.Pair) {
	r := rand.New(rand.NewPCG(6, 6))
	after := strings.Fields("di dim dik dilar gan ganlar gani ganini ganda ganman ganligi ib ish ishi ishni ishga ishda ishlari ishdi ishgan madi magan maydi may mas masdan sa sam salar sin sinlar moq moqchi moqda moqdalar uvchi yapti yapman ayotgan ayotgani adi aman amiz adilar adigan ar ardi ing ganmisiz yaptimi olmaydi olmadi avermaydi")
	afterVowel := strings.Fields("di dim dik dilar gan ganlar gani ganini ganda b sh shi shni shga shda shlari shdi shgan madi magan maydi may mas masdan sa sin moq moqda vchi yapti yapman yotgan ydi yman ymiz ydilar ydigan r rdi ng")
	passive := strings.Fields("di gan ganda adi ib ish ishi ishiga ishini moqda ayotgan adigan sa magan maydi")
	for _, x := range strings.Fields(uzbek.Verbs) {
		vowel := strings.ContainsAny(x[len(x)-1:], "aeiou")
		for range n {
			var w string
			switch {
			case vowel && r.IntN(4) == 0:
				w = x + "n" + passive[r.IntN(len(passive))]
			case vowel:
				w = x + afterVowel[r.IntN(len(afterVowel))]
			case r.IntN(4) == 0:
				voice := "il"
				if strings.HasSuffix(x, "l") {
					voice = "in"
				}
				w = x + voice + passive[r.IntN(len(passive))]
			default:
				e := after[r.IntN(len(after))]
				if strings.HasPrefix(e, "gan") && strings.HasSuffix(x, "k") {
					e = "k" + e[1:]
				}
				w = x + e
			}
			if strings.HasSuffix(w, "gan") || strings.HasSuffix(w, "kan") || strings.HasSuffix(w, "sh") {
				switch r.IntN(5) {
				case 0:
					w += "lar" + []string{"", "ga", "ni", "ning", "dan", "da", "i", "imiz"}[r.IntN(8)]
				case 1:
					w += []string{"misiz", "mi", "siz", "man", "miz", "edi", "dan", "da", "ga"}[r.IntN(9)]
				}
			}
			pairs = append(pairs, inflect.Pair{Word: w, Stem: x, Weight: .5})
		}
	}
	return pairs
}
