// Package admin serves the operator's address of the gateway: metrics, health, lists,
// events, pauses, profiles, accounts. The address is loopback by default, and cannot be
// reached through the proxy.
//
// The gateway supplies values that read its state and act on it, one for each subject ([admin.Parts]).
// [admin.New] makes a [web.Site] from them and from the table of subjects (routes in this file), each of
// which returns its routes. A route is one row: path, role, place in the menu, description for the
// API, how it shows the effect of a change, and handler. The guard (route.go) identifies the user
// ([shuultuur/admin/account.Book]), records changes (audit.go) and limits what of the record a user
// sees (access.go). The small build leaves the rows of routes_full.go out.
package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/admin/accounts"
	"shuultuur/admin/alert"
	"shuultuur/admin/clients"
	"shuultuur/admin/events"
	"shuultuur/admin/exception"
	"shuultuur/admin/find"
	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/network"
	"shuultuur/admin/nodes"
	"shuultuur/admin/privacy"
	"shuultuur/admin/search"
	"shuultuur/admin/settings"
	"shuultuur/admin/setup"
	"shuultuur/admin/system"
	"shuultuur/admin/web"
	"shuultuur/admin/why"
	"shuultuur/check"
	"shuultuur/check/picture"
	"shuultuur/event"
	"shuultuur/identity/oidc"
	"shuultuur/intercept"
	"shuultuur/lib/certificate"
	"shuultuur/lib/setting"
	"shuultuur/zone/authority"
)

// Parts are the parts of the gateway that the admin address shows. A part that is nil has no pages.
type Parts struct {
	web.Shared
	Metrics   http.Handler
	Health    func() system.Health
	Lists     *lists.Lists
	Events    *web.Record // nil: no record can be queried, as its pages say
	Cache     *network.Cache
	Pause     *exception.Pause
	Votes     *exception.Votes // nil: there are no votes, or another node counts them
	Sessions  *clients.Sessions
	Live      *home.Live
	Decisions *exception.Decisions
	Explain   why.Explain
	Settings  *settings.Settings
	Setup     func() *setup.Setup
	// Root returns the certificate that clients should trust, nil for none.
	Root func() *intercept.Root
	// Ordered returns how the certificate is that an authority gives the gateway's listeners, the zero
	// value if none is ordered.
	Ordered func() certificate.Status
	// Devices returns the address of the pages for devices; "" for none.
	Devices func() string
	// Refusals are the hosts proposed as exceptions from interception.
	Refusals func() any
	// Quotas returns the remainders of a client's quotas in a policy; "" selects
	// the policy that covers the client.
	Quotas     func(ctx context.Context, policy string, addr netip.Addr, user string) clients.Quotas
	Clients    *clients.Clients
	System     *system.System
	NameServer *network.Names
	Fleet      *nodes.Pages
	Zones      func() *authority.Authority // returns nil while there are no zones
	Checks     func() *check.Set
	Remarks    func() []home.Remark // nil: there are none
	// Alerts returns the desk; nil while no theme is watched.
	Alerts func() *alert.Desk
	// Pictures are the findings in pictures.
	Pictures *picture.Gallery
	Looks    *privacy.Looks // nil: looks need no second person
	// SignIn returns the provider that signs people in, and the roles that it gives; nil: there is
	// none.
	SignIn   func() (*accounts.SignIn, *oidc.Provider)
	Searches *search.Book // saved searches; nil: they cannot be saved
	// Holders returns the stores of data about people outside the admin address.
	Holders func() []privacy.Holder
}

// New returns the handler of the admin address.
func New(p Parts) *web.Site {
	site, all := p.site()
	site.Serve(all)
	return site
}

// site returns the server and its table of routes.
func (p *Parts) site() (*web.Site, []web.Route) {
	shared := p.Shared
	shared.Notice, shared.Agreed = p.Pause.Notice, p.Looks.Agreed
	if p.Clients != nil && p.Clients.Known != nil {
		shared.Members = func() map[string][]string { _, groups := p.Clients.Known(); return groups }
	}
	site := web.NewSite(shared)
	var record *web.Record
	var reader event.Reader // not an interface with a nil pointer
	if p.Events != nil {
		record = &web.Record{Reader: site.Limited(p.Events.Reader), Names: p.Events.Names}
		reader = record
	}
	return site, p.routes(site, record, reader)
}

