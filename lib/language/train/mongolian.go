package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"shuultuur/lib/language/inflect"
	"shuultuur/lib/language/mongolian"
)

// harmony returns the vowel of endings after a stem. A long у or ү ends the rounding that о
// and ө begin.
func harmony(stem string) string {
	h := ""
	for _, r := range stem {
		switch r {
		case 'а', 'я':
			h = "а"
		case 'у':
			if h != "э" && h != "ө" {
				h = "а"
			}
		case 'ү':
			h = "э"
		case 'о', 'ё', 'э', 'ө':
			if h == "" || h == "и" {
				h = strings.ReplaceAll(string(r), "ё", "о")
			}
		case 'и':
			if h == "" {
				h = "и"
			}
		}
	}
	if h == "" || h == "и" {
		return "э"
	}
	return h
}

const mongolianVowels = "аэиоуөүюяёе"

// drops are verbs that lose the vowel of their last syllable before another vowel.
var drops = strings.Fields("эхэл өөрчил хөдөл цуцал үйлчил шинжил үсэр авчир")

// A verbStem has the properties of a verb that matter for endings. In an ending, A means the
// vowel of harmony, and U means у or ү.
type verbStem struct {
	stem, bare string // before a consonant, and before a vowel
	h, u       string
	kind       verbKind
	hushed     bool // ends in ж, ч or ш, after which the vowel is и
	cluster    bool
	last       rune
}

type verbKind int

const (
	closed verbKind = iota // ends in a consonant
	soft                   // in ь
	short                  // in one vowel
	long                   // in two
)

func newVerbStem(x string) verbStem {
	r := []rune(x)
	v := verbStem{stem: x, bare: x, h: harmony(x), u: "ү", last: r[len(r)-1]}
	if v.h == "а" || v.h == "о" {
		v.u = "у"
	}
	before := r[max(len(r)-2, 0)]
	vowelBefore := strings.ContainsRune(mongolianVowels, before)
	switch {
	case v.last == 'ь':
		v.kind, v.bare = soft, strings.TrimSuffix(x, "ь")
	case v.last == 'й' || strings.ContainsRune(mongolianVowels, v.last) && vowelBefore:
		v.kind = long
	case strings.ContainsRune(mongolianVowels, v.last):
		v.kind, v.bare = short, string(r[:len(r)-1])
	default:
		v.hushed = strings.ContainsRune("жчш", v.last)
		v.cluster = !vowelBefore
		if slices.Contains(drops, x) {
			v.bare = string(r[:len(r)-2]) + string(v.last)
		}
	}
	return v
}

// consonant adds an ending that begins with a consonant, without a vowel before it.
func (v verbStem) consonant(e string) string { return v.fill(v.stem + e) }

// linked adds an ending before which a closed stem has a short vowel.
func (v verbStem) linked(e string) string {
	switch {
	case v.kind == soft || v.hushed:
		return v.fill(v.bare + "и" + e)
	case v.kind == closed:
		return v.fill(v.bare + "A" + e)
	}
	return v.consonant(e)
}

// vowel adds an ending that begins with a long vowel, "AA" or "UU".
func (v verbStem) vowel(e string) string {
	switch {
	case v.kind == soft || v.kind == short && v.last == 'и':
		return v.fill(v.bare + "и" + e[1:])
	case v.kind == long:
		return v.fill(v.stem + "г" + e)
	}
	return v.fill(v.bare + e)
}

func (v verbStem) fill(s string) string {
	return strings.NewReplacer("A", v.h, "U", v.u).Replace(s)
}

// forms returns forms of a verb that a case may follow.
func (v verbStem) forms() (forms []string) {
	for _, e := range strings.Fields("сAн сAнгүй сAнд сAAр тAл дAг дAггүй дAгт мAгц мAAр") {
		forms = append(forms, v.consonant(e))
	}
	genitive, accusative := "ий", "ийг"
	if v.u == "у" {
		genitive, accusative = "ы", "ыг"
	}
	for _, e := range []string{"сн" + genitive, "сн" + accusative, "снAAс", "снAA", "снAAр", "дгийг", "дгийн", "дгAAс", "дгAA", "жээ"} {
		forms = append(forms, v.consonant(e))
	}
	with := map[string]string{"а": "тай", "о": "той"}[v.h]
	if with == "" {
		with = "тэй"
	}
	forms = append(forms, v.consonant("сAн"+with), v.consonant("сAндAA"), v.linked("х"+with), v.linked("хдAA"))
	for _, e := range []string{"х", "хгүй", "хAд", "х" + accusative, "х" + accusative + "н", "хAAр", "хAAс", "хлAAр", "в", "вч", "г", "гч", "гчид", "гтUн", "нгUUт"} {
		forms = append(forms, v.linked(e))
	}
	for _, e := range strings.Fields("AAд AA AAгүй AAрай AAч AAсай UUзай") {
		forms = append(forms, v.vowel(e))
	}
	return append(forms, v.present(), v.together(), v.recent(), v.conditional(), v.will())
}

func (v verbStem) present() string {
	if v.kind == closed && v.cluster || v.kind == soft {
		return v.linked("нA")
	}
	return v.consonant("нA")
}

// together returns the converb in ж or ч.
func (v verbStem) together() string {
	switch {
	case v.kind == closed && strings.ContainsRune("сдтзцжчшх", v.last) || v.cluster:
		return v.linked("ж")
	case v.kind == closed && strings.ContainsRune("гр", v.last) || v.stem == "ав":
		return v.consonant("ч")
	}
	return v.consonant("ж")
}

// recent returns the past in лаа.
func (v verbStem) recent() string { return v.consonant("лAA") }

func (v verbStem) conditional() string {
	if v.kind == closed && strings.ContainsRune("влм", v.last) {
		return v.consonant("бAл")
	}
	return v.consonant("вAл")
}

// will returns the form for intentions.
func (v verbStem) will() string {
	e := map[string]string{"а": "я", "о": "ё"}[v.h]
	if e == "" {
		e = "е"
	}
	if v.kind == closed {
		if e == "е" {
			return v.stem + "ье"
		}
		return v.stem + "ъ" + e
	}
	return v.stem + e
}

// mongolianVerbs inflects the common verbs.
func mongolianVerbs(n int) (pairs []inflect.Pair) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, x := range strings.Fields(mongolian.Verbs) {
		forms := newVerbStem(x).forms()
		r.Shuffle(len(forms), func(i, j int) { forms[i], forms[j] = forms[j], forms[i] })
		for _, w := range forms[:min(n, len(forms))] {
			pairs = append(pairs, inflect.Pair{Word: w, Stem: x})
		}
	}
	return pairs
}

// mongolianPlurals returns the plurals of nouns and their cases.
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
