package phrase

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/setting"
)

// Pages whose language is detected by their text.
const (
	uzbekPage = `<p>Toshkent shahrining markazida joylashgan kutubxonada bugun yangi kitoblar ko'rgazmasi ochildi.
Unda yozuvchilar, talabalar va o'qituvchilar ishtirok etdilar. Kelgusi haftada esa bolalar uchun alohida kun tashkil qilinadi.</p>`
	uzbekCyrillic = `<p>Тошкент шаҳрининг марказида жойлашган кутубхонада бугун янги китоблар кўргазмаси очилди.
Унда ёзувчилар, талабалар ва ўқитувчилар иштирок этдилар. Келгуси ҳафтада эса болалар учун алоҳида кун ташкил қилинади.</p>`
	mongolianPage = `<p>Улаанбаатар хотын төвд байрлах номын санд өнөөдөр шинэ номын үзэсгэлэн нээгдлээ.
Түүнд зохиолчид, оюутнууд болон багш нар оролцов. Ирэх долоо хоногт хүүхдүүдэд зориулсан тусгай өдөр болно.</p>`
	russianPage = `<p>В центре города сегодня открылась новая выставка книг. В ней приняли участие писатели, студенты
и преподаватели. На следующей неделе пройдёт отдельный день для детей.</p>`
)

func TestWordsAreFoundByStem(t *testing.T) {
	const list = `#listcategory: "gambling"
<{qimor}><60>
<{o'yin} klubi><30>
#language uz
<bukmeker>,<garov><25>
#language mn
<бооцоо><40>
<мөрийтэй тоглоом><70>
#language ru
<ставка><20>
#language none
<{казино}><15>
`
	c := newCheck(t, testLists{weighted: list, banned: "#language: uz\n<giyohvand>\n", exception: "<{kasalxona}>\n"}, Config{})
	for name, p := range map[string]struct{ page, want, evidence string }{
		"several suffixes":           {uzbekPage + "Ular qimorlarimizdan gapirdilar.", "phrase 60, gambling 60", "<{qimor}: qimorlarimizdan> 60"},
		"Cyrillic script":            {uzbekCyrillic + "Улар қиморларимиздан гапирдилар.", "phrase 60, gambling 60", "<{qimor}: қиморларимиздан> 60"},
		"two words, an apostrophe":   {uzbekPage + "Eng katta o‘yinlar klubi yopildi.", "phrase 30, gambling 30", "<{o'yin} klubi: klubi> 30"},
		"U+02BB":                     {uzbekPage + "Eng katta o\u02bbyinlarning klubi yopildi.", "phrase 30, gambling 30", ""},
		"entity":                     {uzbekPage + "Eng katta o&rsquo;yinni klubi yopildi.", "phrase 30, gambling 30", ""},
		"combination":                {uzbekPage + "Bukmekerlardan so'ng garovlarimiz.", "phrase 25, gambling 25", ""},
		"half of a combination":      {uzbekPage + "Bukmekerlardan so'ng.", "", ""},
		"banned":                     {uzbekPage + "U giyohvandlarga yordam berdi.", "bannedphrase 0", "<{giyohvand}: giyohvandlarga>"},
		"exception":                  {uzbekPage + "Qimor qimorlar kasalxonalarimizda.", "exceptionphrase 0", "kasalxonalarimizda"},
		"letters shared":             {uzbekPage + "Qimorbozov bukmekerxona oyinqaroq klublar.", "", ""},
		"Mongolian":                  {mongolianPage + "Тэд бооцооноосоо хожсон.", "phrase 40, gambling 40", "<{бооцоо}: бооцооноосоо> 40"},
		"Mongolian, two words":       {mongolianPage + "Тэд мөрийтэй тоглоомын газарт очив.", "phrase 70, gambling 70", ""},
		"Mongolian, letters shared":  {mongolianPage + "Тэд бооцоолдогчийн тоглоомчин ставкалар байв.", "", ""},
		"Russian":                    {russianPage + "Он делал ставками вид.", "phrase 20, gambling 20", "<{ставка}: ставками> 20"},
		"word of another language":   {russianPage + "Слово бооцооноосоо здесь чужое.", "", ""},
		"another script":             {russianPage + "Bukmekerlardan va garovlarimiz.", "phrase 25, gambling 25", ""},
		"another script, Cyrillic":   {"<html lang=en>A page about football. Они сделали ставками вид.", "phrase 20, gambling 20", ""},
		"every language, in Russian": {russianPage + "Посетители казино ушли.", "phrase 15, gambling 15", ""},
	} {
		found := find(t, c, p.page)
		if got := brief(found); got != p.want {
			t.Errorf("%s: found %s, want %s; all findings: %v", name, got, p.want, found)
		} else if p.evidence != "" && !strings.Contains(found[0].Evidence, p.evidence) {
			t.Errorf("%s: the evidence %q lacks %q", name, found[0].Evidence, p.evidence)
		}
	}
}

