package language

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// FuzzFinder: every text is read to its end, alike in one piece and in two, and
// whatever is found has a number of the list and stands in the text.
func FuzzFinder(f *testing.F) {
	f.Add("qimor", "uz-Latn", "bu qimorlarimizdan emas", 4)
	f.Add("o'yin", "uz-Latn", "o yinlarimiz o yin", 2)
	f.Add("мөрийтэй тоглоом", "mn", "мөрийтэй тоглоомын газар", 30)
	f.Add("casino bonus", "", "casinos bonuses casino bonus", 8)
	f.Add("'", "ru", "' ' '", 1)
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
			finder.SetAny()
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
