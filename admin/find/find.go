// Package find understands what somebody writes into the field at the top of each page, "open roblox
// for anna 1h", and offers what can be done, and the pages, people, services and lists that it names.
//
// Data moves as follows: [parse] reads verb, site, person and time in the reader's language into a
// wish. A [Finder] makes offers of it, each a link or a form of another page; that page checks roles and
// shows the effect of a change as ever. The same page serves the field, which shows its offers below,
// and people without scripts.
package find

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/check/service"
	"shuultuur/text"
)

// A Finder knows what can be found. Fields may be nil.
type Finder struct {
	// Known returns the users with their addresses, and the groups with their members.
	Known func() (users, groups map[string][]string)
	// Lists returns the names of the lists.
	Lists func() []string
}

// An offer is something that can be done, or a page to go to.
type offer struct {
	Title string          `json:"title"`
	More  string          `json:"more,omitempty"`
	Icon  string          `json:"-"`
	To    string          `json:"to,omitempty"`   // the page, of a link
	Post  string          `json:"post,omitempty"` // the path that takes the form
	Form  []web.FormField `json:"-"`
	Body  string          `json:"form,omitempty"` // the form, as programs send it
}

// maxOffers bounds what is shown.
const maxOffers = 12

// Routes returns the route of the field.
//
//	GET /find?q=WORDS     what can be done, and found
func (f *Finder) Routes(site *web.Site) []web.Route {
	page := site.Page("find.html")
	return []web.Route{{Method: "GET", Path: web.FindPath, Role: web.Viewer,
		Does: "understand words such as: open roblox for anna 1h, and offer what can be done and found", Query: []web.Field{web.Optional("q", "words")}, Gives: web.PageOrJSON,
		Handler: func(w http.ResponseWriter, r *http.Request) {
			q := strings.ToValidUTF8(r.URL.Query().Get("q"), "")
			all := f.offers(site, w, r, q)
			web.Respond(w, r, page, http.StatusOK, struct {
				Query  string
				Offers []offer
			}{q, all}, all, "")
		}}}
}

// A search is one question.
type search struct {
	site *web.Site
	who  *account.Who
	t    *text.Texts
	wish
	all []offer
}

// offers returns what can be done and found, the most likely first.
func (f *Finder) offers(site *web.Site, w http.ResponseWriter, r *http.Request, q string) []offer {
	who, t := web.UserOf(r), web.TextsOf(w)
	if strings.TrimSpace(q) == "" {
		return []offer{}
	}
	var known names
	if site.MayGo(who, "/clients") {
		known = f.known(who)
	}
	s := &search{site: site, who: who, t: t, wish: parse(q, t, known), all: []offer{}}
	if s.Site != "" {
		s.aboutSite()
	}
	if s.Who != "" || s.Verb == pause {
		s.aboutPerson()
	}
	if rest := strings.ToLower(cmp.Or(s.Rest, s.name)); rest != "" {
		s.pages(rest)
		s.people(rest, known)
		s.services(rest)
		s.lists(rest, f.Lists)
	}
	if site.MayGo(who, "/events") && len(s.all) < maxOffers {
		s.link("activity", t.Say("Activity: {words}", "words", q), "", "/events", "filter", s.filter())
	}
	return s.all[:min(len(s.all), maxOffers)]
}

// known returns the names that somebody may know: helpers those of their groups.
func (f *Finder) known(who *account.Who) (k names) {
	if f.Known == nil {
		return k
	}
	users, groups := f.Known()
	if who.Role == account.Helper {
		for _, g := range who.Groups {
			if _, ok := groups[g]; ok {
				k.groups = append(k.groups, g)
			}
			for _, m := range groups[g] {
				if _, ok := users[m]; ok {
					k.people = append(k.people, m)
				}
			}
		}
	} else {
		k.people, k.groups = slices.Collect(maps.Keys(users)), slices.Collect(maps.Keys(groups))
	}
	slices.Sort(k.people)
	slices.Sort(k.groups)
	k.people = slices.Compact(k.people)
	return k
}

// link offers a page. query has names and values.
func (s *search) link(icon, title, more, path string, query ...string) {
	v := url.Values{}
	for i := 0; i < len(query); i += 2 {
		if query[i+1] != "" {
			v.Set(query[i], query[i+1])
		}
	}
	to := path
	if len(v) > 0 {
		to += "?" + v.Encode()
	}
	s.all = append(s.all, offer{Icon: icon, Title: title, More: more, To: to})
}

// form offers a change.
func (s *search) form(icon, title, path string, fields ...string) {
	o, v := offer{Icon: icon, Title: title, Post: path}, url.Values{}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			o.Form = append(o.Form, web.FormField{Name: fields[i], Value: fields[i+1]})
			v.Set(fields[i], fields[i+1])
		}
	}
	o.Body = v.Encode()
	s.all = append(s.all, o)
}

// whom returns for whom something is done, in words.
func (s *search) whom() string { return cmp.Or(s.Who, s.t.Say("everyone")) }

