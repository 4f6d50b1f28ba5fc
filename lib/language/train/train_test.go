package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/language/inflect"
)

// written writes files of pairs and of roots, as the program reads them.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A model that was trained on nouns in some forms knows forms of nouns that it has not seen.
func TestATrainedModelKnowsFormsOfNewWords(t *testing.T) {
	var roots, text, mongolian strings.Builder
	for _, x := range strings.Fields("kitob daftar maktab shahar bozor olma bola uy ko'cha qishloq o'rtoq yurak gul dala tosh suv non xona eshik deraza stol kalit mashina odam dunyo") {
		roots.WriteString(x + ",noun\n")
		for _, end := range []string{"", "lar", "ni", "da", "dan", "lardan", "imizda"} {
			text.WriteString(x + end + "\t" + x + "\n")
		}
	}
	for _, x := range strings.Fields("ном гэр хот багш сургууль ширээ мод ус хүн морь нохой") {
		for _, end := range []string{"", "ын", "ыг", "аас"} {
			mongolian.WriteString(x + end + "\t" + x + "\n")
		}
	}
	roots.WriteString("bor,verb\nqora,adj\nham,conj\na b,noun\nx,noun\nkitob,noun\n")
	dir := written(t, map[string]string{"root.csv": roots.String(), "uz-text.tsv": text.String(), "mn-nouns.tsv": mongolian.String()})
	for _, tt := range []struct {
		lang, set string
		known     map[string]string
	}{
		{"uz", "uz-text", map[string]string{"kitoblardan": "kitob", "olmalarni": "olma", "stolda": "stol"}},
		{"mn", "mn-nouns", map[string]string{"номыг": "ном"}},
	} {
		c, err := newCourse(tt.lang, filepath.Join(dir, "root.csv"))
		if err != nil {
			t.Fatal(err)
		}
		c.rounds, c.rare = 3, 1
		if c.pairs[tt.set], err = read(filepath.Join(dir, tt.set+".tsv")); err != nil || len(c.pairs[tt.set]) == 0 {
			t.Fatalf("%d pairs, %v", len(c.pairs[tt.set]), err)
		}
		out := filepath.Join(dir, tt.lang+".model")
		if err := c.write(out); err != nil {
			t.Fatal(err)
		}
		g, m, err := c.train(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		s, err := inflect.New(g, m)
		if err != nil {
			t.Fatal(err)
		}
		for word, want := range tt.known {
			if got := string(s.Stem(nil, []byte(word))); got != want {
				t.Errorf("%s: the stem of %s is %s, want %s", tt.lang, word, got, want)
			}
		}
		if stat, err := os.Stat(out); err != nil || stat.Size() == 0 {
			t.Errorf("%s: no model was written: %v", tt.lang, err)
		}
		if err := c.validate(2); err != nil {
			t.Errorf("%s: %v", tt.lang, err)
		}
	}
	if _, err := newCourse("en", ""); err == nil {
		t.Error("there is a course for English")
	}
	if _, err := newCourse("uz", filepath.Join(dir, "none.csv")); err == nil {
		t.Error("roots that are not there are read")
	}
	if _, err := read(filepath.Join(dir, "none.tsv")); err == nil {
		t.Error("pairs that are not there are read")
	}
}

func TestRootsAreReadByTheirKind(t *testing.T) {
	dir := written(t, map[string]string{"root.csv": "Kitob,noun\noʻqi,verb\nva,conj\nqora,adj\nkitob,noun\nbir narsa,noun\nx,noun\nalone\n"})
	got, err := lexicons(filepath.Join(dir, "root.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"kitob", "qora"}, {"o'qi"}, {"va"}} {
		if !slices.Equal(got[i], want) {
			t.Errorf("kind %d: %q, want %q", i, got[i], want)
		}
	}
}
