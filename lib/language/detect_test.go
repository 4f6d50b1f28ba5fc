package language

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// sentences about a library, written for this test.
var sentences = map[Tag]string{
	"uz-Latn": "Kutubxonamiz har kuni ertalab soat to'qqizda ochiladi va kechqurun yopiladi. Bolalar bu yerda kitob o'qiydilar, yangi do'stlar topadilar.",
	"uz-Cyrl": "Кутубхонамиз ҳар куни эрталаб соат тўққизда очилади ва кечқурун ёпилади. Болалар бу ерда китоб ўқийдилар, янги дўстлар топадилар.",
	"mn":      "Манай номын сан өдөр бүр өглөө есөн цагт нээгдэж, орой хаагддаг. Хүүхдүүд энд ном уншиж, шинэ найзуудтай болдог.",
	"kk":      "Біздің кітапхана күн сайын таңғы сағат тоғызда ашылып, кешке жабылады. Балалар мұнда кітап оқып, жаңа достар табады.",
	"ky":      "Биздин китепкана күн сайын эртең менен саат тогузда ачылып, кечинде жабылат. Балдар бул жерде китеп окуп, жаңы досторду табышат.",
	"ru":      "Наша библиотека открывается каждое утро в девять часов и закрывается вечером. Дети читают здесь книги и находят новых друзей.",
	"uk":      "Наша бібліотека відкривається щоранку о дев'ятій годині й зачиняється ввечері. Діти читають тут книжки та знаходять нових друзів.",
	"be":      "Наша бібліятэка адчыняецца кожную раніцу ў дзевяць гадзін і зачыняецца ўвечары. Дзеці чытаюць тут кнігі і знаходзяць новых сяброў.",
	"bg":      "Нашата библиотека отваря всяка сутрин в девет часа и затваря вечерта. Децата четат тук книги и си намират нови приятели.",
	"tr":      "Kütüphanemiz her sabah saat dokuzda açılır ve akşam kapanır. Çocuklar burada kitap okur, yeni arkadaşlar bulurlar.",
	"az":      "Kitabxanamız hər səhər saat doqquzda açılır və axşam bağlanır. Uşaqlar burada kitab oxuyur, yeni dostlar tapırlar.",
	"en":      "Our library opens every morning at nine and closes in the evening. Children read books here and find new friends.",
	"de":      "Unsere Bibliothek öffnet jeden Morgen um neun Uhr und schließt am Abend. Kinder lesen hier Bücher und finden neue Freunde.",
	"fr":      "Notre bibliothèque ouvre chaque matin à neuf heures et ferme le soir. Les enfants y lisent des livres et trouvent de nouveaux amis.",
	"es":      "Nuestra biblioteca abre cada mañana a las nueve y cierra por la tarde. Los niños leen libros aquí y encuentran nuevos amigos.",
	"pt":      "A nossa biblioteca abre todas as manhãs às nove horas e fecha ao fim da tarde. As crianças leem livros aqui e encontram novos amigos.",
	"it":      "La nostra biblioteca apre ogni mattina alle nove e chiude la sera. I bambini leggono libri qui e trovano nuovi amici.",
	"ro":      "Biblioteca noastră se deschide în fiecare dimineață la ora nouă și se închide seara. Copiii citesc cărți aici și își fac prieteni noi.",
	"pl":      "Nasza biblioteka otwiera się codziennie rano o dziewiątej i zamyka wieczorem. Dzieci czytają tu książki i znajdują nowych przyjaciół.",
	"cs":      "Naše knihovna otevírá každé ráno v devět hodin a zavírá večer. Děti zde čtou knihy a nacházejí nové přátele.",
	"nl":      "Onze bibliotheek gaat elke ochtend om negen uur open en sluit 's avonds. Kinderen lezen hier boeken en vinden nieuwe vrienden.",
	"sv":      "Vårt bibliotek öppnar varje morgon klockan nio och stänger på kvällen. Barnen läser böcker här och hittar nya vänner.",
	"fi":      "Kirjastomme avataan joka aamu kello yhdeksän ja suljetaan illalla. Lapset lukevat täällä kirjoja ja löytävät uusia ystäviä.",
	"hu":      "Könyvtárunk minden reggel kilenckor nyit és este zár. A gyerekek itt könyveket olvasnak és új barátokra találnak.",
	"vi":      "Thư viện của chúng tôi mở cửa lúc chín giờ mỗi sáng và đóng cửa vào buổi tối. Trẻ em đọc sách ở đây và tìm được bạn mới.",
	"id":      "Perpustakaan kami buka setiap pagi pukul sembilan dan tutup pada malam hari. Anak-anak membaca buku di sini dan menemukan teman baru.",
	"ar":      "تفتح مكتبتنا كل صباح في الساعة التاسعة وتغلق في المساء. يقرأ الأطفال الكتب هنا ويجدون أصدقاء جددا.",
	"fa":      "کتابخانه ما هر روز صبح ساعت نه باز می‌شود و عصر بسته می‌شود. بچه‌ها اینجا کتاب می‌خوانند و دوستان تازه پیدا می‌کنند.",
	"he":      "הספרייה שלנו נפתחת בכל בוקר בשעה תשע ונסגרת בערב. ילדים קוראים כאן ספרים ומוצאים חברים חדשים.",
	"hi":      "हमारा पुस्तकालय हर सुबह नौ बजे खुलता है और शाम को बंद होता है। बच्चे यहाँ किताबें पढ़ते हैं और नए दोस्त बनाते हैं।",
	"zh":      "我们的图书馆每天早上九点开门，晚上关门。孩子们在这里看书，结识新朋友。",
	"ja":      "私たちの図書館は毎朝九時に開き、夕方に閉まります。子どもたちはここで本を読み、新しい友だちを見つけます。",
	"ko":      "우리 도서관은 매일 아침 아홉 시에 열고 저녁에 닫습니다. 아이들은 여기서 책을 읽고 새로운 친구를 사귑니다.",
	"th":      "ห้องสมุดของเราเปิดทุกเช้าเวลาเก้าโมงและปิดตอนเย็น เด็กๆ อ่านหนังสือที่นี่และพบเพื่อนใหม่",
	"el":      "Η βιβλιοθήκη μας ανοίγει κάθε πρωί στις εννέα και κλείνει το βράδυ. Τα παιδιά διαβάζουν εδώ βιβλία και βρίσκουν νέους φίλους.",
}

