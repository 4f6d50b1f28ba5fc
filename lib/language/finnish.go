package language

import (
	"strings"
	"unicode/utf8"
)

// finnish is Snowball's stemmer, which gives many cases another stem, together with the forms
// of nouns.
type finnish struct{ snowball }

// finnishWeak are the consonants before a final vowel in an open syllable, and their forms in
// a closed one, longest first.
var finnishWeak = [...][2]string{
	{"kk", "k"}, {"pp", "p"}, {"tt", "t"}, {"nk", "ng"}, {"nt", "nn"}, {"mp", "mm"}, {"lt", "ll"}, {"rt", "rr"},
	{"k", ""}, {"p", "v"}, {"t", "d"},
}

// Forms calls form with forms of a noun: cases in singular and plural; local cases also with
// possessive suffixes. A means a or ä, by vowel harmony.
func (finnish) Forms(word string, form func(string)) {
	a := "ä"
	if strings.ContainsAny(word, "aou") {
		a = "a"
	}
	add := func(stem string, endings ...string) {
		for _, e := range endings {
			form(stem + strings.ReplaceAll(e, "A", a))
		}
	}
	places := func(stem string) { // of a stem in a closed syllable
		for _, e := range []string{"ssA", "stA", "llA", "ltA"} {
			for _, whose := range []string{"", "ni", "si", "mme", "nne", "An", "nsA", "kin", "kAAn"} {
				add(stem, e+whose)
			}
		}
		add(stem, "lle", "lleen", "ksi", "ttA")
	}
	switch {
	case strings.HasSuffix(word, "nen"):
		stem := strings.TrimSuffix(word, "nen") + "s"
		add(stem, "en", "tA", "et", "een", "enA", "iA", "ten", "ien", "iin", "inA", "eni", "emme", "ensA")
		places(stem + "e")
		places(stem + "i")
		return
	case strings.HasSuffix(word, "s"):
		stem := strings.TrimSuffix(word, "s") + "ks"
		add(word, "tA", "ten")
		add(stem, "en", "et", "een", "enA", "iA", "ien", "iin", "inA", "emme", "ensA")
		places(stem + "e")
		places(stem + "i")
		return
	}
	last, n := utf8.DecodeLastRuneInString(word)
	before := word[:len(word)-n]
	if len(before) < 2 {
		return
	}
	strong := []string{before}
	for _, w := range finnishWeak {
		if x, ok := strings.CutSuffix(before, w[0]); ok {
			strong = append(strong, x+w[1])
			break
		}
	}
	plurals := map[rune][]string{'i': {"e"}, 'a': {"o", ""}, 'ä': {"ö", ""}, 'o': {"o"}, 'ö': {"ö"}, 'u': {"u"}, 'y': {"y"}}[last]
	if plurals == nil {
		return
	}
	v := string(last)
	add(word, "A", v+"n", "nA", "mme", "nsA", "ni", "si", "kin")
	for _, b := range strong {
		add(b+v, "n", "t")
		places(b + v)
		for _, p := range plurals {
			places(b + p + "i")
			if p == "" {
				add(b, "iA", "ien", "iin", "inA")
			} else {
				add(b+p, "jA", "jen", "ihin", "inA", "iden", "itA")
			}
			if v == "i" {
				add(b, "ien", "ejA", "eihin")
			}
		}
	}
}
