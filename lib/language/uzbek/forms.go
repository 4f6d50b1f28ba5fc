package uzbek

import (
	"slices"
	"strings"
)

// ExtraStems calls each with further stems by which a listed word is found: the stems of forms for
// which Stem returns another stem, unless these are words themselves; then the forms. It
// reports whether the stem of the word itself is one: for o'ldirmoq (to kill) Stem returns o'l
// (die), which is another word. A verb is recognised by the ending moq.
func (s *Stemmer) ExtraStems(word string, each func(stem string)) (own bool) {
	word = string(Latin(nil, []byte(word)))
	stem := string(s.Stem(nil, []byte(word)))
	root, verb := strings.CutSuffix(word, "moq")
	verb = verb && strings.ContainsAny(root, "aeiou") && len(root) > 1
	name := word // the longest acceptable cut
	if verb {
		name = root
		each(root)
	}
	if own = len(stem) >= len(name) || !s.s.InLexicon([]byte(name)); own && !(verb && stem == word) {
		name = stem
	}
	form := func(f string) {
		got := string(s.Stem(nil, []byte(f)))
		switch {
		case got == name || got == word:
		case len(got) > len(name) && !s.s.InLexicon([]byte(got)), slices.Contains(voiced(word), got):
			each(got)
		case f != got && !s.s.InLexicon([]byte(f)):
			each(f)
		}
	}
	if verb {
		verbForms(root, form)
		passive := "il"
		switch {
		case strings.HasSuffix(root, "l"):
			passive = "in"
		case strings.HasSuffix(root, "la"):
			passive = "n"
		case endsInVowel(root):
			passive = "l"
		}
		verbForms(root+passive, form)
		together := "ish" // the reciprocal, also used for politeness
		if endsInVowel(root) {
			together = "sh"
		}
		verbForms(root+together, form)
		return own
	}
	nounForms(word, form)
	return own
}

// nounForms calls form with a noun in plural, possession, case and place.
func nounForms(word string, form func(string)) {
	owners := []string{"im", "ing", "i", "imiz", "ingiz"}
	if endsInVowel(word) {
		owners = []string{"m", "ng", "si", "miz", "ngiz"}
	}
	stems := []string{word} // before a vowel
	for short, long := range Grammar.Changed {
		if long == word {
			stems[0] = short
		}
	}
	stems = append(stems, voiced(word)...)
	bases := []string{word, word + "lar"}
	for _, o := range owners {
		for _, x := range stems {
			bases = append(bases, x+o)
		}
	}
	for _, o := range []string{"im", "ing", "i", "imiz", "ingiz"} {
		bases = append(bases, word+"lar"+o)
	}
	for _, b := range bases {
		to := "ga"
		switch b[len(b)-1] {
		case 'k', 'q':
			to = b[len(b)-1:] + "a"
		}
		for _, c := range []string{"", to, "da", "dan", "ni", "ning", "dagi", "dagilar", "dagilarga", "dagilardan", "dagilarni", "dagilarning"} {
			form(b + c)
		}
	}
	for _, c := range []string{"man", "san", "miz", "siz", "dir", "mi", "niki", "dek", "day"} {
		form(word + c)
	}
}

// verbForms calls form with forms of a verb by its root.
func verbForms(root string, form func(string)) {
	a, i, n := "a", "i", "gan"
	switch vowel := endsInVowel(root); {
	case vowel:
		a, i = "y", ""
	case strings.HasSuffix(root, "k"):
		n = "kan"
	case strings.HasSuffix(root, "q"):
		n = "qan"
	}
	present := strings.TrimSuffix(a, "y") + "yotgan"
	persons := []string{"man", "san", "miz", "siz", "sizlar"}
	past := []string{"", "m", "ng", "k", "ngiz", "ngizlar", "lar"}
	nouns := []string{"", "ga", "ni", "ning", "da", "dan", "i", "im", "imiz", "lar", "lari", "ligi", "ligini"}
	for _, all := range []struct {
		ends  []string
		tails []string
	}{
		{[]string{a, "may"}, append([]string{"di", "dilar", "digan", "diganlar"}, persons...)},
		{[]string{"di", "madi", "sa", "masa"}, past},
		{[]string{n, "ma" + "gan", present}, slices.Concat(nouns, persons)},
		{[]string{i + "b", "mayap", strings.TrimSuffix(a, "y") + "yap", "yap"}, append([]string{"ti", "tilar"}, persons...)},
		{[]string{i + "sh"}, nouns},
		{[]string{i + "b", "may", "masdan", "moq", "moqda", "moqchi", "sin", "sinlar", i + "ng", i + "nglar", n[:len(n)-1] + "ch", n[:1] + "uncha", strings.TrimPrefix(a, "y") + "r", "mas", strings.TrimPrefix(a, "y") + "ylik"}, []string{""}},
	} {
		for _, e := range all.ends {
			for _, t := range all.tails {
				form(root + e + t)
			}
		}
	}
}

// voiced returns the form of a noun in k or q before a vowel.
func voiced(word string) []string {
	n := len(word) - 1
	switch {
	case n > 2 && word[n] == 'k':
		return []string{word[:n] + "g"}
	case n > 2 && word[n] == 'q':
		return []string{word[:n] + "g'"}
	}
	return nil
}

func endsInVowel(word string) bool {
	return strings.ContainsRune("aeiou", rune(word[len(word)-1])) || strings.HasSuffix(word, "o'")
}