func detector(t testing.TB) *Detector {
	t.Helper()
	d, err := NewDetector()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPossible: the language of a text is possible, most others of its script are not, and those of
// other scripts are, because their words may be in it.
func TestPossible(t *testing.T) {
	d := detector(t)
	for tag, text := range sentences {
		got := d.Possible([]byte(text))
		if got&SetOf(tag) == 0 {
			t.Errorf("%s is not possible in %q", tag, text)
		}
		ofScript, possible := 0, 0
		script := ScriptOf(strings.Fields(text)[0])
		for i, l := range Languages {
			if is := got&(1<<i) != 0; l.Script != script && !is && script != Kana && script != Han {
				t.Errorf("%s is not possible in a text of another script: %q", l.Tag, text)
			} else if l.Script == script {
				ofScript++
				if is {
					possible++
				}
			}
		}
		if ofScript > 4 && possible*2 > ofScript {
			t.Errorf("%d of %d languages are possible in %q", possible, ofScript, text)
		}
	}
	for _, text := range []string{"", "12 34", "abc"} {
		if got := d.Possible([]byte(text)); got != Every {
			t.Errorf("Possible(%q) = %#x, want all", text, got)
		}
	}
	if got := d.Possible([]byte(sentences["es"]), "pt"); got&SetOf("pt") == 0 {
		t.Error("the language that a page declares is not possible")
	}
	if got := d.Possible([]byte(sentences["es"])); got&SetOf("pt") != 0 {
		t.Error("a Spanish text may be Portuguese")
	}
	if SetOf(Unknown) != 0 || SetOf("uz-Latn") != SetOf("uz-Cyrl") {
		t.Error("SetOf does not ignore the script")
	}
}

func TestDetect(t *testing.T) {
	d := detector(t)
	for want, text := range sentences {
		if got := d.Detect([]byte(text)); got != want {
			t.Errorf("Detect(%q) = %q, want %q", text, got, want)
		}
		if upper := strings.ToUpper(text); want != "tr" && want != "az" { // I is not the capital of i there
			if got := d.Detect([]byte(upper)); got != want {
				t.Errorf("Detect(%q) = %q, want %q", upper, got, want)
			}
		}
	}
	for _, text := range []string{"", "a", "123 456 !!", "ok http://", "\xff\xfe\xff"} {
		if got := d.Detect([]byte(text)); got != Unknown {
			t.Errorf("Detect(%q) = %q, want unknown", text, got)
		}
	}
}

// TestTheLanguageOfInterfaceTextsIsDetected: the texts of the interface are not in the training data.
func TestTheLanguageOfInterfaceTextsIsDetected(t *testing.T) {
	d := detector(t)
	for _, c := range []struct {
		letters           int
		leastRight, wrong float64
	}{{200, .97, .01}, {60, .95, .02}, {20, .80, .03}} {
		n, right, wrong := 0., 0., 0.
		for _, tag := range []Tag{"de", "es", "fr", "kk", "mn", "ru", "tr", "uz-Latn", "uz-Cyrl"} {
			file, err := os.ReadFile("../../text/" + string(tag) + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for line := range strings.Lines(string(file)) {
				_, language, ok := strings.Cut(line, " = ")
				if !ok || strings.Contains(language, "root.") || strings.Contains(language, "ertificates") { // commands and names of menus
					continue
				}
				if text += " " + language; utf8.RuneCountInString(text) < c.letters {
					continue
				}
				n++
				switch d.Detect([]byte(text)) {
				case tag:
					right++
				case Unknown:
				default:
					wrong++
				}
				text = ""
			}
		}
		t.Logf("from %d letters: %.0f texts, %.1f %% recognised, %.1f %% mistaken", c.letters, n, 100*right/n, 100*wrong/n)
		if right/n < c.leastRight || wrong/n > c.wrong {
			t.Errorf("from %d letters: %.3f right, want %v; %.3f wrong, at most %v", c.letters, right/n, c.leastRight, wrong/n, c.wrong)
		}
	}
}

// TestUzbekIsDetectedWithoutApostrophes: they are blanks in the text of a page.
func TestUzbekIsDetectedWithoutApostrophes(t *testing.T) {
	d := detector(t)
	for _, text := range []string{
		"bugun o yin o yin o yin", "bo limlarimizda bo limi sun iy sun iylik", "bugun maktabda bo limlarimizda yangi o yinlar boshlandi va bolalar o ynashdi",
		"to g ri yo l ko rsatildi", strings.ReplaceAll(sentences["uz-Latn"], "'", " "),
	} {
		if got := d.Detect([]byte(text)); got != "uz-Latn" {
			t.Errorf("Detect(%q) = %q, want uz-Latn", text, got)
		}
	}
	for _, tag := range []Tag{"fr", "it", "tr", "az", "en", "id"} {
		if got := d.Detect([]byte(strings.ReplaceAll(sentences[tag], "'", " "))); got != tag {
			t.Errorf("Detect of a text in %s returned %q", tag, got)
		}
	}
}

func TestHintsDecideWhereTheTextDoesNot(t *testing.T) {
	d := detector(t)
	for _, c := range []struct {
		text, hint string
		want       Tag
	}{
		{"ok", "uz", "uz-Latn"},
		{"ок да", "uz-UZ", "uz-Cyrl"},
		{"bibliotek", "sv", "sv"},
		{"bibliotek", "da-DK", "da"},
		{"bibliotek", "xx", Unknown},
		{sentences["ru"], "en", "ru"},
		{sentences["de"], "en", "de"},
		{sentences["mn"], "ru-RU", "mn"},
	} {
		if got := d.Detect([]byte(c.text), c.hint); got != c.want {
			t.Errorf("Detect(%.20q, %q) = %q, want %q", c.text, c.hint, got, c.want)
		}
	}
}

func TestDetectionAllocatesNothing(t *testing.T) {
	d := detector(t)
	text := []byte(sentences["uz-Latn"])
	if n := testing.AllocsPerRun(100, func() { d.Detect(text, "en") }); n != 0 {
		t.Errorf("Detect allocates %v times, want 0", n)
	}
}

func TestDamagedModelIsRefused(t *testing.T) {
	for _, n := range []int{0, 1, len(model) / 2, len(model) - 1} {
		if _, err := readDetector(bytes.NewReader(model[:n])); err == nil {
			t.Errorf("readDetector accepts a model truncated to %d of %d bytes", n, len(model))
		}
	}
}

func FuzzDetect(f *testing.F) {
	d := detector(f)
	for _, text := range sentences {
		f.Add([]byte(text), "en")
	}
	f.Fuzz(func(t *testing.T, text []byte, hint string) {
		if tag := d.Detect(text, hint); tag != Unknown && Parse(string(tag), None) == Unknown {
			t.Errorf("Detect(%q) = %q, which is not in the table", text, tag)
		}
	})
}

func BenchmarkDetect(b *testing.B) {
	d := detector(b)
	text := []byte(strings.Repeat(sentences["uz-Latn"], 20))
	b.ReportAllocs()
	for b.Loop() {
		d.Detect(text)
	}
}
