package policy

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"shuultuur/filter"
	"shuultuur/setting"
)

// An engine is a known search engine: where the search term is, and how to switch on its
// filter. Engines change these without notice; try an entry against the live service before
// you rely on it.
type engine struct {
	hosts   []string // including their subdomains
	country string   // "google." is google.com, google.de, google.co.uk, …
	params  []string // query parameters that carry the search term

	// SafeSearch. Connections to a host named in dial go to another host, which serves it with
	// the filter on; this works in a tunnel too. On paths that begin with one of paths, the
	// query is edited as well.
	dial  []dial
	paths []string
	safe  []filter.Edit
}

type dial struct{ host, to string }

func query(name, value string) filter.Edit {
	return filter.Edit{Kind: filter.SetQuery, Name: name, Value: value}
}

// engines returns the table of known search engines.
func engines() []engine {
	search := []string{"/search"}
	return []engine{
		{country: "google.", params: []string{"q", "as_q", "as_epq"},
			dial:  []dial{{"google.", "forcesafesearch.google.com"}},
			paths: []string{"/search", "/images", "/imghp", "/webhp", "/videohp"},
			safe:  []filter.Edit{query("safe", "active")}},
		{hosts: []string{"bing.com"}, params: []string{"q"},
			dial:  []dial{{"bing.com", "strict.bing.com"}, {"www.bing.com", "strict.bing.com"}},
			paths: []string{"/search", "/images", "/videos", "/shop"},
			safe:  []filter.Edit{query("adlt", "strict")}},
		{hosts: []string{"duckduckgo.com"}, params: []string{"q"},
			dial: []dial{{"duckduckgo.com", "safe.duckduckgo.com"}, {"www.duckduckgo.com", "safe.duckduckgo.com"},
				{"start.duckduckgo.com", "safe.duckduckgo.com"}},
			paths: []string{"/?", "/html", "/lite", "/i.js", "/v.js", "/d.js"},
			safe:  []filter.Edit{query("kp", "1")}},
		{hosts: []string{"search.yahoo.com", "search.yahoo.co.jp"}, params: []string{"p"},
			paths: search, safe: []filter.Edit{query("vm", "r")}},
		{hosts: []string{"ya.ru"}, country: "yandex.", params: []string{"text"},
			dial: []dial{{"yandex.", "familysearch.yandex.ru"}, {"ya.ru", "familysearch.yandex.ru"},
				{"www.ya.ru", "familysearch.yandex.ru"}},
			paths: []string{"/search", "/images", "/video"},
			safe:  []filter.Edit{query("family", "yes")}},
		{hosts: []string{"search.brave.com"}, params: []string{"q"},
			dial:  []dial{{"search.brave.com", "forcesafe.search.brave.com"}},
			paths: []string{"/search", "/images", "/videos", "/news"},
			safe:  []filter.Edit{query("safesearch", "strict")}},
		{hosts: []string{"ecosia.org"}, params: []string{"q"},
			dial: []dial{{"www.ecosia.org", "strict-safe-search.ecosia.org"}}},
		{hosts: []string{"startpage.com"}, params: []string{"query", "q"},
			dial:  []dial{{"startpage.com", "safe.startpage.com"}, {"www.startpage.com", "safe.startpage.com"}},
			paths: []string{"/do/", "/sp/"},
			safe:  []filter.Edit{query("qadf", "heavy")}},
		{hosts: []string{"qwant.com"}, params: []string{"q"},
			dial:  []dial{{"api.qwant.com", "safeapi.qwant.com"}},
			paths: []string{"/?", "/v3/search"},
			safe:  []filter.Edit{query("s", "2"), query("safesearch", "2")}},
		{hosts: []string{"pixabay.com"}, params: []string{"q", "search"},
			dial:  []dial{{"pixabay.com", "safesearch.pixabay.com"}, {"www.pixabay.com", "safesearch.pixabay.com"}},
			paths: []string{"/api/"},
			safe:  []filter.Edit{query("safesearch", "true")}},
		{hosts: []string{"mojeek.com"}, params: []string{"q"},
			paths: search, safe: []filter.Edit{query("safe", "1")}},
		{hosts: []string{"youtube.com"}, params: []string{"search_query", "q"}},
		{hosts: []string{"baidu.com"}, params: []string{"wd", "word"}},
		{hosts: []string{"ask.com", "search.aol.com", "kagi.com", "search.seznam.cz", "dogpile.com"}, params: []string{"q"}},
		{hosts: []string{"search.naver.com", "swisscows.com"}, params: []string{"query"}},
	}
}