// routes returns the table of all pages, one row for each subject. The tabs of an item of the menu
// are in its order.
func (p *Parts) routes(site *web.Site, record *web.Record, reader event.Reader) []web.Route {
	var all []web.Route
	start := &home.Start{Health: p.Health, Live: p.Live, Remarks: p.Remarks, Events: record, Index: func(w http.ResponseWriter, r *http.Request) { index(w, all) }}
	row := func(given bool, routes func() []web.Route) {
		if given {
			all = append(all, routes()...)
		}
	}
	accounts := &accounts.Pages{Site: site, Provider: p.SignIn}
	row(true, p.own)
	row(true, func() []web.Route { return start.Routes(site) })
	row(true, func() []web.Route { return home.MoreRoutes(site) })
	row(true, func() []web.Route { return p.finder().Routes(site) })
	row(true, func() []web.Route { return p.events(record).Routes(site) })
	row(true, func() []web.Route { return p.watching(site, record) })
	row(p.Explain != nil, func() []web.Route { return why.Routes(site, p.Explain) })
	row(p.Clients != nil, func() []web.Route { return p.clients(site, record).Routes() })
	row(p.Sessions != nil, func() []web.Route { return p.Sessions.Routes() })
	row(p.Pause != nil, func() []web.Route { return p.pause().Routes(site) })
	row(true, func() []web.Route { return p.voting(site, record) })
	row(p.Looks != nil, func() []web.Route { return p.Looks.Routes(site) })
	row(p.System != nil, func() []web.Route { return p.system().Routes(site) })
	row(p.Fleet != nil, func() []web.Route { return p.Fleet.Routes(site) })
	row(p.Settings != nil, func() []web.Route { p.Settings.Events = reader; return p.Settings.Routes(site) })
	row(p.Decisions != nil, func() []web.Route { return p.Decisions.Routes(site) })
	row(p.Setup != nil, func() []web.Route { return (&setup.Pages{Site: site, Offered: p.Setup}).Routes() })
	row(p.Lists != nil, func() []web.Route {
		return (&lists.Pages{Site: site, Lists: p.Lists, Events: reader, Settings: p.Settings}).Routes()
	})
	row(p.Checks != nil, func() []web.Route { return lists.CheckRoutes(site, p.Checks) })
	row(p.NameServer != nil, func() []web.Route { return p.names().Routes(site) })
	row(p.Zones != nil, func() []web.Route { return p.zones(site, reader) })
	row(p.Root != nil, func() []web.Route { return network.CertificateRoutes(site, p.Root, p.Devices) })
	row(p.Ordered != nil, func() []web.Route { return network.OwnCertificateRoutes(site, p.Ordered) })
	row(p.Cache != nil, func() []web.Route { return p.Cache.Routes(site) })
	row(p.Accounts != nil, accounts.SignInRoutes)
	row(p.Accounts != nil, accounts.AllRoutes)
	row(p.Audit != nil, accounts.AuditRoutes)
	row(record != nil, func() []web.Route {
		return (&privacy.Pages{Site: site, Looks: p.Looks, Events: reader, Holders: p.holders}).Routes()
	})
	var account []web.Route // the last in the menu
	if p.Accounts != nil {
		account = accounts.OwnRoutes()
	}
	all = slices.Concat(all, described(site, slices.Concat(all, account)), account)
	return all
}

// own returns the routes for programs that watch the gateway.
func (p *Parts) own() []web.Route {
	all := []web.Route{
		{Method: "GET", Path: "/static/{digest}/{name}", Role: web.Anyone,
			Does: "style sheet, script and icon of the pages", Gives: web.AnyBytes,
			Handler: web.StaticFile},
		{Method: "GET", Path: "/metrics", Role: web.Monitor,
			Does: "metrics for Prometheus", Gives: web.AnyText,
			Handler: p.Metrics.ServeHTTP},
		{Method: "GET", Path: "/health", Role: web.Monitor,
			Does:    "state and problems",
			Handler: func(w http.ResponseWriter, r *http.Request) { web.WriteJSON(w, http.StatusOK, p.Health()) }},
		{Method: "GET", Path: "/ready", Role: web.Monitor,
			Does:    "200 while the gateway serves, else 503",
			Handler: p.answerReady},
	}
	all = append(all, p.diagnosis()...)
	if p.Refusals != nil {
		all = append(all, web.Route{Method: "GET", Path: "/refusals", Role: web.Operator,
			Does:    "hosts proposed as exceptions from interception",
			Handler: func(w http.ResponseWriter, r *http.Request) { web.WriteJSON(w, http.StatusOK, p.Refusals()) }})
	}
	if p.Quotas != nil {
		all = append(all, web.Route{Method: "GET", Path: "/quotas", Role: web.Helper,
			Does: "what a client has left of its quotas", Query: []web.Field{web.Required("client", "address"), web.Optional("user", "name of the user"), web.Optional("policy", "the one that covers the client without it")},
			Handler: p.quotas})
	}
	return all
}

