package uzbek

import (
	"slices"
	"testing"
)

// A listed word is found in each of its forms: the stem of the form is the stem of the word, or one
// of its extra stems.
func TestAListedWordIsFoundInItsForms(t *testing.T) {
	s := stemmer(t)
	for word, forms := range map[string][]string{
		"kitob":     {"kitob", "kitobni", "kitoblar", "kitoblarimizdan", "kitobingizga", "kitobdagilar", "китобларимиздан"},
		"qishloq":   {"qishloq", "qishlog'i", "qishlog'imizda", "qishloqqa", "qishloqlardan"},
		"o'g'il":    {"o'g'il", "o'g'lim", "o'g'limga", "o'g'illar"},
		"ko'k":      {"ko'k", "ko'kka", "ko'kdan"},
		"bola":      {"bola", "bolasi", "bolamga", "bolalaringizdan", "bolaman", "boladek"},
		"o'ldirmoq": {"o'ldirmoq", "o'ldirdi", "o'ldirgan", "o'ldirmaydi", "o'ldiryapti", "o'ldirildi", "o'ldirgancha"},
		"ishlamoq":  {"ishlamoq", "ishladi", "ishlayotgan", "ishlaydiganlar", "ishlashdi", "ishlandi", "ishlamasdan"},
		"chiqmoq":   {"chiqmoq", "chiqqan", "chiqdi", "chiqib"},
		"ekmoq":     {"ekmoq", "ekkan", "ekdi"},
		"kelmoq":    {"kelmoq", "keldi", "kelindi", "kelishdi"},
	} {
		var stems []string
		own := s.ExtraStems(word, func(stem string) { stems = append(stems, stem) })
		if own {
			stems = append(stems, string(s.Stem(nil, []byte(word))))
		}
		if len(stems) == 0 {
			t.Errorf("%s has no stem at all", word)
		}
		for _, f := range forms {
			if got := string(s.Stem(nil, []byte(f))); !slices.Contains(stems, got) && !slices.Contains(stems, f) {
				t.Errorf("%s: %s has the stem %s, which is none of %q", word, f, got, stems)
			}
		}
	}
}

// The stem of a verb may be another word: a list of "to kill" does not find "to die".
func TestAnotherWordIsNoStem(t *testing.T) {
	s := stemmer(t)
	var stems []string
	if s.ExtraStems("o'ldirmoq", func(stem string) { stems = append(stems, stem) }) {
		stems = append(stems, string(s.Stem(nil, []byte("o'ldirmoq"))))
	}
	for _, other := range []string{"o'lmoq", "o'ldi"} {
		if got := string(s.Stem(nil, []byte(other))); slices.Contains(stems, got) {
			t.Errorf("o'ldirmoq is found in %s by the stem %s", other, got)
		}
	}
}
