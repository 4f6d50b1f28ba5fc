package admin

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"shuultuur/policy"
	"shuultuur/test/race"
	"shuultuur/text"
)

func TestEveryPageIsATemplateInEveryLanguage(t *testing.T) {
	race.Without(t)
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.html")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no page templates:", err)
	}
	for _, file := range files {
		if file == "head.html" { // it is in all others
			continue
		}
		page := pageOf(file, noNotice)
		for _, l := range s.All() {
			page.In(l) // it panics on a mistake
		}
	}
}

func TestStylesFollowTheDirectionOfTheLanguage(t *testing.T) {
	css, err := readPacked("style.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(margin|padding|border)-(left|right)|text-align: *(left|right)|[{;] *(left|right):`).FindAllString(string(css), -1) {
		t.Errorf("%q is wrong in languages written from right to left: use -inline-start and -inline-end", m)
	}
}

func TestAPageIsInTheLanguageOfTheBrowser(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{} }, Texts: s.For})
	for accept, want := range map[string][]string{
		"":                        {`<html lang="en"`, "<h1>Start</h1>", "requests in the last hour"},
		"mn-MN,en;q=0.5":          {`<html lang="mn" dir="ltr">`, "<title>Эхлэл · Shuultuur</title>", "сүүлийн цагийн хүсэлт", "Хаяг"},
		"uz":                      {`<html lang="uz-Latn"`, "Boshlash", "oxirgi soatdagi soʻrovlar"},
		"uz-Cyrl":                 {`<html lang="uz-Cyrl"`, "Бошлаш"},
		"de-AT,de;q=0.9,en;q=0.5": {`<html lang="de"`, "Anfragen in der letzten Stunde", `aria-label="Warum ist diese Adresse blockiert oder nicht?"`},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		r.RemoteAddr = "127.0.0.1:999"
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Language", accept)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		for _, text := range want {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("Accept-Language %q: status %d, want %q in %s", accept, w.Code, text, w.Body)
			}
		}
	}
}

func TestTheAPIIsDescribedInTheLanguageOfTheBrowser(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	server := New(Parts{Metrics: http.NotFoundHandler(), Health: func() Health { return Health{} }, Texts: s.For, Token: "secret"})
	ask := func(path, accept, language string) string {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:999"
		r.Header.Set("Accept", accept)
		r.Header.Set("Accept-Language", language)
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		return w.Body.String()
	}
	for language, want := range map[string][]string{
		"en":      {"state and problems", "how long to look, in seconds"},
		"mn":      {"төлөв, асуудлууд", "хэдий хугацаанд ажиглах, секундээр"},
		"uz-Cyrl": {"ҳолат ва муаммолар"},
		"fr":      {"état et problèmes"},
	} {
		page := ask("/api", "text/html", language)
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page lacks %q", language, text)
			}
		}
		if document := ask("/openapi.json", "application/json", language); !strings.Contains(document, "state and problems") {
			t.Errorf("%s: the document for programs is not in English", language)
		}
	}
}

func TestSettingsOfPoliciesHaveNamesInEveryLanguage(t *testing.T) {
	s, err := text.New("")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"a day", "time", "bytes", "queries", "requests", "by", "on-loss", "days", "hours", "dates", "zone"}
	for _, of := range []reflect.Type{reflect.TypeFor[policy.Policy](), reflect.TypeFor[policy.Rule]()} {
		for f := range of.Fields() {
			if key := f.Tag.Get("yaml"); key != "" && key != "-" && key != "name" && key != "action" && key != "rules" {
				keys = append(keys, key)
			}
		}
	}
	for _, key := range keys {
		name := "set." + strings.NewReplacer("-", "", " ", "").Replace(key)
		for _, l := range s.All() {
			if l.Say(name) == name {
				t.Errorf("%s.txt has no text for %q: the page of policies cannot name %q", l.Lang, name, key)
			}
		}
	}
	for line, want := range map[string]string{
		"category: games": "Kategorie: games", "warn-for: 1h": "Warnung gilt: 1h", "a day: time 1h, over 50, by user": "pro Tag: Zeit 1h, mehr als 50, je user", "other: x": "other: x", "alone": "alone",
	} {
		if got := translateLine(s.For("de"), line); got != want {
			t.Errorf("%q is shown as %q, want %q", line, got, want)
		}
	}
	if got := translateLine(nil, "category: games"); got != "category: games" {
		t.Errorf("in English the line becomes %q", got)
	}
}
