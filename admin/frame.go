package admin

import (
	"bytes"
	"html"
	"net/http"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"shuultuur/admin/account"
	"shuultuur/text"
)

// A navLink leads to a page. The table of routes decides who sees it, so that no link leads to
// a page that refuses its reader.
type navLink struct{ path, mark, name, icon string }

// navLinks has all links, in groups. Long because it is one table; an icon is the path of a
// drawing of 24 by 24.
var navLinks = []struct {
	name  string
	links []navLink
}{
	{text.Mark("Watch"), []navLink{
		{"/", "start", text.Mark("Start"), "M4 20V10M10 20V4M16 20v-8M21 20H3"},
		{"/events", "events", text.Mark("Record"), "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01"},
		{"/statistics", "statistics", text.Mark("Statistics"), "M12 3v9l6.5 6.2M21 12a9 9 0 1 1-9-9 9 9 0 0 1 9 9z"},
		{"/alerts", "alerts", text.Mark("Alerts"), "M12 3.500l9 16.500H3zM12 10v4.500M12 17.500h.01"},
		{"/pictures", "pictures", text.Mark("Pictures"), "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.500 9h.01"},
		{"/reports", "reports", text.Mark("Reports"), "M6 3h9l4 4v14H6zM9.500 17v-3M12.500 17v-6M15.500 17v-4"},
		{"/why", "why", text.Mark("Why?"), "M9.2 9a3 3 0 1 1 4.6 2.6c-1.1.7-1.8 1.3-1.8 2.6M12 17.5h.01M21 12a9 9 0 1 1-18 0 9 9 0 0 1 18 0z"},
	}},
	{text.Mark("People"), []navLink{
		{"/clients", "clients", text.Mark("Clients"), "M4 5h11v9H4zM2.5 18h14M17 9h4.500v10H17z"},
		{"/pause", "pause", text.Mark("Pause"), "M9 5v14M15 5v14"},
		{"/rulings", "rulings", text.Mark("Exceptions"), "M5 12.500l4.500 4.500L19 7.500M4 20h16"},
		{"/votes", "votes", text.Mark("Requests"), "M4 5h16v11H9l-5 4zM8 10.5h8"},
		{"/looks", "looks", text.Mark("Looks"), "M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 14.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z"},
		{"/privacy", "privacy", text.Mark("Privacy"), "M12 3l8 3v6c0 4.500-3.200 7.700-8 9-4.800-1.300-8-4.500-8-9V6zM12 10v4M12 17h.01"},
	}},
	{text.Mark("Filter"), []navLink{
		{"/policies", "policies", text.Mark("Policies"), "M12 3l8 3v6c0 4.5-3.2 7.7-8 9-4.8-1.3-8-4.5-8-9V6zM9 12l2.2 2.2L15.5 10"},
		{"/lists", "lists", text.Mark("Lists"), "M5 4h14v16l-7-4-7 4z"},
		{"/checks", "checks", text.Mark("Phrases and signatures"), "M5 5h14M5 9.500h9M5 14h14M5 18.500h6"},
		{"/ca", "ca", text.Mark("Certificate"), "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3"},
	}},
	{text.Mark("Network"), []navLink{
		{"/names", "names", text.Mark("Name server"), "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18"},
		{"/zones", "zones", text.Mark("Zones"), "M4 5h16v5H4zM4 14h16v5H4zM7.500 7.500h.01M7.500 16.500h.01"},
		{"/cache", "cache", text.Mark("Cache"), "M12 8c4.4 0 8-1.1 8-2.5S16.400 3 12 3 4 4.100 4 5.500 7.600 8 12 8zM4 5.500v13C4 19.900 7.600 21 12 21s8-1.100 8-2.500v-13M4 12c0 1.400 3.600 2.500 8 2.500s8-1.100 8-2.500"},
	}},
	{text.Mark("System"), []navLink{
		{"/settings", "settings", text.Mark("Settings"), "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4"},
		{"/system", "system", text.Mark("System"), "M5 5h14v10H5zM9 19h6M12 15v4"},
		{"/accounts", "accounts", text.Mark("Accounts"), "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20a6.500 6.500 0 0 1 13 0M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14.500a6.500 6.500 0 0 1 3.500 5.500"},
		{"/audit", "audit", text.Mark("Audit log"), "M6 3h9l4 4v14H6zM9.500 12h6M9.500 16h6"},
		{"/api", "api", text.Mark("API"), "M8 7l-5 5 5 5M16 7l5 5-5 5M13.500 5l-3 14"},
		{"/account", "account", text.Mark("Account"), "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.500 20a7.500 7.500 0 0 1 15 0"},
	}},
}

