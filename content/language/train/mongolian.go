package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"shuultuur/content/language/inflect"
	"shuultuur/content/language/mongolian"
)

// harmony returns the vowel of endings after a stem.
func harmony(stem string) string {
	back := strings.ContainsAny(stem, "аоуяё")
	for _, r := range stem {
		switch r {
		case 'а', 'у', 'я':
			return "а"
		case 'о', 'ё':
			return "о"
		case 'э', 'ү':
			return "э"
		case 'ө':
			return "ө"
		}
	}
	if back {
		return "а"
	}
	return "э"
}

// mongolianVerbs inflects the common verbs.
func mongolianVerbs(n int) (pairs []inflect.Pair) {
	r := rand.New(rand.NewPCG(6, 6))
	short := strings.Fields("сAн лAA нA дAг х хAд хAAр ж вAл тAл мAгц жээ в гч хгүй сAнгүй дAггүй")
	long := strings.Fields("AAд AAрAй AAч AA AAгүй AAд")
	for _, x := range strings.Fields(mongolian.Verbs) {
		h := harmony(x)
		last := []rune(x)[len([]rune(x))-1]
		vowel := strings.ContainsRune("аэиоуөүюяёе", last)
		for range n {
			var e string
			if r.IntN(4) == 0 {
				if e = long[r.IntN(len(long))]; vowel { // the stem's vowel is one of the two
					e = e[1:]
				}
			} else {
				e = short[r.IntN(len(short))]
				if !vowel && last != 'ь' && strings.ContainsAny(e[:2], "днхвг") && !strings.HasPrefix(e, "в") {
					e = h + e
				}
			}
			e = strings.ReplaceAll(e, "A", h)
			w := x
			if last == 'ь' {
				w = strings.TrimSuffix(x, "ь") + "и"
			}
			pairs = append(pairs, inflect.Pair{Word: w + e, Stem: x, Weight: .5})
		}
	}
	return pairs
}

// mongolianPlurals puts nouns into the plural and its cases.
func mongolianPlurals(nouns map[string]bool, n int) (pairs []inflect.Pair) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, x := range slices.Sorted(maps.Keys(nouns)) {
		last := []rune(x)[len([]rune(x))-1]
		if strings.ContainsRune("аэиоуөүюяёеьй", last) {
			continue
		}
		h := harmony(x)
		e := "үүд"
		if h == "а" || h == "о" {
			e = "ууд"
		}
		long := map[string]string{"а": "а", "о": "у", "э": "ү", "ө": "ү"}[h]
		a := "а"
		if long == "ү" {
			a = "э"
		}
		cases := []string{"", "ыг", "ын", a + a + "с", a + a + "р", "тай", "т", a + a}
		if a == "э" {
			cases[1], cases[2], cases[5] = "ийг", "ийн", "тэй"
		}
		for range n {
			pairs = append(pairs, inflect.Pair{Word: x + e + cases[r.IntN(len(cases))], Stem: x, Weight: .4})
		}
	}
	return pairs
}