// aboutSite offers to open, to block and to ask why, first what the verb says.
func (s *search) aboutSite() {
	long := cmp.Or(s.For, "1h")
	offers := map[string]func(){
		open: func() {
			s.form("allow", s.t.Say("Open {site} for {who}, for {time}", "site", s.name, "who", s.whom(), "time", s.inWords(long)), "/rulings", "what", "open", "site", s.Site, "who", s.Who, "for", long)
		},
		block: func() {
			title := s.t.Say("Block {site} for {who}, for good", "site", s.name, "who", s.whom())
			if s.For != "" {
				title = s.t.Say("Block {site} for {who}, for {time}", "site", s.name, "who", s.whom(), "time", s.inWords(s.For))
			}
			s.form("block", title, "/rulings", "what", "block", "site", s.Site, "who", s.Who, "for", s.For)
		},
		why: func() { s.why() },
	}
	order := []string{why, open, block}
	if i := slices.Index(order, s.Verb); i > 0 {
		order = slices.Insert(slices.Delete(order, i, i+1), 0, s.Verb)
	}
	for _, verb := range order {
		switch {
		case verb != why && s.who.Role < account.Operator, verb == why && !s.site.MayGo(s.who, "/why"):
		default:
			offers[verb]()
		}
	}
}

func (s *search) why() {
	host := s.Site
	if x, ok := service.Find(host); ok {
		host = x.Hosts[0]
	}
	by := map[kind]string{nobody: "as", person: "user", group: "groups", device: "client"}[s.kind]
	s.link("help", s.t.Say("What happens to {site} for {who}, and why", "site", s.name, "who", s.whom()), "", "/why", "url", "https://"+host+"/", by, s.Who)
}

// aboutPerson offers a pause, more time, and the page of the person.
func (s *search) aboutPerson() {
	if s.Verb == pause || s.Site == "" {
		for _, long := range lengths(s.For, "5m", "30m") {
			s.form("pause", s.t.Say("Pause filtering for {who}, for {time}", "who", s.whom(), "time", s.inWords(long)), "/pause", "for", long, "who", s.Who)
		}
	}
	if s.Who == "" {
		return
	}
	if minutes := s.minutes(); s.Verb == more && minutes != "" {
		s.form("clock", s.t.Say("{minutes} minutes more today for {who}", "minutes", minutes, "who", s.Who), "/bonus", "who", s.Who, "minutes", minutes)
		last := len(s.all) - 1
		s.all = slices.Insert(s.all[:last], 0, s.all[last])
	}
	if s.site.MayGo(s.who, "/clients") {
		s.link("people", s.Who, "", "/clients/one", "who", s.Who)
	}
}

// lengths returns the length that was written, or usual ones.
func lengths(written string, usual ...string) []string {
	if written != "" {
		return []string{written}
	}
	return usual
}

// minutes returns what a bonus is given in, 15 if nothing was written, "" if it is too long for one.
func (s *search) minutes() string {
	switch n, unit := split(cmp.Or(s.For, "15m")); {
	case unit == "m" && n <= 240:
		return strconv.Itoa(n)
	case unit == "h" && n <= 4:
		return strconv.Itoa(60 * n)
	}
	return ""
}

// pages offers the pages whose name has the words.
func (s *search) pages(words string) {
	for _, e := range s.site.PagesFor(s.who, s.t) {
		if has(e.Name, words) || has(e.What, words) {
			s.link(e.Icon, e.Name, e.What, e.To)
		}
	}
}

func (s *search) people(words string, known names) {
	n := 0
	for _, name := range slices.Concat(known.people, known.groups) {
		if n < 5 && name != s.Who && has(name, words) {
			s.link("people", name, "", "/clients/one", "who", name)
			n++
		}
	}
}

func (s *search) services(words string) {
	if !s.site.MayGo(s.who, "/services") {
		return
	}
	n := 0
	for _, x := range service.All() {
		if n < 3 && has(x.Name, words) {
			s.link("lists", x.Name, s.t.Say("Services"), "/services")
			n++
		}
	}
}

func (s *search) lists(words string, lists func() []string) {
	if lists == nil || !s.site.MayGo(s.who, "/lists") {
		return
	}
	n := 0
	for _, name := range lists() {
		if n < 3 && has(name, words) {
			s.link("lists", name, s.t.Say("Lists"), "/lists/"+url.PathEscape(name))
			n++
		}
	}
}

// filter returns the search of the record.
func (s *search) filter() string {
	var all []string
	if s.Who != "" {
		all = append(all, map[kind]string{person: "user:", group: "group:", device: "client:"}[s.kind]+quoted(s.Who))
	}
	if x, ok := service.Find(s.Site); ok {
		all = append(all, "host:"+strings.Join(x.Hosts[:min(len(x.Hosts), 20)], ","))
	} else if s.Site != "" {
		all = append(all, "host:"+s.Site)
	}
	for word := range strings.FieldsSeq(s.Rest) {
		all = append(all, quoted(word))
	}
	return strings.Join(all, " ")
}

// quoted writes a value of a filter.
func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, "") + `"` }

// has reports whether a name has words, in any case.
func has(name, words string) bool { return strings.Contains(strings.ToLower(name), words) }
