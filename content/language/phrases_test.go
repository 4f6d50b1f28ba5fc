package language

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestWordsAreFoundBehindParticlesAndWithoutMarks(t *testing.T) {
	for _, c := range []struct {
		tag        Tag
		list, text string
	}{
		{"ar", "قمار", "القمار"},
		{"ar", "كازينو", "والكازينو"},
		{"es", "árbol", "arboles"},
		{"es", "arbol", "árbol"},
		{"uz-Latn", "qimor", "қиморхонамизда қиморларимиз"},
		{"ru", "казино", "казино"},
	} {
		var p Phrases
		if _, err := p.Add(c.tag, []Term{{Word: c.list, Stem: true}}); err != nil {
			t.Fatal(err)
		}
		n := 0
		f := p.NewFinder()
		f.Ask(func() Tag { return c.tag })
		f.Read([]byte(c.text), func(int, []byte) { n++ })
		if n != 1 {
			t.Errorf("%s: %q was found %d times in %q", c.tag, c.list, n, c.text)
		}
	}
}

// FuzzFinder: every text is read to its end, alike in one piece and in two, and
// whatever is found has a number of the list and stands in the text.
func FuzzFinder(f *testing.F) {
	f.Add("qimor", "uz-Latn", "bu qimorlarimizdan emas", 4)
	f.Add("o'yin", "uz-Latn", "o yinlarimiz o yin", 2)
	f.Add("мөрийтэй тоглоом", "mn", "мөрийтэй тоглоомын газар", 30)
	f.Add("casino bonus", "", "casinos bonuses casino bonus", 8)
	f.Add("'", "ru", "' ' '", 1)
	f.Add("قمار", "ar", "هذا القمار والقمار", 6)
	f.Add("árbol", "es", "los arboles y el arbol", 6)
	f.Add("yo'l ёлка", "uz", "йўлларда ёлкалар елка", 6)
	f.Fuzz(func(t *testing.T, phrase, tag, page string, cut int) {
		var terms []Term
		for word := range strings.FieldsSeq(phrase) {
			terms = append(terms, Term{Word: word, Stem: true}, Term{Word: word})
		}
		if len(terms) == 0 || len(terms) > 40 {
			return
		}
		var p Phrases
		if _, err := p.Add(Parse(tag, None), terms); err != nil {
			return
		}
		for _, term := range terms {
			if _, err := p.Add(Unknown, []Term{term}); err != nil {
				t.Fatal(err)
			}
		}
		text := []byte(strings.Join(strings.Fields(page), " "))
		read := func(pieces ...[]byte) (all []int) {
			finder := p.NewFinder()
			for _, piece := range pieces {
				finder.Read(piece, func(n int, word []byte) {
					if n < 0 || n >= p.Len() || len(word) == 0 {
						t.Fatalf("phrase %d of %d, word %q", n, p.Len(), word)
					}
					all = append(all, n)
				})
			}
			return all
		}
		whole := read(text)
		var starts []int
		beginnings := p.Beginnings()
		for i := range text {
			if i == 0 || text[i-1] == ' ' && slices.ContainsFunc(beginnings, func(b []byte) bool {
				return bytes.HasPrefix(append(bytes.Clone(text[i:]), ' ', ' ', ' '), b)
			}) {
				starts = append(starts, i)
			}
		}
		var some []int
		p.NewFinder().ReadAt(text, starts, func(n int, _ []byte) { some = append(some, n) })
		if !slices.Equal(whole, some) {
			t.Fatalf("where words begin with %q: %v, everywhere %v", beginnings, some, whole)
		}
		at := bytes.IndexByte(text[min(max(cut, 0), len(text)):], ' ')
		if at < 0 {
			return
		}
		at += min(max(cut, 0), len(text))
		if parts := read(text[:at], text[at+1:]); !slices.Equal(whole, parts) {
			t.Fatalf("in one piece %v, in two %v", whole, parts)
		}
	})
}
