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
	"time"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
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
	Share   float64 `json:"-"` // blocked, in percent
}

// clientsData is the page, and its form for programs.
type clientsData struct {
	New    []clientRow    `json:"new"` // devices on record that have no name
	People []clientRow    `json:"people"`
	Groups []clientRow    `json:"groups"`
	Bonus  []policy.Bonus `json:"bonus"`

	Names       []string `json:"-"` // of groups
	Query       string   `json:"-"` // the text that is searched for
	Cut         bool     `json:"-"` // there are more people than the page shows
	Saved       bool     `json:"-"`
	MayEdit     bool     `json:"-"`
	Done, Error string   `json:"-"`
}

const (
	maxClients = 200
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
	// Change changes the settings and redirects to a page; nil: they cannot be changed. It asks what to
	// change when it has read them, and returns the error of that.
	Change func(w http.ResponseWriter, r *http.Request, then string, what func() (reason string, changes []setting.Change, err error)) error
	// RulesOf returns the rules of a policy as they are shown.
	RulesOf func(policy string) any

	all, each web.PageTemplate
}

// Routes returns the routes of clients.
//
//	GET /clients           people, groups, and devices that nobody has named
//	GET /clients/one       who=NAME: what one may do, and has used
//	POST /clients          what=name&address=A&name=N[&group=G], what=join or
//	                       what=leave&name=N&group=G, what=forget&name=N
//	POST /bonus            who=WHO&minutes=N: more time for today; 0 ends it
func (c *Pages) Routes() []web.Route {
	c.Site.TaskSources = append(c.Site.TaskSources, web.TaskSource{Page: "/clients", Tasks: c.tasks, Slow: true})
	c.all, c.each = c.Site.Page("clients.html"), c.Site.Page("client.html")
	all := []web.Route{
		{Method: "GET", Path: "/clients", Role: web.Helper,
			Link: web.LinkIn(web.People, text.Mark("People")),
			Does: "people, groups, and devices without a name", Query: []web.Field{web.Optional("q", "name, address or group")}, Gives: web.PageOrJSON,
			Handler: func(w http.ResponseWriter, r *http.Request) { c.show(w, r, "", nil) }},
		{Method: "GET", Path: "/clients/one", Role: web.Helper,
			Does: "what one client, user or group may do and has used", Query: []web.Field{web.Required("who", "address, user or group")}, Gives: web.PageOrJSON,
			Handler: c.one},
		{Method: "POST", Path: "/bonus", Role: web.Helper,
			Does: "give somebody more time than quotas say, for the rest of the day; helpers for their own groups", Form: []web.Field{web.Required("who", "address, user or group"), web.Required("minutes", "1 to 240; 0 takes back what was given"), web.OnTrial}, Gives: web.PageOrJSON,
			Effect:  web.Judged,
			Handler: c.bonus},
	}
	if c.Change != nil {
		all = append(all, web.Route{Method: "POST", Path: "/clients", Role: web.Operator,
			Does: "name a device, or change who is in a group", Gives: web.PageOrJSON, Form: []web.Field{web.Required("what", "name | join | leave | forget"), web.Optional("address", "address of the device"), web.Optional("name", "name of the user"), web.Optional("group", "name of the group"), web.OnTrial},
			Effect:  web.Judged,
			Handler: c.edit})
	}
	return all
}

func (c *Pages) show(w http.ResponseWriter, r *http.Request, done string, failed error) {
	d, err := c.data(r.Context(), web.UserOf(r))
	status := http.StatusOK
	d.Saved, d.Done, d.MayEdit = r.URL.Query().Has("saved"), done, web.UserOf(r).Role >= account.Operator && c.Change != nil
	if web.IsPage(r) {
		d.find(r.URL.Query().Get("q"))
	}
	if err = cmp.Or(failed, err); err != nil {
		d.Error, status = err.Error(), web.StatusOf(err)
	}
	web.Respond(w, r, c.all, status, d, d, d.Error)
}

// maxPeople is how many people and groups the page shows at once.
const maxPeople = 100

// find keeps the rows that a search matches: those with a name, an address or a group that
// contains q.
func (d *clientsData) find(q string) {
	d.Query = strings.TrimSpace(q)
	q = strings.ToLower(d.Query)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), q) }
	for _, rows := range []*[]clientRow{&d.New, &d.People, &d.Groups} {
		*rows = slices.DeleteFunc(*rows, func(r clientRow) bool {
			return !has(r.Name) && !has(r.Called) && !slices.ContainsFunc(r.Addresses, has) && !slices.ContainsFunc(r.Groups, has) && !slices.ContainsFunc(r.Members, has)
		})
		if len(*rows) > maxPeople {
			*rows, d.Cut = (*rows)[:maxPeople], true
		}
	}
}

