package uzbek

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"shuultuur/test/data"
)

func stemmer(t testing.TB) *Stemmer {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStem(t *testing.T) {
	s := stemmer(t)
	for _, c := range []struct{ word, want string }{
		{"mahallamizdagilardanmisiz", "mahalla"},
		{"kitoblarimizdan", "kitob"},
		{"kitob", "kitob"},
		{"kuni", "kun"},
		{"qishlog'imizda", "qishloq"},
		{"qishlogʻimizda", "qishloq"},
		{"o‘g‘limga", "o'g'il"},
		{"shahrida", "shahar"},
		{"bormaganmisiz", "bor"},
		{"o'qiyapman", "o'qi"},
		{"ishlayotganlarga", "ishla"},
		{"unga", "u"},
		{"китобларимиздан", "kitob"},
		{"маҳалламиздагилардан", "mahalla"},
		{"ўқияпман", "o'qi"},
		{"uy", "uy"},
		{"a", "a"},
		{"", ""},
	} {
		if got := string(s.Stem(nil, []byte(c.word))); got != c.want {
			t.Errorf("Stem(%q) = %q, want %q", c.word, got, c.want)
		}
	}
}

func pairs(t testing.TB, set string) (rows [][2]string) {
	f, err := os.Open(data.Path(t, "stems", set+".tsv"))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w, stem, _ := strings.Cut(sc.Text(), "\t")
		rows = append(rows, [2]string{w, stem})
	}
	return rows
}

func BenchmarkStem(b *testing.B) {
	s := stemmer(b)
	var all [][]byte
	for _, set := range []string{"uz-text", "uz-judged"} {
		for _, r := range pairs(b, set) {
			all = append(all, []byte(r[0]))
		}
	}
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		dst = s.Stem(dst[:0], all[i%len(all)])
		i++
	}
}

func TestWordsWithoutTheirApostrophesAreJoined(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"to g ri yo l":                 "to'g'ri|yo'l",
		"o qituvchilar bog imizda":     "o'qituvchilar|bog'imizda",
		"kitob o qiydilar va":          "kitob|o'qiydilar|va",
		"bo lganda ham ko p":           "bo'lganda|ham|ko'p",
		"san at ma no e lon":           "san'at|ma'no|e'lon",
		"bu kitob katta":               "bu|kitob|katta",
		"u shu yerda ishlaydi":         "u|shu|yerda|ishlaydi",
		"qo shni mahallada qo ng iroq": "qo'shni|mahallada|qo'ng'iroq",
		"":                             "",
	} {
		var got []string
		for parts := strings.Fields(text); len(parts) > 0; {
			word, n := s.JoinParts(parts)
			got, parts = append(got, word), parts[n:]
		}
		if all := strings.Join(got, "|"); all != want {
			t.Errorf("the words of %q are %q, want %q", text, all, want)
		}
	}
}