// engineHosts maps the domains of the table to their engine. A key with a trailing dot is
// completed by the domain of a country.
func engineHosts() map[string]*engine {
	m := map[string]*engine{}
	for _, e := range engines() {
		for _, h := range e.hosts {
			m[h] = &e
		}
		if e.country != "" {
			m[e.country] = &e
		}
	}
	return m
}

// countryBase shortens "google.co.uk" to "google.". It knows the forms that registries use:
// com, a country, or com, co and the like below a country.
func countryBase(host string) string {
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

// engineOf returns the engine of a host, or nil.
func (e *Engine) engineOf(host string) *engine {
	for {
		if en, ok := e.engines[host]; ok {
			return en
		}
		if base := countryBase(host); base != "" {
			if en, ok := e.engines[base]; ok {
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

// Tenants restrict services to accounts of one's own organisation. A header is added to
// requests for the hosts where the service looks for it, so these must be decrypted.
type Tenants struct {
	Microsoft *Microsoft `yaml:"microsoft"`
	Google    []string   `yaml:"google"` // domains of Google Workspace
	Slack     *Slack     `yaml:"slack"`
	Dropbox   []string   `yaml:"dropbox"` // team IDs
}

// Microsoft names the tenants whose accounts may sign in, by domain or ID, and the directory
// ID of the tenant that sets the restriction.
type Microsoft struct {
	Allow   []string `yaml:"allow"`
	Context string   `yaml:"context"`
}

// Slack names the workspaces that may be used, and the one that sets the restriction.
type Slack struct {
	Allow     []string `yaml:"allow"`
	Requester string   `yaml:"requester"`
}

// edits are the changes to requests for one host.
type edits struct {
	always []filter.Edit
	search []filter.Edit // always, followed by those of the query
	paths  []string      // the paths to which search applies
}

// presets are the edits of a policy, by host.
type presets struct {
	exact   map[string]*edits // this host, or "google." for google and www.google of any country
	below   map[string]*edits // this host and its subdomains, except those in exact
	nothing bool
}

// edits are the same at every stage, except for the query, which must be known first.
func (p *presets) edits(t *filter.Transaction) []filter.Edit {
	if p.nothing {
		return nil
	}
	e := p.find(t.Host)
	if e == nil {
		return nil
	}
	if e.search != nil && t.Request != nil {
		for _, path := range e.paths {
			if len(t.Request.Path) >= len(path) && string(t.Request.Path[:len(path)]) == path {
				return e.search
			}
		}
	}
	return e.always
}

func (p *presets) find(host string) *edits {
	if e, ok := p.exact[host]; ok {
		return e
	}
	if base := countryBase(strings.TrimPrefix(host, "www.")); base != "" {
		if e, ok := p.exact[base]; ok {
			return e
		}
	}
	for {
		if e, ok := p.below[host]; ok {
			return e
		}
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return nil
		}
		host = host[i+1:]
	}
}

// compilePresets compiles every list of edits that a policy can need.
func compilePresets(s *Policy) (presets, error) {
	p := presets{exact: map[string]*edits{}, below: map[string]*edits{}}
	if s.SafeSearch {
		for _, e := range engines() {
			p.addEngine(&e)
		}
	}
	if err := p.addYouTube(s.YouTube); err != nil {
		return p, err
	}
	if err := p.addTenants(&s.Tenants); err != nil {
		return p, setting.At("tenants", err)
	}
	p.nothing = len(p.exact) == 0 && len(p.below) == 0
	return p, nil
}

func (p *presets) addEngine(e *engine) {
	hosts := slices.Clone(e.hosts)
	if e.country != "" && len(e.safe) > 0 {
		p.exact[e.country] = &edits{paths: e.paths, search: e.safe}
	}
	if len(e.safe) > 0 {
		for _, h := range hosts {
			p.below[h] = &edits{paths: e.paths, search: e.safe}
		}
	}
	for _, d := range e.dial {
		to := []filter.Edit{{Kind: filter.DialHost, Value: d.to}}
		p.exact[d.host] = &edits{always: to, paths: e.paths, search: slices.Concat(to, e.safe)}
	}
}

func (p *presets) addYouTube(mode string) error {
	to, header := "restrict.youtube.com", "Strict"
	switch mode {
	case "", "off":
		return nil
	case "moderate":
		to, header = "restrictmoderate.youtube.com", "Moderate"
	case "strict":
	default:
		return setting.At("youtube", fmt.Errorf("%q is not one of off, moderate and strict", mode))
	}
	for _, h := range []string{"www.youtube.com", "m.youtube.com", "youtubei.googleapis.com", "youtube.googleapis.com", "www.youtube-nocookie.com"} {
		p.exact[h] = &edits{always: []filter.Edit{
			{Kind: filter.DialHost, Value: to},
			{Kind: filter.SetHeader, Name: "YouTube-Restrict", Value: header},
		}}
	}
	p.below["youtube.com"] = &edits{always: []filter.Edit{{Kind: filter.SetHeader, Name: "YouTube-Restrict", Value: header}}}
	return nil
}

func (p *presets) addTenants(t *Tenants) error {
	set := func(name string, values ...string) filter.Edit {
		return filter.Edit{Kind: filter.SetHeader, Name: name, Value: strings.Join(values, ",")}
	}
	if err := checkValues(t.Google, "google"); err != nil {
		return err
	}
	if err := checkValues(t.Dropbox, "dropbox"); err != nil {
		return err
	}
	if m := t.Microsoft; m != nil {
		if len(m.Allow) == 0 || m.Context == "" {
			return setting.At("microsoft", fmt.Errorf("both allow (tenants) and context (the directory ID that sets the restriction) are needed"))
		}
		if err := checkValues(append(slices.Clone(m.Allow), m.Context), "microsoft"); err != nil {
			return err
		}
		for _, h := range []string{"login.microsoftonline.com", "login.microsoft.com", "login.windows.net"} {
			p.addHeaders(h, set("Restrict-Access-To-Tenants", m.Allow...), set("Restrict-Access-Context", m.Context))
		}
	}
	if len(t.Google) > 0 {
		p.addHeaders("google.com", set("X-GoogApps-Allowed-Domains", t.Google...))
	}
	if s := t.Slack; s != nil {
		if len(s.Allow) == 0 || s.Requester == "" {
			return setting.At("slack", fmt.Errorf("both allow (workspace IDs) and requester (the one that asks for it) are needed"))
		}
		if err := checkValues(append(slices.Clone(s.Allow), s.Requester), "slack"); err != nil {
			return err
		}
		p.addHeaders("slack.com", set("X-Slack-Allowed-Workspaces-Requester", s.Requester), set("X-Slack-Allowed-Workspaces", s.Allow...))
	}
	if len(t.Dropbox) > 0 {
		p.addHeaders("dropbox.com", set("X-Dropbox-allowed-Team-Ids", t.Dropbox...))
	}
	return nil
}

// addHeaders sets header fields for a host, its subdomains, and those subdomains that already
// have edits, such as www.google.com.
func (p *presets) addHeaders(host string, es ...filter.Edit) {
	if host == "google.com" {
		// The table covers this host by "google.", which includes countries where the field means
		// nothing.
		for _, h := range []string{"google.com", "www.google.com"} {
			if e, ok := p.exact["google."]; ok {
				c := *e
				p.exact[h] = &c
			}
		}
	}
	if _, ok := p.below[host]; !ok {
		p.below[host] = &edits{}
	}
	for _, m := range []map[string]*edits{p.exact, p.below} {
		for h, e := range m {
			if h != host && !strings.HasSuffix(h, "."+host) {
				continue
			}
			e.always = slices.Concat(e.always, es)
			if e.search != nil {
				e.search = slices.Concat(e.search, es)
			}
		}
	}
}

// checkValues refuses values that would end a header field or form a list.
func checkValues(vs []string, key string) error {
	for i, v := range vs {
		if v == "" || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == ',' || r >= 0x7f }) {
			return setting.At(fmt.Sprintf("%s[%d]", key, i), fmt.Errorf("%q is not allowed in a header field; write each value separately, without blanks or commas", v))
		}
	}
	return nil
}

// Searches finds search terms in URLs of known engines. It is safe for concurrent use.
type Searches struct{ known Engine }

// NewSearches returns a Searches with the engines that rules know (see the condition search).
func NewSearches() *Searches { return &Searches{Engine{engines: engineHosts()}} }

const maxSearch = 200 // longest search that is kept, in bytes

// Term returns the search term in a URL, with single blanks between words, or "". Requests for
// suggestions while a user types do not count.
func (s *Searches) Term(raw string) string {
	if !strings.ContainsRune(raw, '?') {
		return ""
	}
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	e := s.known.engineOf(strings.ToLower(u.Hostname()))
	if e == nil || typing.MatchString(u.Path) {
		return ""
	}
	q := u.Query()
	for _, p := range e.params {
		if t := strings.Join(strings.Fields(q.Get(p)), " "); t != "" {
			if len(t) > maxSearch {
				t = t[:maxSearch]
			}
			return strings.ToValidUTF8(t, "")
		}
	}
	return ""
}

// typing matches paths of suggestions while a user types.
var typing = regexp.MustCompile(`(?i)suggest|complete|/ac/?$|/ac\.|gen_204|/osjson`)