// owns reports whether the user looks after a client: helpers only after those in
// their groups.
func owns(who *account.Who, groups []string) bool {
	return who.Role != account.Helper || web.Shares(groups, who.Groups)
}

func (c *Pages) data(ctx context.Context, who *account.Who) (*clientsData, error) {
	users, groups := c.Known()
	d := &clientsData{New: []clientRow{}, People: []clientRow{}, Groups: []clientRow{}, Bonus: []policy.Bonus{}, Names: slices.Sorted(maps.Keys(groups))}
	for _, b := range c.Bonuses() {
		if who.Role != account.Helper || slices.Contains(who.Groups, b.Who) || web.Shares(c.About(ctx, netip.Addr{}, b.Who, "").Groups, who.Groups) {
			d.Bonus = append(d.Bonus, b)
		}
	}
	byUser, byAddr, err := c.clientsOnRecord(ctx)
	for name, row := range byUser {
		row.Addresses = users[name]
	}
	for name, addresses := range users {
		if byUser[name] == nil {
			byUser[name] = &clientRow{Name: name, Addresses: addresses}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byUser)) {
		row := byUser[name]
		row.ClientState = c.About(ctx, netip.Addr{}, name, "")
		if owns(who, row.Groups) {
			d.People = append(d.People, *row)
		}
	}
	for _, name := range d.Names {
		row := clientRow{Name: name, Members: groups[name], ClientState: c.About(ctx, netip.Addr{}, "", name)}
		for _, p := range d.People {
			if slices.Contains(p.Groups, name) {
				row.Events, row.Blocked = row.Events+p.Events, row.Blocked+p.Blocked
			}
		}
		if owns(who, []string{name}) {
			d.Groups = append(d.Groups, row)
		}
	}
	for _, row := range byAddr {
		addr, err := netip.ParseAddr(row.Name)
		if err != nil {
			continue
		}
		row.ClientState = c.About(ctx, addr, "", "")
		if row.User == "" && owns(who, row.Groups) {
			d.New = append(d.New, *row)
		}
	}
	for _, rows := range [][]clientRow{d.New, d.People, d.Groups} {
		for i := range rows {
			if rows[i].Events > 0 {
				rows[i].Share = 100 * float64(rows[i].Blocked) / float64(rows[i].Events)
			}
		}
	}
	return d, err
}

// clientsOnRecord returns the users, and the addresses without a user, in the record since
// a day.
func (c *Pages) clientsOnRecord(ctx context.Context) (users map[string]*clientRow, addrs []*clientRow, err error) {
	users = map[string]*clientRow{}
	if c.Events == nil {
		return users, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	f := event.Filter{Since: time.Now().Add(-24 * time.Hour)}
	nobody := event.Filter{Since: f.Since}
	if err := nobody.And(event.User, false, ""); err != nil {
		return users, nil, err
	}
	tallies, err := c.Events.Count(ctx, event.Question{Filter: f, By: event.User, Top: maxClients}, event.Question{Filter: nobody, By: event.Client, Top: maxClients})
	if err != nil {
		return users, nil, web.TooLong(ctx, err)
	}
	for _, t := range tallies[0] {
		if t.Name != "" {
			users[t.Name] = &clientRow{Name: t.Name, Events: t.Events, Blocked: t.Blocked}
		}
	}
	c.Events.Call(ctx, tallies[1])
	for _, t := range tallies[1] {
		addrs = append(addrs, &clientRow{Name: t.Name, Called: t.Called, Events: t.Events, Blocked: t.Blocked})
	}
	return users, addrs, nil
}

// tasks returns the devices that nobody has named, as one.
func (c *Pages) tasks(ctx context.Context, who *account.Who, t *text.Texts) []web.Task {
	d, err := c.data(ctx, who)
	if err != nil || len(d.New) == 0 {
		return nil // the page of people says why not
	}
	var names []string
	for _, row := range d.New[:min(3, len(d.New))] {
		names = append(names, cmp.Or(row.Called, row.Name))
	}
	if len(d.New) > len(names) {
		names = append(names, "…")
	}
	return []web.Task{{Icon: "phone", Verdict: "count", Title: t.Say("New devices: {n}", "n", strconv.Itoa(len(d.New))), More: strings.Join(names, ", "), To: "/clients#new", Do: t.Say("Whose are they?"), N: len(d.New)}}
}

// edit names a device, or changes the members of a group.
func (c *Pages) edit(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := c.Change(w, r, "/clients", func() (string, []setting.Change, error) { return c.changes(r.PostForm) }); err != nil {
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
		return "", nil, fmt.Errorf("what=%q is neither name, join, leave nor forget", f.Get("what"))
	}
	if len(all) == 0 {
		return "", nil, errors.New("give a name, a group, or both")
	}
	return reason, all, nil
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
		if shown, err = c.Site.ShowEffect(w, r, web.PendingChange{What: done, Back: "/clients", Trial: web.Trial{Bonus: &policy.Bonus{Who: who, Minutes: minutes}}}); shown {
			return
		}
		if err == nil {
			err = c.Give(who, minutes, web.Remote(r))
		}
	}
	c.show(w, r, done, err)
}