func TestTheHeadNamesTheLanguageOfAShortPage(t *testing.T) {
	c := newCheck(t, testLists{banned: "#language sv\n<spel>\n"}, Config{})
	for page, want := range map[string]string{
		`<html lang="sv-SE">spelen`: "bannedphrase 0",
		`<html lang="de">spelen`:    "",
	} {
		if got := brief(find(t, c, page)); got != want {
			t.Errorf("%s: found %q, want %q", page, got, want)
		}
	}
	tr := transaction("text/html", "", []byte("spelen"))
	defer tr.Body.Release()
	h := content.Describe("text/html", "")
	h.Add([]byte("Content-Language"), []byte("sv, en"))
	tr.Body.Reset(h, content.Limits{})
	tr.Body.Append([]byte("spelen"))
	tr.Body.Finish()
	found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
	if err != nil || brief(found) != "bannedphrase 0" {
		t.Errorf("with the language from Content-Language: found %q, %v", brief(found), err)
	}
}

func TestStemsAreFoundInPieces(t *testing.T) {
	c := newCheck(t, testLists{weighted: "#language uz\n<qimor><10>\n<yangi o'yin><1>\n"}, Config{WeightedPhraseMode: ptr(1)})
	page := strings.Repeat(uzbekPage+"qimorlarga yangi o'yinlardan ", 40)
	for _, size := range []int{1, 77, 4096} {
		tr := transaction("text/html; charset=utf-8", "", nil)
		b := tr.Body
		b.Reset(content.Describe("text/html; charset=utf-8", ""), content.Limits{})
		b.Follow(c)
		for i := 0; i < len(page); i += size {
			b.Append([]byte(page[i:min(i+size, len(page))]))
			b.Forget()
		}
		b.Finish()
		found, err := c.Find(context.Background(), tr, filter.ResponseBody, nil)
		if err != nil || len(found) == 0 || found[0].Score != 440 {
			t.Errorf("in pieces of %d: found %v, %v; want the score 440", size, found, err)
		}
		b.Release()
	}
}

func TestWordsOfScriptsWithoutBlanksAreFoundAnywhere(t *testing.T) {
	c := newCheck(t, testLists{banned: "<{赌博}>\n"}, Config{})
	if got := brief(find(t, c, "禁止赌博活动")); got != "bannedphrase 0" {
		t.Errorf("found %q, want bannedphrase 0", got)
	}
}

func TestLanguageLineThatHasNoEffectIsRemarked(t *testing.T) {
	c := newCheck(t, testLists{banned: "#language xx\n<a b c>\n#language uk\n<d e f>\n"}, Config{})
	if r := c.Remarks(); len(r) != 2 || !strings.Contains(r[0].Text, "not known") || !strings.Contains(r[1].Text, "no stemmer") {
		t.Errorf("the remarks are %v, want one for each language", r)
	}
}

func TestBracesAreLettersInCompatibilityModes(t *testing.T) {
	c := newCheck(t, testLists{banned: "#language uz\n<{qimor}>\n"}, Config{Compat: "e2guardian-5.3"})
	for page, want := range map[string]string{"a {qimor} b": "bannedphrase 0", uzbekPage + " qimorlar ": ""} {
		if got := brief(find(t, c, page)); got != want {
			t.Errorf("%.20s: found %q, want %q", page, got, want)
		}
	}
}

// BenchmarkStems measures the additional cost of words by stem in e2guardian's lists: each
// page is judged without and with them, in turn, and processor time counts, so that other load
// on the machine affects both.
func BenchmarkStems(b *testing.B) {
	pages, size := realPages(b)
	stems, err := filepath.Glob("starter/*.list")
	if err != nil {
		b.Fatal(err)
	}
	without, with := e2gLists(b, ""), e2gLists(b, "")
	for _, name := range stems {
		name, err := filepath.Abs(name)
		if err != nil {
			b.Fatal(err)
		}
		with.Weighted = append(with.Weighted, setting.File(name))
	}
	var checks [2]*Check
	for i, cfg := range []Config{without, with} {
		if checks[i], err = New(cfg, ".", noon); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(2 * size)
	var took [2]int64
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() int64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			b.Fatal(err)
		}
		return t.Nano()
	}
	for n := 0; b.Loop(); n++ {
		for p, page := range pages {
			for i := range checks {
				i = (i + n + p) % 2
				start := spent()
				tr := transaction("text/html; charset=utf-8", "", page)
				if _, err := checks[i].Find(context.Background(), tr, filter.ResponseBody, nil); err != nil {
					b.Fatal(err)
				}
				tr.Body.Release()
				took[i] += spent() - start
			}
		}
	}
	b.ReportMetric(100*float64(took[1]-took[0])/float64(took[0]), "%more")
}
