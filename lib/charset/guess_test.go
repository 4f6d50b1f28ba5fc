package charset

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

func TestUTF16IsDistinguishedFromOtherBytes(t *testing.T) {
	encoded := func(s string, big bool) []byte {
		var b []byte
		for _, u := range utf16.Encode([]rune(s)) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		return b
	}
	for _, s := range []string{"plain words", "мамлакатимизда, шаҳарлар", "这是一个关于我们国家的故事,大家都知道", "これは日本語の文章です", "한국어로 쓴 글입니다", "مرحبا بالعالم كله", "Ελληνικά κείμενα"} {
		if got := GuessUTF16(encoded(s, false)); got != UTF16LE {
			t.Errorf("%s, low byte first, was recognised as %v", s, got)
		}
		if got := GuessUTF16(encoded(s, true)); got != UTF16BE {
			t.Errorf("%s, high byte first, was recognised as %v", s, got)
		}
		if got := GuessUTF16([]byte(s)); got != encoding.Encoding(nil) {
			t.Errorf("%s in UTF-8 was recognised as %v", s, got)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := make([]byte, 32+r.IntN(2000))
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		if GuessUTF16(p) != nil {
			t.Fatalf("random bytes were recognised as UTF-16: % x", p)
		}
	}
}

// samples are texts in several languages.
var samples = map[string]string{
	"ru": "Это пример страницы о запрещённых азартных играх и прочих вещах, которые нельзя показывать детям в школе. Каждый вечер новые предложения для взрослых.",
	"uk": "Це приклад сторінки про заборонені азартні ігри та інші речі, які не можна показувати дітям у школі. Щовечора нові пропозиції для дорослих.",
	"bg": "Това е примерна страница за забранени хазартни игри и други неща, които не бива да се показват на децата в училище.",
	"mn": "Энэ бол мөрийтэй тоглоомын тухай жишээ хуудас бөгөөд сургуулийн хүүхдүүдэд үзүүлж болохгүй.",
	"el": "Αυτή είναι μια σελίδα για τυχερά παιχνίδια και άλλα πράγματα που δεν πρέπει να δείχνουμε στα παιδιά του σχολείου.",
	"he": "זהו דף לדוגמה על הימורים ודברים אחרים שאסור להראות לילדים בבית הספר בכל ערב",
	"ar": "هذه صفحة مثال عن القمار وأشياء أخرى لا يجوز عرضها على الأطفال في المدرسة كل مساء",
	"th": "นี่คือตัวอย่างหน้าเว็บเกี่ยวกับการพนันและสิ่งอื่นที่ไม่ควรแสดงให้เด็กดูในโรงเรียน",
	"pl": "To jest przykładowa strona o grach hazardowych i innych rzeczach, których nie wolno pokazywać dzieciom w szkole. Każdego wieczoru pojawiają się świeże oferty dla dorosłych, zażółć gęślą jaźń.",
	"cs": "Toto je příklad stránky o hazardních hrách a dalších věcech, které se nesmějí ukazovat dětem ve škole. Příliš žluťoučký kůň úpěl ďábelské ódy každý večer.",
	"hu": "Ez egy példaoldal a szerencsejátékról és más dolgokról, amelyeket nem szabad a gyerekeknek mutatni az iskolában. Minden este új ajánlatok felnőtteknek, árvíztűrő tükörfúrógép.",
	"tr": "Bu, kumar ve okulda çocuklara gösterilmemesi gereken diğer şeyler hakkında örnek bir sayfadır. Işık, ağaç, şeker ve güzel günler.",
	"fr": "Voici une page d'exemple sur les jeux d'argent et d'autres choses que l'on ne doit pas montrer aux élèves à l'école, où çà et là il reste bien des âmes égarées.",
	"de": "Dies ist eine Beispielseite über Glücksspiele und andere Dinge, die man Schülern nicht zeigen darf: größere Beträge, schöne Gewinne, heiße Nächte.",
	"es": "Esta es una página de ejemplo sobre juegos de azar y otras cosas que no se deben enseñar a los niños en la escuela. ¿Qué más? Mañana habrá más diversión.",
	"pt": "Esta é uma página de exemplo sobre jogos de azar e outras coisas que não se devem mostrar às crianças na escola. Não há exceções à regra.",
	"sv": "Det här är en exempelsida om hasardspel och andra saker som man inte får visa för barn i skolan. Många nya erbjudanden för äldre varje kväll.",
	"zh": "这是一个关于赌博和其他不应该在学校给孩子们看的东西的示例页面，每天晚上都有新的内容。",
	"tw": "這是一個關於賭博和其他不應該在學校給孩子們看的東西的示例頁面，每天晚上都有新的內容。",
	"ja": "これは学校で子供に見せてはいけないギャンブルなどの例のページです。毎晩新しいカジノの情報があります。",
	"ko": "이것은 학교에서 아이들에게 보여주어서는 안 되는 도박 및 기타 것들에 대한 예제 페이지입니다. 매일 저녁 새로운 소식이 있습니다.",
}

// TestCharsetIsGuessed: a text without a declared charset is read in the one that it is written in.
func TestCharsetIsGuessed(t *testing.T) {
	for _, c := range []struct{ language, charsets string }{
		{"ru", "windows-1251 koi8-r ibm866 iso-8859-5"},
		{"uk", "windows-1251 koi8-u iso-8859-5"},
		{"bg", "windows-1251 ibm866 iso-8859-5"},
		{"el", "windows-1253 iso-8859-7"},
		{"he", "windows-1255 iso-8859-8"},
		{"ar", "windows-1256 iso-8859-6"},
		{"th", "windows-874"},
		{"pl", "windows-1250 iso-8859-2"},
		{"cs", "windows-1250 iso-8859-2"},
		{"hu", "windows-1250 iso-8859-2"},
		{"tr", "windows-1254"},
		{"fr", "windows-1252"}, {"de", "windows-1252"}, {"es", "windows-1252"}, {"pt", "windows-1252"}, {"sv", "windows-1252"},
		{"zh", "gbk gb18030"},
		{"tw", "big5"},
		{"ja", "shift_jis euc-jp iso-2022-jp"},
		{"ko", "euc-kr"},
	} {
		for label := range strings.FieldsSeq(c.charsets) {
			e, err := htmlindex.Get(label)
			if err != nil {
				t.Fatal(err)
			}
			text := samples[c.language]
			for _, page := range []string{text, "<html><head><title>A page in English</title><body class=x><p>" + text + "</p>", text[:len(text)/3]} {
				page = strings.ToValidUTF8(page, "")
				wire, err := e.NewEncoder().String(page)
				if err != nil {
					t.Fatalf("encoding %s in %s: %v", c.language, label, err)
				}
				guessed := Guess([]byte(wire[ASCIILen([]byte(wire)):]))
				if guessed == nil {
					guessed = Windows1252
				}
				if got, err := guessed.NewDecoder().String(wire); err != nil || got != page {
					t.Errorf("%s in %s was read as %.120q, %v\nwant %.120q", c.language, label, got, err, page)
				}
			}
		}
	}
}