// oneClient is the page of one client.
type oneClient struct {
	clientRow
	Kind    string     `json:"kind"` // user, group or device
	Bonus   int64      `json:"bonus"`
	Rules   any        `json:"rules,omitempty"`
	Hosts   []web.Bar  `json:"-"`
	Refused []web.Bar  `json:"-"`
	Spent   []quotaUse `json:"-"`

	Others  []string `json:"-"` // groups it is not in
	Filter  string   `json:"-"`
	MayEdit bool     `json:"-"`
	Error   string   `json:"-"`
}

// A quotaUse is a quota with its use, shown as a bar.
type quotaUse struct {
	filter.Balance
	Width float64 // in percent
}

func (c *Pages) one(w http.ResponseWriter, r *http.Request) {
	who := strings.TrimSpace(r.URL.Query().Get("who"))
	d, err := c.oneOf(r.Context(), web.UserOf(r), who)
	if err != nil {
		http.Error(w, err.Error(), web.StatusOf(err))
		return
	}
	d.MayEdit = web.UserOf(r).Role >= account.Operator && c.Change != nil
	if !web.IsPage(r) {
		web.WriteJSON(w, http.StatusOK, d)
		return
	}
	web.WritePage(w, c.each, http.StatusOK, d)
}

func (c *Pages) oneOf(ctx context.Context, asks *account.Who, who string) (*oneClient, error) {
	users, groups := c.Known()
	d := &oneClient{clientRow: clientRow{Name: who}, Kind: "user"}
	addr, err := setting.Client(who)
	members, isGroup := groups[who]
	field := event.User
	switch {
	case who == "":
		return nil, &web.BadChange{Err: errors.New("who=NAME is missing: an address, a user or a group")}
	case err == nil:
		d.Kind, d.ClientState, field = "device", c.About(ctx, addr, "", ""), event.Client
	case isGroup:
		d.Kind, d.Members, d.ClientState = "group", members, c.About(ctx, netip.Addr{}, "", who)
		d.Groups = []string{who}
	default:
		d.Addresses, d.ClientState = users[who], c.About(ctx, netip.Addr{}, who, "")
	}
	if !owns(asks, d.Groups) {
		return nil, &web.NotOwn{Err: fmt.Errorf("%s looks after %s; %q is for others", asks.Name, strings.Join(asks.Groups, ", "), who)}
	}
	for _, b := range c.Bonuses() {
		if b.Who == who {
			d.Bonus += b.Minutes
		}
	}
	for _, q := range d.Balances {
		s := quotaUse{Balance: q}
		if q.Most > 0 {
			s.Width = min(100, 100*float64(q.Used)/float64(q.Most))
		}
		d.Spent = append(d.Spent, s)
	}
	if c.RulesOf != nil {
		d.Rules = c.RulesOf(d.Policy)
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if !slices.Contains(d.Groups, g) && g != who {
			d.Others = append(d.Others, g)
		}
	}
	if d.Kind == "group" {
		return d, nil
	}
	d.Filter = field.String() + ":" + strconv.Quote(who)
	if field == event.Client {
		d.Filter = "client:" + who
	}
	if err := c.fillUse(ctx, d, field, who); err != nil {
		d.Error = err.Error()
	}
	return d, nil
}

// fillUse fills in the use of somebody's quotas since a day.
func (c *Pages) fillUse(ctx context.Context, d *oneClient, field event.Field, who string) error {
	if c.Events == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	f := event.Filter{Since: time.Now().Add(-24 * time.Hour)}
	if err := f.And(field, false, who); err != nil {
		return err
	}
	blocked := event.Filter{Since: f.Since, Terms: slices.Clone(f.Terms)}
	if err := blocked.And(event.Action, false, filter.Block.String()); err != nil {
		return err
	}
	tallies, err := c.Events.Count(ctx, event.Question{Filter: f}, event.Question{Filter: f, By: event.Host, Top: topHosts}, event.Question{Filter: blocked, By: event.Host, Top: topHosts})
	if err != nil {
		return web.TooLong(ctx, err)
	}
	if len(tallies[0]) > 0 {
		d.Events, d.Blocked = tallies[0][0].Events, tallies[0][0].Blocked
	}
	rows := func(all []event.Tally) (out []web.Bar) {
		for _, t := range all {
			out = append(out, web.Bar{Name: t.Name, Filter: d.Filter + " host:" + t.Name, N: t.Events, Width: 100 * float64(t.Events) / float64(max(all[0].Events, 1))})
		}
		return out
	}
	d.Hosts, d.Refused = rows(tallies[1]), rows(tallies[2])
	return nil
}
