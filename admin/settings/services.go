package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/check/service"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// A ServiceView is a service of the catalogue, and what a policy makes of it.
type ServiceView struct {
	ID    string   `json:"id"`
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Hosts []string `json:"hosts"`
	State string   `json:"state"`           // open, closed, partly (at times, after minutes, under conditions) or allowed
	From  string   `json:"from,omitempty"`  // the base that closes it
	Daily string   `json:"daily,omitempty"` // what of it is used up in a day by a quota: "30m"
}

// closable reports whether a button may close the service: it is not closed yet, and no rule of its
// own allows it.
func (v *ServiceView) closable() bool { return v.State == "open" || v.State == "partly" }

// kinds are the kinds of services in the order of the page, each with its icon.
var kinds = []struct{ kind, name, icon string }{
	{"video", text.Mark("Video"), "video"},
	{"games", text.Mark("Games"), "game"},
	{"social", text.Mark("Social networks"), "people"},
	{"chat", text.Mark("Chats"), "chat"},
	{"music", text.Mark("Music"), "music"},
	{"ai", text.Mark("Artificial intelligence"), "spark"},
	{"shops", text.Mark("Shops"), "shop"},
	{"dating", text.Mark("Dating"), "heart"},
	{"gambling", text.Mark("Gambling"), "dice"},
	{"adult", text.Mark("Adult"), "adult"},
	{"cloud", text.Mark("Files in the cloud"), "disk"},
	{"ways-around", text.Mark("Ways around the filter"), "tunnel"},
	{"other", text.Mark("Others"), "globe"},
}

// A serviceKind is the services of a kind on the page.
type serviceKind struct {
	Kind, Name, Icon string
	Services         []ServiceView
	Open             bool // some may be closed
}

// serviceRoutes returns the routes about services.
//
//	GET /services         what a policy makes of the services of the catalogue; HTML for
//	                      browsers, else JSON; name=POLICY, the last one by default
//	POST /services        tag=ETAG&policy=I and close=ID, close=kind/KIND or
//	                      open=ID, several times
func (s *Settings) serviceRoutes(site *web.Site) []web.Route {
	page := site.Page("services.html")
	return []web.Route{
		{Method: "GET", Path: "/services", Role: web.Viewer,
			Link: web.LinkIn(web.Lists, text.Mark("Services")),
			Does: "services such as YouTube, and what a policy makes of them", Query: []web.Field{web.Optional("name", "name of a policy; the last one by default")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { s.showServices(w, r, page) }},
		{Method: "POST", Path: "/services", Role: web.Operator,
			Does: "close or open services for a policy; what alters nothing of the last day is saved at once, else a page shows it first", Gives: web.PageOrJSON, Form: []web.Field{web.Required("tag", "ETag of the settings"), web.Required("policy", "its place, from 0"), web.Optional("close", "name of a service; several times"), web.Optional("open", "name of a service; several times"), web.OnTrial},
			Effect:  web.Judged,
			Handler: func(w http.ResponseWriter, r *http.Request) { s.edit(w, r, "/services", s.serviceChange) }},
	}
}

func (s *Settings) showServices(w http.ResponseWriter, r *http.Request, page web.PageTemplate) {
	tag := s.tagFor(r)
	all, err := s.Policies()
	if err == nil && len(all) == 0 {
		all = []PolicyView{{Of: &policy.Policy{}}}
	}
	if err != nil {
		web.Answer(w, []ServiceView(nil), err)
		return
	}
	name := r.URL.Query().Get("name")
	i := len(all) - 1
	if name != "" {
		if i = slices.IndexFunc(all, func(p PolicyView) bool { return p.Name == name }); i < 0 {
			http.Error(w, fmt.Sprintf("there is no policy %q", name), http.StatusBadRequest)
			return
		}
	}
	views := servicesOf(all[i].Of)
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, views)
		return
	}
	d := struct {
		Policies       []PolicyView
		Name           string
		Policy         int
		Kinds          []serviceKind
		Tag            string
		Saved, MayEdit bool
	}{all, all[i].Name, i, nil, tag, r.URL.Query().Has("saved"), tag != ""}
	for _, k := range kinds {
		in := serviceKind{Kind: k.kind, Name: k.name, Icon: k.icon}
		for _, v := range views {
			if v.Kind != k.kind {
				continue
			}
			in.Services = append(in.Services, v)
			in.Open = in.Open || v.closable()
		}
		d.Kinds = append(d.Kinds, in)
	}
	web.WritePage(w, page, http.StatusOK, d)
}

// servicesOf returns what a policy makes of each service.
func servicesOf(p *policy.Policy) (all []ServiceView) {
	for _, s := range service.All() {
		v := ServiceView{ID: s.ID, Name: s.Name, Kind: s.Kind, Hosts: s.Hosts, State: "open"}
		if p == nil {
			all = append(all, v)
			continue
		}
		names := func(in []string) bool {
			return slices.ContainsFunc(in, func(n string) bool { return strings.EqualFold(n, s.ID) })
		}
		for i := range p.Rules {
			r := &p.Rules[i]
			if r.Off || !names(r.Service) || r.Action == "monitor" {
				continue
			}
			if !namesOnly(r) || r.Action != "block" && r.Action != "allow" {
				v.State = "partly"
				continue
			}
			v.State = "allowed"
			if r.Action == "block" {
				v.State, v.From = "closed", r.From
			}
			break
		}
		for _, q := range p.Quotas {
			if v.State == "open" && names(q.Service) && q.Time > 0 {
				v.State, v.Daily = "partly", q.Time.String()
			}
		}
		all = append(all, v)
	}
	return all
}

