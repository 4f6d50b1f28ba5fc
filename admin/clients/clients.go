// Package clients has the pages of people, devices and groups: who they are by the settings and on
// record, what they may do and have used, more time for today, and sessions, by which programs say
// who is at an address. A change of a name or a group becomes a change of the settings.
package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shuultuur/admin/web"
	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

// Clients provides the admin address with data about filtered clients.
type Clients struct {
	// Known returns the users with their addresses, and the groups with their members, in the
	// settings.
	Known func() (users, groups map[string][]string)
	// About describes the client at an address, a user, or a whole group.
	About func(ctx context.Context, addr netip.Addr, user, group string) ClientState
	// Bonuses returns the minutes beyond quotas that are in force.
	Bonuses func() []policy.Bonus
	// Give gives minutes beyond quotas for the rest of the day; 0 withdraws them.
	Give func(who string, minutes int64, by netip.Addr) error
}

// ClientState is the present state of a client.
type ClientState struct {
	User     string           `json:"user,omitempty"`
	Groups   []string         `json:"groups,omitempty"`
	Policy   string           `json:"policy,omitempty"` // "" if no policy covers it
	Balances []filter.Balance `json:"quotas,omitempty"`
}

// A clientRow is a person, a device or a group on the page.
type clientRow struct {
	Name      string   `json:"name"`             // name of a user or group; of a device without a name its address
	Called    string   `json:"called,omitempty"` // by itself
	Addresses []string `json:"addresses,omitempty"`
	Members   []string `json:"members,omitempty"` // of a group
	ClientState
	Events  int     `json:"events"` // of the last day
	Blocked int     `json:"blocked"`
	Here    bool    `json:"here"` // it asked for something in the last minutes
	Share   float64 `json:"-"`    // blocked, in percent

	rowView
}

// clientsData is the page, and its form for programs.
type clientsData struct {
	New    []clientRow    `json:"new"` // devices on record that have no name
	People []clientRow    `json:"people"`
	Groups []clientRow    `json:"groups"`
	Bonus  []policy.Bonus `json:"bonus"`

	names []string // of groups
}

const (
	maxClients = 10_000 // that are counted
	maxNew     = 200    // devices without a name
	topHosts   = 8
	maxBonus   = 240 // minutes of one bonus
)

// Pages are the pages and their dependencies.
type Pages struct {
	*Clients
	Site   *web.Site
	Events *web.Record // nil: no record can be asked
	// MayServe reports whether somebody may give time to a client; nil: nobody may.
	MayServe func(r *http.Request, who string) bool
	// Pauses returns the pauses in force, and Decisions the sites opened and blocked by hand. Nil: there
	// are none.
	Pauses    func() []policy.Pause
	Decisions func() []policy.Decision
	// Renaming returns the changes that give a person, or a group, another name wherever the settings name
	// it.
	Renaming func(name, to string, group bool) ([]setting.Change, error)
	// Change changes the settings and redirects to a page; nil: they cannot be changed. It asks what to
	// change when it has read them, and returns the error of that.
	Change func(w http.ResponseWriter, r *http.Request, then string, what func() (reason string, changes []setting.Change, err error)) error
	// RulesOf returns the rules of a policy as they are shown.
	RulesOf func(policy string) any

	all, each web.PageTemplate
}

