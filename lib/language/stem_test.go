package language

import (
	"strings"
	"testing"
)

func TestStem(t *testing.T) {
	for _, c := range []struct {
		tag        Tag
		word, want string
	}{
		{"en", "libraries", "librari"}, {"en", "running", "run"}, {"en", "is", "is"},
		{"ru", "книгами", "книг"}, {"de", "büchern", "buch"}, {"fr", "continuellement", "continuel"},
		{"fi", "kirjastoissamme", "kirjasto"}, {"hu", "könyvtárakban", "könyvtár"}, {"tr", "kitaplarımızdan", "kitap"},
		{"uz-Latn", "kitoblarimizdan", "kitob"}, {"uz-Cyrl", "китобларимиздан", "kitob"}, {"mn", "номуудаас", "ном"},
		{"zh", "图书馆", "图书馆"}, {"ar", "الكتاب", "كتاب"},
	} {
		s, err := NewStemmer(c.tag)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.Stem(nil, []byte(c.word))); got != c.want {
			t.Errorf("%s: Stem(%q) = %q, want %q", c.tag, c.word, got, c.want)
		}
	}
	if _, err := NewStemmer("vi"); err == nil {
		t.Error("there is a stemmer for Vietnamese, whose words have one form")
	}
}

func FuzzStemmers(f *testing.F) {
	var all []Stemmer
	for _, l := range Languages {
		if s, err := NewStemmer(l.Tag); err == nil {
			all = append(all, s)
		}
	}
	for _, text := range sentences {
		for w := range strings.FieldsSeq(text) {
			f.Add([]byte(strings.ToLower(w)))
			break
		}
	}
	f.Fuzz(func(t *testing.T, word []byte) {
		for _, s := range all {
			if got := s.Stem(nil, word); len(got) == 0 && len(word) > 0 && len(strings.Trim(string(word), "ьъЬЪ")) > 0 {
				t.Errorf("%T: the stem of %q is empty", s, word)
			}
		}
	})
}
