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
			t.Errorf("%s: %q was found %d times in %q, want once", c.tag, c.list, n, c.text)
		}
	}
}

// FuzzFinder: every text is read to its end, with the same result in one piece and in two, and
// every match has a valid number and a word of the text.
func FuzzFinder(f *testing.F) {
	f.Add("qimor", "uz-Latn", "bu qimorlarimizdan emas", 4)
	f.Add("o'yin", "uz-Latn", "o yinlarimiz o yin", 2)
	f.Add("мөрийтэй тоглоом", "mn", "мөрийтэй тоглоомын газар", 30)
	f.Add("casino bonus", "", "casinos bonuses casino bonus", 8)
	f.Add("'", "ru", "' ' '", 1)
	f.Add("قمار", "ar", "هذا القمار والقمار", 6)
	f.Add("árbol", "es", "los arboles y el arbol", 6)
	f.Add("yo'l ёлка", "uz", "йўлларда ёлкалар елка", 6)
	f.Add("taramoq", "uz", "ko taradi ko taradi taradi", 2)
	f.Fuzz(func(t *testing.T, phrase, tag, page string, cut int) {
		var terms []Term
		for word := range strings.FieldsSeq(phrase) {
			terms = append(terms, Term{Word: word, Stem: true}, Term{Word: word})
		}
		if len(terms) == 0 || len(terms) > 40 {
			return
		}
		p := Phrases{guessed: mostGuessed - 1} // making forms is slow
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
						t.Fatalf("Read found phrase %d of %d with the word %q", n, p.Len(), word)
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
			t.Fatalf("at words that begin with %q Read found %v, everywhere %v", beginnings, some, whole)
		}
		at := bytes.IndexByte(text[min(max(cut, 0), len(text)):], ' ')
		if at < 0 {
			return
		}
		at += min(max(cut, 0), len(text))
		if parts := read(text[:at], text[at+1:]); !slices.Equal(whole, parts) {
			t.Fatalf("in one piece Read found %v, in two %v", whole, parts)
		}
	})
}

// foundIn returns how often a word by stem is found in each of some texts.
func foundIn(t *testing.T, tag Tag, word string, texts ...string) (found []int) {
	t.Helper()
	var p Phrases
	if _, err := p.Add(tag, []Term{{Word: word, Stem: true}}); err != nil {
		t.Fatal(err)
	}
	f := p.NewFinder()
	f.Ask(func() Tag { return tag })
	for _, text := range texts {
		n := 0
		f.Break()
		f.Read([]byte(strings.ReplaceAll(text, "'", " ")), func(int, []byte) { n++ })
		found = append(found, n)
	}
	return found
}

