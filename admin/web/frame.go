package web

import (
	"bytes"
	"hash/fnv"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"shuultuur/admin/account"
	"shuultuur/text"
)

// A link makes a page a tab of an item of the menu. It is part of the page's route, so that no
// link leads to a page that refuses its reader or that there is not.
type link struct {
	in   item
	name string // of the tab
}

// LinkIn returns a link in an item of the menu, by its name among the tabs of the item.
func LinkIn(in item, name string) *link { return &link{in, name} }

// An item of the menu leads to the first of its pages that the user may see. The others are tabs
// of them, in the order of the routes.
type item int

const (
	Home item = iota
	Inbox
	Activity
	People
	Rules
	Lists
	Network
	System
	Own // the account: it stands below the menu
)

// items are the items of the menu in its order, with the group that each is in and what it has.
var items = [...]struct{ name, icon, group, what string }{
	Home:     {text.Mark("Home"), "home", text.Mark("Today"), text.Mark("how things stand")},
	Inbox:    {text.Mark("Inbox"), "inbox", "Today", text.Mark("what waits for you")},
	Activity: {text.Mark("Activity"), "activity", "Today", text.Mark("requests, reports, statistics")},
	People:   {text.Mark("People"), "people", text.Mark("Filter"), text.Mark("people, groups, devices, pauses")},
	Rules:    {text.Mark("Rules"), "rules", "Filter", text.Mark("what is closed, for whom, when")},
	Lists:    {text.Mark("Lists"), "lists", "Filter", text.Mark("who knows which site is what")},
	Network:  {text.Mark("Network"), "network", text.Mark("Gateway"), text.Mark("names, zones, certificate, cache")},
	System:   {text.Mark("System"), "system", "Gateway", text.Mark("health, settings, accounts, backup")},
	Own:      {text.Mark("Account"), "user", "", text.Mark("your passkeys, codes and sessions")},
}

// onPhones are the items in the bar of a phone. The rest is on the page of more.
var onPhones = []item{Home, Inbox, Activity, People}

// A template does not know the user. It writes marks in place of the menu and of the tabs, which
// are replaced when the page is sent.
const (
	menuBegin = "<!--menu:"
	tabsBegin = "<!--tabs:"
	markEnd   = "-->"
)

func markOf(begin string) func(shown any) template.HTML {
	return func(shown any) template.HTML {
		name, _ := shown.(string)
		return template.HTML(begin + name + markEnd)
	}
}

// An Entry is a link of the menu.
type Entry struct {
	Name, Icon, What, To string
	Here, More           bool // the page is one of it; it leads to the page of more
	Waiting              int
	Tabs                 []Entry
}

// A Menu is what a user may go to.
type Menu struct {
	Groups []MenuGroup
	Bar    []Entry // on phones
	Tabs   []Entry // of the item that the page is in
	Own    *Entry  // the user's account; nil: there is none
	Who    string
	Role   string
	View   View
	Next   string // the theme that follows
	At     string // the address of the page
	Find   bool   // the user may find and do
}

// A MenuGroup is a part of the menu.
type MenuGroup struct {
	Name  string
	Items []Entry
}

// MenuOf returns the menu of the user of a page, nil if the user is not known.
func MenuOf(w http.ResponseWriter) *Menu {
	if p := personalOf(w); p != nil && p.who != nil {
		return p.menu("")
	}
	return nil
}