// namesOnly reports whether services are all that a rule asks for.
func namesOnly(r *policy.Rule) bool {
	rest := *r
	rest.Name, rest.From, rest.Action, rest.Service = "", "", "", nil
	return reflect.ValueOf(rest).IsZero()
}

// serviceChange returns the changes that close or open services.
func (s *Settings) serviceChange(f url.Values) (c []setting.Change, name, why string, err error) {
	all, err := s.Policies()
	if err != nil {
		return nil, "", "", err
	}
	i, err := strconv.Atoi(f.Get("policy"))
	if err != nil || i < 0 || i >= len(all) || all[i].Of == nil {
		return nil, "", "", &web.BadChange{Err: fmt.Errorf("policy=%q: give 0 to %d", f.Get("policy"), len(all)-1)}
	}
	p := all[i]
	views := servicesOf(p.Of)
	f["close"] = wholeKinds(views, f["close"])
	find := func(ids []string, open bool) (names []string, err error) {
		for _, id := range ids {
			n := slices.IndexFunc(views, func(v ServiceView) bool { return v.ID == id })
			switch {
			case n < 0:
				return nil, fmt.Errorf("there is no service %q; docs/services.md has their names", id)
			case open && views[n].From != "":
				return nil, fmt.Errorf("%s is closed by the rules of %s, on which %s builds: open it there, or switch that rule off here", views[n].Name, views[n].From, p.Name)
			}
			names = append(names, views[n].Name)
		}
		return names, nil
	}
	opened, err := find(f["open"], true)
	closed, bad := find(f["close"], false)
	if err = cmp.Or(err, bad); err != nil {
		return nil, "", "", &web.BadChange{Err: err}
	}
	rules := []any{"policies", i, "rules"}
	switch {
	case len(opened) > 0 && len(closed) > 0 || len(opened)+len(closed) == 0:
		return nil, "", "", &web.BadChange{Err: errors.New("give names of services as close=NAME, or as open=NAME")}
	case len(opened) > 0:
		c, why = openServices(rules, &p, f["open"]), fmt.Sprintf("%s: open for %s", strings.Join(opened, ", "), p.Name)
	default:
		c, why = closeServices(rules, &p, f["close"]), fmt.Sprintf("%s: closed for %s", strings.Join(closed, ", "), p.Name)
	}
	if len(c) == 0 {
		return nil, "", "", &web.BadChange{Err: errors.New("they are so already; a rule with further conditions is changed under Rules")}
	}
	return c, p.Name, why, nil
}

// wholeKinds replaces a kind, such as kind/games, by its services that a button may close.
func wholeKinds(views []ServiceView, ids []string) (all []string) {
	for _, id := range ids {
		kind, whole := strings.CutPrefix(id, "kind/")
		if !whole {
			all = append(all, id)
		}
		for _, v := range views {
			if whole && v.Kind == kind && v.closable() {
				all = append(all, v.ID)
			}
		}
	}
	return all
}

// closes reports whether a rule of the policy itself closes services, whatever else holds.
func closes(r *policy.Rule) bool {
	return r.From == "" && r.Action == "block" && len(r.Service) > 0 && namesOnly(r)
}

// closeServices adds services to the rule that closes services, or makes it, before all others.
func closeServices(rules []any, p *PolicyView, ids []string) []setting.Change {
	at := slices.IndexFunc(p.Of.Rules, func(r policy.Rule) bool { return closes(&r) })
	if at < 0 {
		name := "services"
		for slices.ContainsFunc(p.Of.Rules, func(r policy.Rule) bool { return r.Name == name }) {
			name += " of " + cmp.Or(p.Name, "this policy")
		}
		last := append(slices.Clone(rules), p.Own())
		c := []setting.Change{{Path: last, Value: setting.Snippet(fmt.Sprintf("{name: %q, action: block, service: [%s]}", name, strings.Join(ids, ", ")))}}
		if p.Own() > 0 {
			c = append(c, setting.Change{Path: last, Move: true})
		}
		return c
	}
	now := slices.Clone(p.Of.Rules[at].Service)
	for _, id := range ids {
		if !slices.Contains(now, id) {
			now = append(now, id)
		}
	}
	if len(now) == len(p.Of.Rules[at].Service) {
		return nil
	}
	return []setting.Change{{Path: append(slices.Clone(rules), at, "service"), Value: now}}
}

// openServices takes services out of the rules that close services. A rule without any goes.
func openServices(rules []any, p *PolicyView, ids []string) (c []setting.Change) {
	for at := range slices.Backward(p.Of.Rules) {
		r := &p.Of.Rules[at]
		if !closes(r) {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(r.Service), func(id string) bool { return slices.Contains(ids, strings.ToLower(id)) })
		switch path := append(slices.Clone(rules), at); {
		case len(rest) == len(r.Service):
		case len(rest) == 0:
			c = append(c, setting.Change{Path: path, Remove: true})
		default:
			c = append(c, setting.Change{Path: append(path, "service"), Value: rest})
		}
	}
	return c
}
