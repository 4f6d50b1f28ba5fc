package setup

import (
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/lib/lan"
	"shuultuur/text"
)

var errOver = errors.New("this link is not good, or was used already; the settings are at /settings")

// Pages are the first steps and their dependencies.
type Pages struct {
	Site    *web.Site
	Offered func() *Setup // nil: none are offered

	page web.PageTemplate
}

const ofFirst = "a machine without settings has no record"

var token = web.Required("token", "token of the link")

// Routes returns the first steps.
//
//	GET /setup?token=TOKEN    the questions of a step
//	POST /setup/{step}        the answers of a step: you, people, filter, network; the last writes all
//	POST /setup/port53        move aside what has port 53
//	GET /setup/connect        how a device is connected; it waits for the first
//	GET /setup/first          the first query and request of each device, as they come
//	POST /setup/end           the end of the first steps
//	GET /setup/link           the link, for the command line
func (p *Pages) Routes() []web.Route {
	p.page = web.PageOf("setup.html", web.NoNotice)
	return []web.Route{
		{Method: "GET", Path: "/setup", Role: web.Anyone,
			Does: "the first steps, by a link that is good once", Query: []web.Field{token, web.Optional("step", "you | people | filter | network")}, Gives: "text/html",
			Handler: p.ask},
		{Method: "POST", Path: "/setup/{step}", Role: web.Anyone,
			Does: "write settings for the answers of the first steps", Form: append([]web.Field{token, web.Optional("go", "next | back")}, fields...), Gives: "text/html",
			Effect: ofFirst, Handler: p.answer},
		{Method: "POST", Path: "/setup/port53", Role: web.Anyone,
			Does: "move the program aside that has port 53", Form: []web.Field{token, web.Optional("at", "address")}, Gives: "text/html",
			Effect: ofFirst, Handler: p.free},
		{Method: "GET", Path: "/setup/connect", Role: web.Viewer,
			Does: "what the first steps have set up, and whether it works", Query: []web.Field{web.Optional("device", "router | phone | windows | mac | linux | browser | tv")}, Gives: "text/html",
			Handler: p.showConnect},
		{Method: "GET", Path: "/setup/first", Role: web.Viewer,
			Does: "the first query and request of each device, as they come", Gives: "text/event-stream",
			Handler: p.stream},
		{Method: "POST", Path: "/setup/end", Role: web.Viewer,
			Does: "end the first steps", Gives: "text/html",
			Effect: ofFirst, Handler: p.end},
		{Method: "GET", Path: "/setup/home", Role: web.Anyone,
			Does: "the way from the first steps to the first page", Gives: "text/html",
			Handler: p.home},
		{Method: "GET", Path: "/setup/link", Role: web.Owner,
			Does: "the link to the first steps", Handler: p.link},
	}
}

// fields are the answers of all steps.
var fields = []web.Field{
	web.Optional("name", "name of the user"), web.Optional("password", "password"),
	web.Optional("who", "home | school | company"), web.Optional("network", "name"), web.Optional("contact", "whom a blocked person may ask"), web.Optional("children", "yes | no"),
	web.Optional("device", "address of the device"), web.Optional("person", "name of the user"), web.Optional("child", "address of the device"),
	web.Optional("topic", "what is filtered; several times"), web.Optional("safesearch", "yes | no"),
	web.Optional("way", "both | proxy | dns"), web.Optional("at", "address"), web.Optional("certificate", "yes: look into encrypted connections"),
	web.Optional("domains", "Only certificates for these domains; empty: for any"), web.Optional("final", "yes | no"),
}

// good returns the first steps, locked, if the token of a request is right. It answers other requests.
func (p *Pages) good(w http.ResponseWriter, r *http.Request, token string) *Setup {
	s := p.Offered()
	if s.Open() {
		guess := p.Site.Guess(w, r)
		if guess == nil {
			return nil
		}
		right := s.lockFor(token)
		guess.End(!right)
		if right && !p.taken(s) {
			return s
		} else if right {
			s.mu.Unlock()
		}
	}
	p.Site.Refuse(w, web.ByToken, http.StatusForbidden, errOver.Error())
	return nil
}

// taken reports whether somebody has made an account elsewhere: then the link is no longer good.
func (p *Pages) taken(s *Setup) bool {
	some, err := p.Site.Accounts.Any()
	return err != nil || some && s.made == ""
}

// A railStep is a step in the list of all.
type railStep struct {
	step
	Number     int
	Here, Done bool
}

func rail(here int) (all []railStep) {
	for i, s := range steps {
		all = append(all, railStep{s, i + 1, i == here, i < here})
	}
	return all
}

// A questions is a page of questions.
type questions struct {
	Step, Token string
	Rail        []railStep
	Topics      []Topic
	Machine     Machine
	Local       bool // the address of the browser allows passkeys
	Kept        bool // there is a password already
	Error       string
	Details     string
	given       url.Values
	wrong       map[string]string
}

// Is reports whether a field has a value.
func (d *questions) Is(field, value string) bool { return slices.Contains(d.given[field], value) }

// Value returns the value of a field.
func (d *questions) Value(field string) string { return d.given.Get(field) }

// Wrong returns the mistake in a field, "" for none.
func (d *questions) Wrong(field string) string { return d.wrong[field] }