// events returns the pages of the record, nil for those that say that there is none.
func (p *Parts) events(record *web.Record) *events.Events {
	if p.Events == nil {
		return nil
	}
	e := &events.Events{Record: record, Lists: p.Lists, Explain: p.Explain, CanRule: p.Decisions != nil, Searches: p.Searches, Groups: p.Groups}
	if p.Settings != nil {
		e.Rules = func(policy string) (names []string) {
			all, _ := p.Settings.RulesOf(policy).([]settings.RuleView) // nil: it has none
			for _, r := range all {
				if !r.Off {
					names = append(names, r.Name)
				}
			}
			return names
		}
	}
	return e
}

func (p *Parts) clients(site *web.Site, record *web.Record) *clients.Pages {
	c := &clients.Pages{Clients: p.Clients, Site: site, Events: record, RulesOf: p.Settings.RulesOf}
	if p.Settings != nil {
		c.Change, c.Renaming = p.Settings.Change, p.Settings.Rename
	}
	if p.Pause != nil {
		c.MayServe, c.Pauses = p.pause().May, p.Pause.All
	}
	if p.Decisions != nil {
		c.Decisions = p.Decisions.All
	}
	return c
}

// finder returns what the field at the top of the menu can find.
func (p *Parts) finder() *find.Finder {
	f := &find.Finder{}
	if p.Clients != nil {
		f.Known = p.Clients.Known
	}
	if p.Lists != nil {
		f.Lists = func() (names []string) {
			for _, l := range p.Lists.All() {
				names = append(names, l.Name)
			}
			return names
		}
	}
	return f
}

func (p *Parts) pause() *exception.Pause {
	x := *p.Pause
	x.Groups = p.Groups
	return &x
}

func (p *Parts) names() *network.Names {
	x := *p.NameServer
	x.Explain = p.Explain
	return &x
}

func (p *Parts) system() *system.System {
	x := *p.System
	x.Health = p.Health
	return &x
}

// holders returns everything that stores data about people, but for what the pages of privacy have.
func (p *Parts) holders() []privacy.Holder {
	all := p.Holders()
	if s := p.Searches; s != nil {
		all = append(all, privacy.Holder{Name: "saved searches", Erase: func(_ context.Context, who event.Person, dry bool) (int64, error) { return s.Erase(who, dry) }})
	}
	if p.Settings != nil {
		all = append(all, privacy.Holder{Name: "versions of the settings", Erase: p.Settings.Erase})
	}
	return all
}

// index lists the paths that can be requested.
func index(w http.ResponseWriter, all []web.Route) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := "Shuultuur\n\n"
	for _, r := range all {
		if r.Method == "GET" && !strings.Contains(r.Path, "{") && (r.Path == "/debug/pprof" || !strings.HasPrefix(r.Path, "/debug")) {
			text += r.Path + "\n"
		}
	}
	_, _ = io.WriteString(w, text)
}

func (p *Parts) answerReady(w http.ResponseWriter, r *http.Request) {
	h, status := p.Health(), http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	web.WriteJSON(w, status, h)
}

func (p *Parts) quotas(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	addr, err := setting.Client(q.Get("client"))
	if err != nil {
		http.Error(w, fmt.Sprintf("client=%q is not an address; whose quotas?", q.Get("client")), http.StatusBadRequest)
		return
	}
	web.WriteJSON(w, http.StatusOK, p.Quotas(r.Context(), q.Get("policy"), addr, q.Get("user")))
}
