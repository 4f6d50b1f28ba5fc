package web

import (
	"bytes"
	"html"
	"html/template"
	"net/http"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/text"
)

// A link of the menu leads to a page. It is part of the page's route, so that no link leads to a
// page that refuses its reader or that there is not.
type link struct {
	in         section
	name, icon string // the icon is the path of a drawing of 24 by 24
}

// LinkIn returns a link in a part of the menu.
func LinkIn(in section, name, icon string) *link { return &link{in, name, icon} }

// A section is a part of the menu.
type section int

const (
	Watch section = iota
	People
	Filtering
	Network
	Machine
)

// sections are the names of the parts of the menu, in its order. The links of a part are in the
// order of the routes.
var sections = [...]string{Watch: text.Mark("Watch"), People: text.Mark("People"), Filtering: text.Mark("Filter"), Network: text.Mark("Network"), Machine: text.Mark("System")}

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
	server  *Site
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
func (p *pageWriter) end(page PageTemplate) {
	if p.failed == 0 {
		return
	}
	status := p.failed
	p.failed = 0
	p.Header().Del("Content-Length") // of the text
	WritePage(p, page, status, struct {
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

// TextsOf returns the texts in the reader's language, nil for English.
func TextsOf(w http.ResponseWriter) *text.Texts {
	if p := personalOf(w); p != nil {
		return p.texts
	}
	return nil
}

// may reports whether the user may see a page.
func (p *pageWriter) may(path string) bool {
	r, ok := p.server.pages[path]
	return ok && p.who != nil && p.who.Role >= Least[r]
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
	for in, name := range sections {
		some := false
		for _, l := range p.server.Rows {
			path := strings.TrimSuffix(l.Path, "{$}")
			if l.Link == nil || l.Link.in != section(in) || !p.may(l.Path) {
				continue
			}
			if !some {
				b.WriteString("<li class=\"group\"><span>" + html.EscapeString(p.texts.Say(name)) + "</span><ul>")
				some = true
			}
			b.WriteString(`<li><a href="` + path + `"`)
			if path == "/"+shown || path == "/" && shown == "start" {
				b.WriteString(` aria-current="page"`)
			}
			b.WriteString(`><svg viewBox="0 0 24 24" aria-hidden="true"><path d="` + l.Link.icon + `"/></svg>` + html.EscapeString(p.texts.Say(l.Link.name)) + "</a></li>\n")
		}
		if some {
			b.WriteString("</ul></li>\n")
		}
	}
}