// Routes returns the routes of clients.
//
//	GET /clients           people, groups, and devices that nobody has named;
//	                       q=TEXT and group=GROUP show some, page=N others,
//	                       new=all all new devices
//	GET /clients/one       who=NAME: what one may do, and has used
//	POST /clients          what=name&address=A&name=N[&group=G], what=join or
//	                       what=leave&name=N&group=G, what=move&name=N
//	                       [&from=G][&group=G], what=rename&name=N&to=N,
//	                       what=forget&name=N
//	POST /bonus            who=WHO&minutes=N: more time for today; 0 ends it
func (c *Pages) Routes() []web.Route {
	c.Site.TaskSources = append(c.Site.TaskSources, web.TaskSource{Page: "/clients", Tasks: c.tasks, Slow: true})
	c.all, c.each = c.Site.Page("clients.html"), c.Site.Page("client.html")
	all := []web.Route{
		{Method: "GET", Path: "/clients", Role: web.Helper,
			Link: web.LinkIn(web.People, text.Mark("People")),
			Does: "people, groups, and devices without a name", Query: []web.Field{web.Optional("q", "name, address or group"), web.Optional("group", "only the people of this group"), web.Optional("page", "which page of the people: 1 and more"), web.Optional("new", "all: every device without a name")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { c.show(w, r, "", nil) }},
		{Method: "GET", Path: "/clients/one", Role: web.Helper,
			Does: "what one client, user or group may do and has used", Query: []web.Field{web.Required("who", "address, user or group")}, Gives: web.PageOrJSON,
			Handler: c.one},
		{Method: "POST", Path: "/bonus", Role: web.Helper,
			Does: "give somebody more time than quotas say, for the rest of the day; helpers for their own groups", Form: []web.Field{web.Required("who", "address, user or group"), web.Required("minutes", "1 to 240; 0 takes back what was given"), web.Back, web.OnTrial}, Gives: web.PageOrJSON,
			Effect:  web.Judged,
			Handler: c.bonus},
	}
	if c.Change != nil {
		all = append(all, web.Route{Method: "POST", Path: "/clients", Role: web.Operator,
			Does: "name a device, or change who is in a group", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "name | join | leave | move | rename | forget"), web.Optional("address", "address of the device"), web.Optional("name", "name of the user"), web.Optional("group", "name of the group"), web.Optional("from", "group to leave, of move"), web.Optional("to", "new name, of rename"), web.Back, web.OnTrial},
			Effect:  web.Judged,
			Handler: c.edit})
	}
	return all
}

// edit names a device, or changes the members of a group.
func (c *Pages) edit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := c.Change(w, r, web.BackTo(r, "/clients"), func() (string, []setting.Change, error) { return c.changes(r.PostForm) }); err != nil {
		c.show(w, r, "", &web.BadChange{Err: err})
	}
}

func (c *Pages) changes(f url.Values) (reason string, all []setting.Change, err error) {
	users, groups := c.Known()
	name, group, address := strings.TrimSpace(f.Get("name")), strings.TrimSpace(f.Get("group")), strings.TrimSpace(f.Get("address"))
	join := func(member string) {
		switch members, known := groups[group]; {
		case group == "" || slices.Contains(members, member):
		case known:
			all = append(all, setting.Change{Path: []any{"identity", "groups", group, len(members)}, Value: member})
		default:
			all = append(all, setting.Change{Path: []any{"identity", "groups", group}, Value: []string{member}})
		}
	}
	switch f.Get("what") {
	case "name":
		if _, err := netip.ParseAddr(address); err != nil {
			return "", nil, fmt.Errorf("address=%q is not an address", address)
		}
		if name == "" { // a group alone
			join(address)
			reason = fmt.Sprintf("%s is in %s", address, group)
			break
		}
		if has, known := users[name]; known {
			all = append(all, setting.Change{Path: []any{"identity", "addresses", name, len(has)}, Value: address})
		} else {
			all = append(all, setting.Change{Path: []any{"identity", "addresses", name}, Value: []string{address}})
		}
		join(name)
		reason = fmt.Sprintf("%s is %s", address, name)
	case "join":
		join(cmp.Or(name, address))
		reason = fmt.Sprintf("%s is in %s", cmp.Or(name, address), group)
	case "leave":
		i := slices.Index(groups[group], name)
		if i < 0 {
			return "", nil, fmt.Errorf("%q does not stand in group %q of the settings", name, group)
		}
		all = append(all, setting.Change{Path: []any{"identity", "groups", group, i}, Remove: true})
		reason = fmt.Sprintf("%s is no longer in %s", name, group)
	case "move":
		i := slices.Index(groups[f.Get("from")], name)
		if name == "" || group == f.Get("from") {
			return "", nil, errors.New("choose another group")
		}
		if f.Get("from") != "" && i < 0 {
			return "", nil, fmt.Errorf("%q does not stand in group %q of the settings", name, f.Get("from"))
		}
		join(name)
		if i >= 0 {
			all = append(all, setting.Change{Path: []any{"identity", "groups", f.Get("from"), i}, Remove: true})
		}
		reason = fmt.Sprintf("%s is in %s", name, cmp.Or(group, "no group"))
	case "rename":
		return c.rename(name, strings.TrimSpace(f.Get("to")))
	case "forget":
		if users[name] == nil {
			return "", nil, fmt.Errorf("the settings give %q no address", name)
		}
		all = append(all, setting.Change{Path: []any{"identity", "addresses", name}, Remove: true})
		for _, g := range slices.Sorted(maps.Keys(groups)) {
			if i := slices.Index(groups[g], name); i >= 0 {
				all = append(all, setting.Change{Path: []any{"identity", "groups", g, i}, Remove: true})
			}
		}
		reason = name + " is forgotten"
	default:
		return "", nil, fmt.Errorf("what=%q is none of name, join, leave, move, rename and forget", f.Get("what"))
	}
	if len(all) == 0 {
		return "", nil, errors.New("give a name, a group, or both")
	}
	return reason, all, nil
}