// A template does not know the user. It writes a mark in place of the links, which is replaced
// when the page is sent.
const (
	navBegin = "<!--links:"
	navEnd   = "-->"
)

func navMark(shown any) template.HTML {
	name, _ := shown.(string)
	return template.HTML(navBegin + name + navEnd)
}

// A pageWriter writes to a browser. It knows the user, and turns
// plain-text errors into pages.
type pageWriter struct {
	http.ResponseWriter
	who     *account.Who // nil until the user is known
	texts   *text.Texts  // in the language of the browser
	server  *Server
	failed  int    // status of an error whose text is held back, otherwise 0
	message []byte // of the error
}

// WriteHeader holds back an error in plain text until [pageWriter.end].
func (p *pageWriter) WriteHeader(status int) {
	if status >= 400 && strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.failed = status
		return
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *pageWriter) Write(b []byte) (int, error) {
	if p.failed == 0 {
		return p.ResponseWriter.Write(b)
	}
	p.message = append(p.message, b[:min(len(b), maxErrorText-len(p.message))]...)
	return len(b), nil
}

const maxErrorText = 8 << 10

// end writes the error that was held back.
func (p *pageWriter) end(page pageTemplate) {
	if p.failed == 0 {
		return
	}
	status := p.failed
	p.failed = 0
	p.Header().Del("Content-Length") // of the text
	writePage(p, page, status, struct {
		Title, Text string
		SignedIn    bool
	}{p.texts.Say(http.StatusText(status)), p.texts.Message(strings.ToValidUTF8(strings.TrimSpace(string(p.message)), "")), p.who != nil})
}

// Unwrap is for [http.ResponseController].
func (p *pageWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// personalOf returns the writer that knows the user, or nil.
func personalOf(w http.ResponseWriter) *pageWriter {
	for w != nil {
		if p, ok := w.(*pageWriter); ok {
			return p
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = u.Unwrap()
	}
	return nil
}

// textsOf returns the texts in the reader's language, nil for English.
func textsOf(w http.ResponseWriter) *text.Texts {
	if p := personalOf(w); p != nil {
		return p.texts
	}
	return nil
}

// may reports whether the user may see a page.
func (p *pageWriter) may(path string) bool {
	if path == "/" {
		path = "/{$}"
	}
	r, ok := p.server.pages[path]
	return ok && p.who != nil && p.who.Role >= least[r]
}

// insertLinks puts the links into a page.
func insertLinks(w http.ResponseWriter, page []byte) []byte {
	before, rest, ok := bytes.Cut(page, []byte(navBegin))
	if !ok {
		return page
	}
	shown, after, ok := bytes.Cut(rest, []byte(navEnd))
	if !ok {
		return page
	}
	var b strings.Builder
	b.Write(before)
	if p := personalOf(w); p != nil {
		p.links(&b, string(shown))
	}
	b.Write(after)
	return []byte(b.String())
}

func (p *pageWriter) links(b *strings.Builder, shown string) {
	for _, g := range navLinks {
		some := false
		for _, l := range g.links {
			if !p.may(l.path) {
				continue
			}
			if !some {
				b.WriteString("<li class=\"group\"><span>" + html.EscapeString(p.texts.Say(g.name)) + "</span><ul>")
				some = true
			}
			b.WriteString(`<li><a href="` + l.path + `"`)
			if l.mark == shown {
				b.WriteString(` aria-current="page"`)
			}
			b.WriteString(`><svg viewBox="0 0 24 24" aria-hidden="true"><path d="` + l.icon + `"/></svg>` + html.EscapeString(p.texts.Say(l.name)) + "</a></li>\n")
		}
		if some {
			b.WriteString("</ul></li>\n")
		}
	}
}