// TestListedWordsAreFoundInEveryForm also covers forms for which the stemmer, which has no
// list, returns another stem.
func TestListedWordsAreFoundInEveryForm(t *testing.T) {
	for _, c := range []struct {
		tag    Tag
		word   string
		forms  string
		others string // words that are not forms
	}{
		{"uz-Latn", "chiroq", "chirog'im chirog'imdan chirog'ingizni chiroqlarimizdagilardan чироғимиз чироққа", "chiroyli"},
		{"uz-Latn", "zo'ravonlik", "zo'ravonligi zo'ravonligidan zo'ravonlikni зўравонлигининг", "zo'r zo'rg'a"},
		{"uz-Latn", "tilak", "tilagi tilagimdan tilaklarimizga тилагингиз", "til tillar"},
		{"uz-Latn", "eshik", "eshigi eshigimizdan eshikdagi eshiklarga", "eshak eshit"},
		{"uz-Latn", "dori", "doriga dorimda dorilarning дорини", "dorga dorda daryo"},
		{"uz-Latn", "singil", "singlim singlingizga singillarimizdan", "singari"},
		{"uz-Latn", "pul", "pulidan pullarimizga pulim pulning", "pulemyot"},
		{"uz-Latn", "gapirmoq", "gapirdim gapirmayapti gapirganlarning gapirib gapirishni gapirmoqchi гапирадилар", "gap gaplar"},
		{"uz-Latn", "o'ldirmoq", "o'ldirdi o'ldirilgan o'ldiradi o'ldirishga ўлдирган o'ldirdingizlar", "o'lchov o'lka o'ldi o'lgan"},
		{"uz-Latn", "taramoq", "taradi tarab", "ko'taradi ko'tarib"},
		{"uz-Latn", "dushman", "dushmanlar dushmanimizga", "dush dushga"},
		{"uz-Latn", "otmoq", "otdi otgan otib otishdi отяпти", "ota otalar"},
		{"uz-Latn", "o'ynamoq", "o'ynaydi o'ynayotganlar o'ynab o'ynamang ўйнаган", "o'ylamoq"},
		{"kk", "құмар", "құмарлар құмарға құмарымыздан құмары құмардағылар", "құм құмыра"},
		{"kk", "есірткі", "есірткінің есірткілеріңізді есірткісін есірткімен", "есік есірік"},
		{"kk", "ойын", "ойыннан ойындарымызға ойынымен", "ой ойлар"},
		{"kk", "өлтіру", "өлтірді өлтірген өлтіреді өлтірмеген өлтіруге", "өлең өлке"},
		{"ky", "кумар", "кумарлар кумарларыбыздан кумары кумардын", "кум кумган"},
		{"ky", "жүрөк", "жүрөгү жүрөктөр жүрөгүмдүн", "жүрүү"},
		{"ky", "ойноо", "ойноду ойногон ойнойт ойнобойт", "ойлонуу"},
		{"tr", "kumar", "kumari kumarlarimizdan kumarda kumarlarinizdakilerden kumarim", "kum kumas"},
		{"tr", "kitap", "kitabi kitabimizdan kitaplar kitaba kitaplarinizdan", "kita kitle"},
		{"tr", "öldürmek", "öldürdü öldürüyor öldüren öldürmedi öldürülen", "ölçü ödül"},
		{"tr", "oynamak", "oynuyor oynadi oynayan oynamiyorum oynayacağiz", "oymak oy"},
		{"fi", "peli", "pelin peliä pelit pelejä peleissä pelissämme pelillä peliin pelien peleihin", "pelle pelko"},
		{"fi", "väkivalta", "väkivallan väkivaltaa väkivaltaan väkivallasta väkivallalla", "väki valta"},
		{"fi", "kortti", "kortin kortteja kortit korttia kortilla korttien", "kori"},
		{"fi", "ihminen", "ihmisen ihmistä ihmiset ihmisiä ihmisille", "ihme"},
		{"fi", "rikos", "rikoksen rikosta rikokset rikoksia", "rikas"},
		{"mn", "тамхи", "тамхины тамхийг тамхинд тамхинаас тамхитай тамхинууд", "там тамын тамд"},
		{"mn", "архи", "архины архийг архинаас архитай", "ар араас арын"},
		{"mn", "зэвсэг", "зэвсгийн зэвсгээр зэвсэгтэй зэвсгүүд зэвсгүүдийг", "зэв зэвтэй"},
		{"mn", "буу", "бууны буунаас буутай буунууд буунуудын", "бугуй"},
		{"mn", "цаг", "цагийн цагаас цагууд", "цаа цас"},
		{"mn", "тоглох", "тоглож тоглосон тоглохгүй тоглодог", "тогоо"},
		{"uz-Latn", "yetti", "yettita yettinchi yettinchisi yettov", "yetim"},
	} {
		for i, n := range foundIn(t, c.tag, c.word, strings.Fields(c.forms)...) {
			if n != 1 {
				t.Errorf("%s: %q was found %d times in its form %q, want once", c.tag, c.word, n, strings.Fields(c.forms)[i])
			}
		}
		for i, n := range foundIn(t, c.tag, c.word, strings.Fields(c.others)...) {
			if n != 0 {
				t.Errorf("%s: %q was found in the other word %q", c.tag, c.word, strings.Fields(c.others)[i])
			}
		}
	}
}