// menu returns the menu on the page with a path without its slash.
func (p *pageWriter) menu(shown string) *Menu {
	m := &Menu{View: p.view, Next: p.view.next(), At: p.at, Find: p.may(FindPath)}
	if p.who == nil {
		return m
	}
	m.Who, m.Role = p.who.Name, p.who.Role.String()
	waiting, all := p.server.waiting(p), [len(items)]Entry{}
	for _, r := range p.server.Rows {
		if r.Link == nil || !p.may(r.Path) {
			continue
		}
		e := &all[r.Link.in]
		path := strings.TrimSuffix(r.Path, "{$}")
		here := path == "/"+shown || path == "/" && shown == "start"
		if e.To == "" {
			i := items[r.Link.in]
			*e = Entry{Name: p.texts.Say(i.name), Icon: i.icon, What: p.texts.Say(i.what), To: path}
		}
		e.Here = e.Here || here
		e.Tabs = append(e.Tabs, Entry{Name: p.texts.Say(r.Link.name), To: path, Here: here, Waiting: waiting[path]})
	}
	for _, n := range waiting {
		all[Inbox].Waiting += n
	}
	for in, e := range all {
		if e.To == "" {
			continue
		}
		if e.Here && len(e.Tabs) > 1 {
			m.Tabs = e.Tabs
		}
		if item(in) == Own {
			m.Own = &e
			continue
		}
		name := p.texts.Say(items[in].group)
		if n := len(m.Groups); n == 0 || m.Groups[n-1].Name != name {
			m.Groups = append(m.Groups, MenuGroup{Name: name})
		}
		g := &m.Groups[len(m.Groups)-1]
		g.Items = append(g.Items, e)
		if slices.Contains(onPhones, item(in)) {
			m.Bar = append(m.Bar, e)
		}
	}
	rest := Entry{Name: p.texts.Say(text.Mark("More")), Icon: "menu", To: MorePath, Here: true, More: true}
	for _, e := range m.Bar {
		rest.Here = rest.Here && !e.Here
	}
	m.Bar = append(m.Bar, rest)
	return m
}

// PagesFor returns the pages of the menu that somebody may see: each with its own name, and with that
// of its item.
func (s *Site) PagesFor(who *account.Who, t *text.Texts) (all []Entry) {
	for _, r := range s.Rows {
		if r.Link == nil || !s.MayGo(who, r.Path) {
			continue
		}
		i := items[r.Link.in]
		all = append(all, Entry{Name: t.Say(r.Link.name), What: t.Say(i.name), Icon: i.icon, To: strings.TrimSuffix(r.Path, "{$}")})
	}
	return all
}

// MayGo reports whether somebody may see a page.
func (s *Site) MayGo(who *account.Who, path string) bool {
	r, ok := s.pages[path]
	return ok && who != nil && who.Role >= Least[r]
}

// FindPath is where the field at the top of the menu leads.
const FindPath = "/find"

// MorePath is the page of what has no place in the bar of a phone.
const MorePath = "/more"

// A pageWriter writes to a browser. It knows the user, and turns
// plain-text errors into pages.
type pageWriter struct {
	http.ResponseWriter
	who     *account.Who // nil until the user is known
	texts   *text.Texts  // in the language of the browser, or the one that the user has chosen
	view    View
	at      string // the address of the page
	asked   *http.Request
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
func (p *pageWriter) may(path string) bool { return p.server.MayGo(p.who, path) }

// May reports whether the user of a page may see another.
func (s *Site) May(w http.ResponseWriter, path string) bool {
	p := personalOf(w)
	return p != nil && p.may(path)
}

// insertFrame puts the menu and the tabs into a page, and the theme.
func insertFrame(w http.ResponseWriter, page []byte) []byte {
	p := personalOf(w)
	if p == nil {
		return page
	}
	if p.view.Theme != "" {
		page = bytes.Replace(page, []byte("<html "), []byte(`<html data-theme="`+p.view.Theme+`" `), 1)
	}
	menus := map[string]*Menu{} // the menu and the tabs of a page are of the same
	for _, part := range []struct{ begin, name string }{{menuBegin, "menu"}, {tabsBegin, "tabs"}} {
		before, rest, ok := bytes.Cut(page, []byte(part.begin))
		if !ok {
			continue
		}
		shown, after, ok := bytes.Cut(rest, []byte(markEnd))
		if !ok {
			continue
		}
		m := menus[string(shown)]
		if m == nil {
			m = p.menu(string(shown))
			menus[string(shown)] = m
		}
		var b bytes.Buffer
		b.Write(before)
		if err := p.server.frame.In(p.texts).ExecuteTemplate(&b, part.name, m); err != nil {
			panic(err) // a test makes all frames
		}
		b.Write(after)
		page = b.Bytes()
	}
	return page
}

// letterOf returns the first letter of a name, for a face.
func letterOf(name string) string {
	r, _ := utf8.DecodeRuneInString(strings.TrimSpace(name))
	if r == utf8.RuneError {
		return "?"
	}
	return string(unicode.ToUpper(r))
}

// hueOf returns which of six hues a name has.
func hueOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int(h.Sum32()%6) + 1
}