// rename returns the changes that give a person another name, with their devices, in groups and in rules, or
// a group.
func (c *Pages) rename(name, to string) (reason string, all []setting.Change, err error) {
	users, groups := c.Known()
	_, group := groups[name]
	switch {
	case !group && users[name] == nil:
		return "", nil, fmt.Errorf("the settings give %q no address", name)
	case to == "" || to == name:
		return "", nil, errors.New("write the new name")
	case group && users[name] != nil:
		return "", nil, fmt.Errorf("rules name %s, too: %s; write the new name there first", name, "identity.groups."+name) // they do not say which they mean
	case isTaken(users, to, name) || isTaken(groups, to, name):
		return "", nil, fmt.Errorf("the name %q is taken", to)
	}
	all, err = c.Renaming(name, to, group)
	return fmt.Sprintf("%s is called %s", name, to), all, err
}

// isTaken reports whether another one than name has a name, in any case of letters.
func isTaken(all map[string][]string, name, but string) bool {
	for n := range all {
		if n != but && strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// bonus gives more time.
func (c *Pages) bonus(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	who := strings.TrimSpace(r.PostForm.Get("who"))
	minutes, err := strconv.ParseInt(r.PostForm.Get("minutes"), 10, 64)
	done := ""
	switch {
	case err != nil || minutes < 0 || minutes > maxBonus:
		err = &web.BadChange{Err: fmt.Errorf("minutes=%q: give 1 to %d, or 0 to take back what was given", r.PostForm.Get("minutes"), maxBonus)}
	case who == "":
		err = &web.BadChange{Err: errors.New("who gets more time? Name a client, a user or a group")}
	case c.MayServe == nil || !c.MayServe(r, who):
		err = &web.NotOwn{Err: fmt.Errorf("%s looks after %s; the time of %q is for others to give", web.UserOf(r).Name, strings.Join(web.UserOf(r).Groups, ", "), who)}
	default:
		done = web.TextsOf(w).Say("{who} has {n} more minutes today.", "who", who, "n", strconv.FormatInt(minutes, 10))
		if minutes == 0 {
			done = web.TextsOf(w).Say("The quotas apply to {who} again.", "who", who)
		}
		var shown bool
		if shown, err = c.Site.ShowEffect(w, r, web.PendingChange{What: done, Back: web.BackTo(r, "/clients"), Trial: web.Trial{Bonus: &policy.Bonus{Who: who, Minutes: minutes}}}); shown {
			return
		}
		if err == nil {
			err = c.Give(who, minutes, web.Remote(r))
		}
		if err == nil && web.GoBack(w, r) {
			return
		}
	}
	c.show(w, r, done, err)
}