// Person returns whose a device is, by its place.
func (d *questions) Person(i int) string {
	if all := d.given["person"]; i < len(all) {
		return all[i]
	}
	return ""
}

// Beside returns who has port 53 of other addresses than that of the network.
func (d *questions) Beside() (all []lan.Holder) {
	for _, h := range d.Machine.Port53 {
		if at, err := netip.ParseAddr(d.given.Get("at")); err == nil && !h.Blocks(at) {
			all = append(all, h)
		}
	}
	return all
}

// Holder returns who keeps the name server from the address of the network, nil for nobody.
func (d *questions) Holder() *lan.Holder {
	for _, h := range d.Machine.Port53 {
		if at, err := netip.ParseAddr(d.given.Get("at")); err == nil && h.Blocks(at) {
			return &h
		}
	}
	return nil
}

func (p *Pages) show(w http.ResponseWriter, r *http.Request, s *Setup, m *Machine, name string, status int, failed error) {
	d := &questions{Step: name, Token: s.Token, Rail: rail(at(name)), Topics: s.Topics, Machine: *m, Local: web.HostOf(r.Host) == "localhost", Kept: s.password != "", given: s.values(name, m)}
	if status != http.StatusOK {
		d.wrong = s.wrong(name, m)
	}
	if failed != nil {
		d.Error, d.Details = text.Mark("This could not be put into use. Nothing is changed."), failed.Error()
	}
	web.WritePage(w, p.page, status, d)
}

func (p *Pages) ask(w http.ResponseWriter, r *http.Request) {
	if s := p.Offered(); s != nil && !s.Open() && web.MenuOf(w) != nil {
		http.Redirect(w, r, "/setup/connect", http.StatusSeeOther)
		return
	}
	s := p.good(w, r, r.URL.Query().Get("token"))
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	name := r.URL.Query().Get("step")
	if i := at(name); i < 0 || i == len(steps)-1 {
		name = steps[0].Name
	}
	m := s.Machine(r.Context())
	p.show(w, r, s, &m, s.first(name, &m), http.StatusOK, nil)
}

// first returns a step, or the first one before it that is not answered. s is locked.
func (s *Setup) first(name string, m *Machine) string {
	for _, x := range steps[:at(name)] {
		if s.given[x.Name] == nil || len(s.wrong(x.Name, m)) > 0 {
			return x.Name
		}
	}
	return name
}

// to leads to a step.
func (s *Setup) to(w http.ResponseWriter, r *http.Request, name string) {
	http.Redirect(w, r, "/setup?"+url.Values{"token": {s.Token}, "step": {name}}.Encode(), http.StatusSeeOther)
}

func (p *Pages) answer(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	s := p.good(w, r, r.PostFormValue("token"))
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	name := r.PathValue("step")
	i := at(name)
	if i < 0 || i == len(steps)-1 {
		http.NotFound(w, r)
		return
	}
	m := s.Machine(r.Context())
	back := r.PostFormValue("go") == "back"
	s.keep(name, maps.Clone(r.PostForm))
	if back {
		s.to(w, r, steps[max(0, i-1)].Name)
		return
	}
	if len(s.wrong(name, &m)) > 0 {
		p.show(w, r, s, &m, name, http.StatusBadRequest, nil)
		return
	}
	if steps[i+1].Name != "connect" {
		s.to(w, r, s.first(steps[i+1].Name, &m))
		return
	}
	if missing := s.first(name, &m); missing != name {
		s.to(w, r, missing)
		return
	}
	secret, err := s.finish(r, p.Site, &m)
	if err != nil {
		p.show(w, r, s, &m, name, http.StatusBadRequest, err)
		return
	}
	web.SetSession(w, r, secret)
	http.Redirect(w, r, "/setup/connect", http.StatusSeeOther)
}

// free moves aside what has port 53, and shows the step of the network again.
func (p *Pages) free(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, web.MaxForm)
	s := p.good(w, r, r.PostFormValue("token"))
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	f := s.keep("network", maps.Clone(r.PostForm))
	m := s.Machine(r.Context())
	at, err := netip.ParseAddr(f.Get("at"))
	if err != nil || !slices.ContainsFunc(m.Addresses, func(a lan.Address) bool { return a.Addr == at }) {
		p.show(w, r, s, &m, "network", http.StatusBadRequest, nil)
		return
	}
	err = s.Free(r.Context(), at)
	m = s.Machine(r.Context())
	switch {
	case errors.Is(err, lan.ErrRight):
		p.show(w, r, s, &m, "network", http.StatusBadRequest, lan.ErrRight)
	case err != nil:
		p.show(w, r, s, &m, "network", http.StatusBadRequest, err)
	default:
		s.to(w, r, "network")
	}
}

func (p *Pages) link(w http.ResponseWriter, r *http.Request) {
	s, links := p.Offered(), []string{}
	some, err := p.Site.Accounts.Any()
	if s.Open() && err == nil && !some {
		for _, host := range s.Hosts {
			links = append(links, s.Link(host))
		}
	}
	pages := "http://" + r.Host + "/"
	if s != nil && s.Places != nil {
		if at := s.Places().Pages; at != "" {
			pages = at
		}
	}
	web.WriteJSON(w, http.StatusOK, map[string]any{"links": links, "pages": strings.TrimSuffix(pages, "/") + "/"})
}
