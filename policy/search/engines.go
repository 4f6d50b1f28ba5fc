// Package search knows search engines and what people search for there.
//
// [Engines] finds the engine of a host; the table says which parameters carry the term and how
// its filter is switched on. [AppendTerms] takes the terms from a request, folded as pages are,
// and [Forms] finds words in them in every inflection. [Searches] finds terms in URLs that were
// recorded.
package search

import (
	"strings"

	"shuultuur/filter"
)

// An Engine is a known search engine: where the search term is, and how to switch on its
// filter. Engines change these without notice; try an entry against the live service before
// you rely on it.
type Engine struct {
	Hosts   []string // including their subdomains
	Country string   // "google." is google.com, google.de, google.co.uk, …
	Params  []string // query parameters that carry the search term

	// SafeSearch. Connections to a host named in dial go to another host, which serves it with
	// the filter on; this works in a tunnel too. On paths that begin with one of paths, the
	// query is edited as well.
	Dial  []dial
	Paths []string
	Safe  []filter.Edit
}

type dial struct{ Host, To string }

func query(name, value string) filter.Edit {
	return filter.Edit{Kind: filter.SetQuery, Name: name, Value: value}
}

// Known returns the table of known search engines.
func Known() []Engine {
	search := []string{"/search"}
	return []Engine{
		{Country: "google.", Params: []string{"q", "as_q", "as_epq"},
			Dial:  []dial{{"google.", "forcesafesearch.google.com"}},
			Paths: []string{"/search", "/images", "/imghp", "/webhp", "/videohp"},
			Safe:  []filter.Edit{query("safe", "active")}},
		{Hosts: []string{"bing.com"}, Params: []string{"q"},
			Dial:  []dial{{"bing.com", "strict.bing.com"}, {"www.bing.com", "strict.bing.com"}},
			Paths: []string{"/search", "/images", "/videos", "/shop"},
			Safe:  []filter.Edit{query("adlt", "strict")}},
		{Hosts: []string{"duckduckgo.com"}, Params: []string{"q"},
			Dial: []dial{{"duckduckgo.com", "safe.duckduckgo.com"}, {"www.duckduckgo.com", "safe.duckduckgo.com"},
				{"start.duckduckgo.com", "safe.duckduckgo.com"}},
			Paths: []string{"/?", "/html", "/lite", "/i.js", "/v.js", "/d.js"},
			Safe:  []filter.Edit{query("kp", "1")}},
		{Hosts: []string{"search.yahoo.com", "search.yahoo.co.jp"}, Params: []string{"p"},
			Paths: search, Safe: []filter.Edit{query("vm", "r")}},
		{Hosts: []string{"ya.ru"}, Country: "yandex.", Params: []string{"text"},
			Dial: []dial{{"yandex.", "familysearch.yandex.ru"}, {"ya.ru", "familysearch.yandex.ru"},
				{"www.ya.ru", "familysearch.yandex.ru"}},
			Paths: []string{"/search", "/images", "/video"},
			Safe:  []filter.Edit{query("family", "yes")}},
		{Hosts: []string{"search.brave.com"}, Params: []string{"q"},
			Dial:  []dial{{"search.brave.com", "forcesafe.search.brave.com"}},
			Paths: []string{"/search", "/images", "/videos", "/news"},
			Safe:  []filter.Edit{query("safesearch", "strict")}},
		{Hosts: []string{"ecosia.org"}, Params: []string{"q"},
			Dial: []dial{{"www.ecosia.org", "strict-safe-search.ecosia.org"}}},
		{Hosts: []string{"startpage.com"}, Params: []string{"query", "q"},
			Dial:  []dial{{"startpage.com", "safe.startpage.com"}, {"www.startpage.com", "safe.startpage.com"}},
			Paths: []string{"/do/", "/sp/"},
			Safe:  []filter.Edit{query("qadf", "heavy")}},
		{Hosts: []string{"qwant.com"}, Params: []string{"q"},
			Dial:  []dial{{"api.qwant.com", "safeapi.qwant.com"}},
			Paths: []string{"/?", "/v3/search"},
			Safe:  []filter.Edit{query("s", "2"), query("safesearch", "2")}},
		{Hosts: []string{"pixabay.com"}, Params: []string{"q", "search"},
			Dial:  []dial{{"pixabay.com", "safesearch.pixabay.com"}, {"www.pixabay.com", "safesearch.pixabay.com"}},
			Paths: []string{"/api/"},
			Safe:  []filter.Edit{query("safesearch", "true")}},
		{Hosts: []string{"mojeek.com"}, Params: []string{"q"},
			Paths: search, Safe: []filter.Edit{query("safe", "1")}},
		{Hosts: []string{"youtube.com"}, Params: []string{"search_query", "q"}},
		{Hosts: []string{"baidu.com"}, Params: []string{"wd", "word"}},
		{Hosts: []string{"ask.com", "search.aol.com", "kagi.com", "search.seznam.cz", "dogpile.com"}, Params: []string{"q"}},
		{Hosts: []string{"search.naver.com", "swisscows.com"}, Params: []string{"query"}},
	}
}

// Engines maps the domains of the table to their engine. A key with a trailing dot is
// completed by the domain of a country.
type Engines map[string]*Engine

// NewEngines returns those of the table.
func NewEngines() Engines {
	m := Engines{}
	for _, e := range Known() {
		for _, h := range e.Hosts {
			m[h] = &e
		}
		if e.Country != "" {
			m[e.Country] = &e
		}
	}
	return m
}

// CountryBase shortens "google.co.uk" to "google.". It knows the forms that registries use:
// com, a country, or com, co and the like below a country.
func CountryBase(host string) string {
	i := strings.IndexByte(host, '.')
	if i < 0 {
		return ""
	}
	switch top := host[i+1:]; {
	case len(top) == 2, top == "com", top == "cat":
	case strings.HasPrefix(top, "com.") && len(top) == 6, strings.HasPrefix(top, "co.") && len(top) == 5:
	default:
		return ""
	}
	return host[:i+1]
}

// Of returns the engine of a host, or nil.
func (m Engines) Of(host string) *Engine {
	for {
		if en, ok := m[host]; ok {
			return en
		}
		if base := CountryBase(host); base != "" {
			if en, ok := m[base]; ok {
				return en
			}
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return nil
		}
		host = host[i+1:]
	}
}
