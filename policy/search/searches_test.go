package search

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTheEngineOfAHost(t *testing.T) {
	m := NewEngines()
	for host, want := range map[string]string{
		"google.com": "google.", "www.google.de": "google.", "images.google.co.uk": "google.", "google.com.br": "google.", "google.cat": "google.",
		"bing.com": "bing.com", "cn.bing.com": "bing.com", "yandex.ru": "yandex.", "ya.ru": "ya.ru", "search.brave.com": "search.brave.com",
		"brave.com": "", "notbing.com": "", "bing.com.example.org": "", "google.example": "", "google.example.com": "", "google": "", "": "", ".": "", "com": "",
		"yahoo.com": "", "de.search.yahoo.com": "search.yahoo.com",
	} {
		got := m.Of(host)
		if got != m[want] || want == "" && got != nil {
			t.Errorf("the engine of %q is %+v, want that of %q", host, got, want)
		}
	}
}

func TestTheBaseOfACountry(t *testing.T) {
	for host, want := range map[string]string{
		"google.com": "google.", "google.de": "google.", "google.co.uk": "google.", "google.com.au": "google.", "google.cat": "google.",
		"google.net": "", "google.co.uk.example": "", "google.com.": "", "google.coo.uk": "", "google": "", "": "", "www.google.com": "",
	} {
		if got := CountryBase(host); got != want {
			t.Errorf("the base of %q is %q, want %q", host, got, want)
		}
	}
}

// An engine whose filter is switched on has to be found by the hosts that are dialed elsewhere.
func TestEveryEngineCanBeFoundAndFiltered(t *testing.T) {
	m := NewEngines()
	for _, e := range Known() {
		if len(e.Params) == 0 || len(e.Hosts) == 0 && e.Country == "" {
			t.Errorf("%+v has no term or no host", e)
		}
		for _, d := range e.Dial {
			host := d.Host
			if strings.HasSuffix(host, ".") {
				host += "com"
			}
			if found := m.Of(host); found == nil || found.Params[0] != e.Params[0] {
				t.Errorf("%s is dialed at %s, and belongs to %+v", host, d.To, found)
			}
		}
		if len(e.Safe) > 0 && len(e.Paths) == 0 {
			t.Errorf("the queries of %v are edited on no path", e.Hosts)
		}
	}
}

func TestSearchesInURLs(t *testing.T) {
	s := NewSearches()
	for raw, want := range map[string]string{
		"https://www.google.com/search?q=red+shoes&hl=de":      "red shoes",
		"https://WWW.GOOGLE.DE:443/search?hl=de&q=a%20%20b%09": "a b",
		"https://www.google.com/search?q=&as_q=two":            "two", // the first parameter with a term
		"https://www.google.com/search?q=one&q=two":            "one",
		"https://search.yahoo.com/search?p=x":                  "x",
		"https://search.yahoo.com/search?q=x":                  "",
		"https://www.youtube.com/results?search_query=cats":    "cats",
		"https://www.google.com/search":                        "",
		"https://www.google.com/search?":                       "",
		"https://www.google.com/search?q=+++":                  "",
		"https://www.google.com/complete/search?q=re":          "", // while somebody types
		"https://duckduckgo.com/ac/?q=re":                      "",
		"https://www.google.com/gen_204?q=re":                  "",
		"https://example.org/search?q=x":                       "",
		"://bad?q=x":                                           "",
		"?q=x":                                                 "",
		"":                                                     "",
	} {
		if got := s.Term(raw); got != want {
			t.Errorf("the term in %q is %q, want %q", raw, got, want)
		}
	}
}

func TestALongSearchIsCutBetweenCharacters(t *testing.T) {
	got := NewSearches().Term("https://www.google.com/search?q=a" + strings.Repeat("%C3%A4", 300))
	if len(got) > maxSearch || len(got) < maxSearch-1 || !utf8.ValidString(got) {
		t.Errorf("%d bytes are kept, valid %v; want at most %d", len(got), utf8.ValidString(got), maxSearch)
	}
	if got := NewSearches().Term("https://www.google.com/search?q=a%FFb"); got != "ab" {
		t.Errorf("bytes that are no text become %q, want ab", got)
	}
}

func TestPhrasesOfScriptsWithoutBlanksHaveNoForms(t *testing.T) {
	for phrase, want := range map[string]bool{"ギャンブル": true, "赌博": true, "การพนัน": true, "赌博 casino": false, "casino": false, "казино": false} {
		if got := IsJoined(phrase); got != want {
			t.Errorf("IsJoined(%q) = %v, want %v", phrase, got, want)
		}
	}
}

func TestNoFormsMatchNothing(t *testing.T) {
	if (*Forms)(nil).In([]byte(" casino ")) {
		t.Error("missing forms match")
	}
	if NewForms().In([]byte(" casino ")) {
		t.Error("no forms match")
	}
}
