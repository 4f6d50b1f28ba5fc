package phrase

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/lib/setting"
	"shuultuur/test/data"
)

// harmless are sentences that resemble those that the starter lists look for, but are
// harmless.
var harmless = map[string][]string{
	"en": {"The town library opens a new reading room for children next week.", "Police found a firearm near the river and asked for witnesses.",
		"If you think about suicide, call the helpline; people there will listen.", "The roulette of the weather brought rain to the match.",
		"Doctors explained how heroin harms the body and where families find help.", "The museum shows rifles and swords of the nineteenth century.",
		"Our teachers filter the questions and place the books on the shelves.", "A website of the city was blocked for an hour by a fault of its proxy.",
		"The bank gives a bonus to those who deposit money for five years.", "She bet that the soup would be ready before noon."},
	"ru": {"В центре города открылась новая выставка детских рисунков.", "Полиция изъяла пистолет и боеприпасы у подозреваемого.",
		"Врачи рассказали, как распознать суицидальные мысли и где найти помощь.", "Центральный банк сохранил ключевую ставку на прежнем уровне.",
		"Столяру нужны рулетка, молоток и хороший карандаш.", "Механик заменил глушитель и проверил тормоза.",
		"Учебник лежит в закладках браузера рядом с расписанием.", "В зеркале сайта архива хранятся старые газеты.", "Автомат на вокзале продаёт воду и билеты."},
	"uz": {"Shahar markazida yangi kutubxona ochildi va bolalar uchun to'garaklar boshlandi.", "Shifokorlar giyohvandlikning zarari haqida o'quvchilarga gapirib berdilar.",
		"Muzeyda qadimgi qurollar va kiyimlar ko'rgazmasi bo'lib o'tdi.", "Avtomatlar orqali suv va chiptalar sotib olish mumkin.",
		"Tikish va bichish kursiga yangi talabalar qabul qilinmoqda.", "Deputatlar qimorga qarshi kurash haqidagi qonunni muhokama qildilar.",
		"Sport musobaqalarida yoshlar yaxshi natijalar ko'rsatdilar."},
	"mn": {"Хотын төвд шинэ номын сан нээгдэж хүүхдүүд олноор ирлээ.", "Эмч нар хар тамхины хор хөнөөлийн талаар сурагчдад ярив.",
		"Музейд эртний зэвсэг, хувцасны үзэсгэлэн нээгдлээ.", "Хуульд мөрийтэй тоглоомыг хориглосон заалт орсон.",
		"Спортын тэмцээнд залуучууд сайхан амжилт үзүүллээ.", "Сумын төвд шинэ сургууль баригдаж байна.", "Тоглоомын талбай дээр хүүхдүүд тоглож байна."},
}

func starter(t *testing.T) *Check {
	t.Helper()
	lists, err := filepath.Glob("starter/*.list")
	if err != nil || len(lists) != 6 {
		t.Fatalf("the starter lists are %v (%v), want six", lists, err)
	}
	var cfg Config
	for _, l := range lists {
		cfg.Weighted = append(cfg.Weighted, setting.File(l))
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(cfg, dir, noon)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.Remarks(); len(r) > 0 {
		t.Errorf("the starter lists have the remarks %v", r)
	}
	return c
}

func TestHarmlessPagesStayBelowTheLimitOfStarterLists(t *testing.T) {
	c := starter(t)
	for lang, s := range harmless {
		for i := range 50 { // pages of several sentences, each in another order
			var page strings.Builder
			for j := range len(s) {
				page.WriteString("<p>" + s[(i+j*(1+i%3))%len(s)])
			}
			for _, f := range find(t, c, page.String()) {
				if f.Score > defaultLimit {
					t.Errorf("the harmless page %d in %s exceeds the limit: %v", i, lang, f)
				}
			}
		}
	}
	pages, err := filepath.Glob(data.Path(t, "pages", "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		page, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range find(t, c, string(page)) {
			if f.Score > defaultLimit {
				t.Errorf("the harmless page %s exceeds the limit: %v", p, f)
			}
		}
	}
}

func TestStarterListsFindTheirThemes(t *testing.T) {
	c := starter(t)
	for category, pages := range map[string][]string{
		"Gambling":  {harmless["uz"][0] + " Kazinolarimizda qimorga, sportga tikishlar, bukmekerlar.", harmless["mn"][0] + " Онлайн казинод бооцоогоо тавиарай, мөрийтэй тоглоомууд.", "Welcome to our online casinos: free spins and deposit bonuses for every player who joins tonight.", harmless["ru"][0] + " Онлайн казино, фриспины и букмекеры ждут."},
		"Weapons":   {"We have handguns for sale here, and you can buy ammunition for them today without papers."},
		"Self-harm": {harmless["ru"][0] + " Как убить себя, способы самоубийства."},
		"Proxies":   {"Unblock websites and bypass filters with this free unblocker at school and in the office."},
		"Drugs":     {"Buy cocaine and buy cannabis online, we also have ecstasy pills and much more for you."},
	} {
		for _, page := range pages {
			best := 0
			found := find(t, c, page)
			for _, f := range found {
				if f.Category == category {
					best = f.Score
				}
			}
			if best <= defaultLimit {
				t.Errorf("%s: score %d of %q, want more than %d: %v", category, best, page, defaultLimit, found)
			}
		}
	}
}
