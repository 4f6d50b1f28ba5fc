package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"shuultuur/text"
)

const languageSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
checks:
  phrase: {weighted: [weighted]}
policies:
  - name: readers
    disguised: true
    rules:
      - {name: words, action: block, category: [phrase], over: 50}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

// Pages with words that a list has by their stems, and pages with words that merely share their
// letters.
var languagePages = map[string]string{
	"uz.example/": `<html lang="uz"><title>Klub</title><p>Toshkent shahrining markazida joylashgan binoda bugun yangi klub ochildi.
Unda yozuvchilar, talabalar va o'qituvchilar qimorlarimizdan gapirdilar.`,
	"uz-cyrl.example/": `<html lang="uz"><title>Клуб</title><p>Тошкент шаҳрининг марказида жойлашган бинода бугун янги клуб очилди.
Унда ёзувчилар, талабалар ва ўқитувчилар қиморларимиздан гапирдилар.`,
	"mn.example/": `<html lang="mn"><title>Газар</title><p>Улаанбаатар хотын төвд байрлах байранд өнөөдөр шинэ газар нээгдлээ.
Түүнд зохиолчид, оюутнууд болон багш нар бооцооноосоо ярив.`,
	"en.example/": `<html lang="en"><title>Club</title><p>A new club opened in the centre of the town today. Its c4s1n0 has many visitors.`,
	"uz-harmless.example/": `<html lang="uz"><title>Kutubxona</title><p>Toshkent shahrining markazida joylashgan kutubxonada bugun yangi kitoblar ochildi.
Unda yozuvchi Qimorbozov, talabalar va oyinqaroq bolalar ishtirok etdilar.`,
	"mn-harmless.example/": `<html lang="mn"><title>Номын сан</title><p>Улаанбаатар хотын төвд байрлах номын санд өнөөдөр шинэ ном нээгдлээ.
Түүнд зохиолчид, оюутнууд болон бооцоолдогч багш нар оролцов.`,
	"en-harmless.example/": `<html lang="en"><title>Library</title><p>The library has room 4 for c 4 and s1 to n0 books, and cas in o.`,
}

func languageHouse(t *testing.T) *house {
	h := newHouse(t, languagePages)
	h.write("weighted", "#listcategory: \"Gambling\"\n#language uz\n<qimor><60>\n#language mn\n<бооцоо><60>\n#language none\n<casino><60>\n")
	h.write("shuultuur.yaml", fmt.Sprintf(languageSettings, h.origin.Listener.Addr()))
	h.restart()
	return h
}

func TestPagesAreBlockedForFormsOfListedWords(t *testing.T) {
	h := languageHouse(t)
	for host, evidence := range map[string]string{
		"uz.example":      "{qimor}: qimorlarimizdan",
		"uz-cyrl.example": "{qimor}: қиморларимиздан",
		"mn.example":      "{бооцоо}: бооцооноосоо",
		"en.example":      "casino: c4s1n0",
	} {
		if status := h.status("http://" + host + "/"); status != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", host, status)
			continue
		}
		row := h.recorded("host:"+host+" action:block", of("http://"+host+"/"))
		if !strings.Contains(row.Evidence, evidence) || !strings.Contains(row.Evidence, "weighted:") {
			t.Errorf("%s: evidence %q, want %q and its line", host, row.Evidence, evidence)
		}
	}
	for _, host := range []string{"uz-harmless.example", "mn-harmless.example", "en-harmless.example"} {
		if status := h.status("http://" + host + "/"); status != http.StatusOK {
			t.Errorf("%s: status %d, want 200", host, status)
		}
	}
}

func TestBrowserShowsTheBlockPageInItsLanguage(t *testing.T) {
	h := languageHouse(t)
	texts, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	for accept, lang := range map[string]string{"mn": "mn", "uz": "uz-Latn", "ar": "ar"} {
		b := newBrowser(t, h.g.ProxyAddr(), "--accept-lang="+accept)
		b.open("http://uz.example/")
		b.shows(strings.Replace(texts.For(lang).Say("block.closed"), "{host}", "uz.example", 1))
		if got := b.script("return document.documentElement.lang"); got != lang {
			t.Errorf("Accept-Language %s: the page says it is in %q, want %s", accept, got, lang)
		}
		if got, want := b.script("return getComputedStyle(document.querySelector('h1')).direction"), texts.For(lang).Dir; got != want {
			t.Errorf("Accept-Language %s: the browser shows the page %s, want %s", accept, got, want)
		}
	}
}
