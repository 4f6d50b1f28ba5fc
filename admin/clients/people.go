package clients

import (
	"cmp"
	"context"
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
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/text"
)

const (
	// mostCards is up to how many people the page shows each as a card, below their group. More are
	// rows, and the groups come first.
	mostCards = 30
	// mostRows is how many people and devices the page shows at once.
	mostRows = 25
	// mostNew is how many new devices the page shows unless somebody asks for all.
	mostNew = 6
	// hereWithin is how long ago somebody who is here has asked for something.
	hereWithin = 10 * time.Minute
)

// A rowView is what only the page shows of a row.
type rowView struct {
	Devices []device    `json:"-"`
	Kind    deviceKind  `json:"-"` // of a device
	Owner   string      `json:"-"` // who a new device may belong to
	Most    *minuteUse  `json:"-"` // the quota of minutes with the least left
	Paused  time.Time   `json:"-"` // until when; zero: it is not
	Closed  time.Time   `json:"-"` // until when the web is closed
	Shut    bool        `json:"-"` // the web is closed
	Extra   int64       `json:"-"` // more minutes for today
	Count   int         `json:"-"` // people of a group
	Online  int         `json:"-"` // of them, here
	May     bool        `json:"-"` // who asks may pause and give time
	Leaves  []string    `json:"-"` // groups of the settings that name it
	Page    *peopleView `json:"-"` // that it is on
}

// A device is an address of somebody.
type device struct {
	Addr, Name string
	Kind       deviceKind
	Here       bool
}

// A minuteUse is a use of minutes, for the ring around a face.
type minuteUse struct {
	Percent int64
	Text    string
}

// A section is a group with its people.
type section struct {
	Group *clientRow // nil: people without a group
	Rows  []clientRow
}

// peopleView is the page.
type peopleView struct {
	*clientsData
	Sections []section // of a house; nil: there are too many people for cards
	Rows     []clientRow
	Names    []string // of groups
	Persons  []string // names of people
	Query    string   // the text that is searched for
	Group    string   // the group whose people are shown
	All      int      // people
	Online   int
	Machines int // devices with an address
	Unnamed  int // new devices
	MoreNew  string
	Again    string
	Older    string // the next page, "" for none
	Newer    string
	Saved    bool
	MayEdit  bool
	MayRule  bool
	Few      bool // groups: what one does for each is beside it, else on the page of the group alone
	Done     string
	Error    string
}

func (c *Pages) show(w http.ResponseWriter, r *http.Request, done string, failed error) {
	d, err := c.data(r.Context(), web.UserOf(r))
	if !web.IsPage(r) {
		for _, rows := range [][]clientRow{d.People, d.Groups} {
			for i := range rows {
				c.describe(r.Context(), &rows[i])
			}
		}
	}
	status := http.StatusOK
	v := &peopleView{clientsData: d, Done: done, Names: d.names, Saved: r.URL.Query().Has("saved"), All: len(d.People), Unnamed: len(d.New)}
	v.MayEdit = web.UserOf(r).Role >= account.Operator && c.Change != nil
	v.MayRule = web.UserOf(r).Role >= account.Operator && c.Decisions != nil
	if web.IsPage(r) {
		c.arrange(r, v)
	}
	if err = cmp.Or(failed, err); err != nil {
		v.Error, status = err.Error(), web.StatusOf(err)
	}
	web.Respond(w, r, c.all, status, v, d, v.Error)
}

// describe adds what one may do, and has left. A group's is that of its members without more.
func (c *Pages) describe(ctx context.Context, row *clientRow) {
	if row.Members != nil {
		row.ClientState = c.About(ctx, netip.Addr{}, "", row.Name)
		return
	}
	row.ClientState = c.About(ctx, netip.Addr{}, row.Name, "")
}

// arrange chooses what the page shows, and adds the rest to that alone: a school has thousands of
// people, and a page some.
func (c *Pages) arrange(r *http.Request, v *peopleView) {
	q := r.URL.Query()
	v.Query, v.Group = strings.TrimSpace(q.Get("q")), q.Get("group")
	for i := range v.People {
		p := &v.People[i]
		v.Persons, v.Machines = append(v.Persons, p.Name), v.Machines+len(p.Addresses)
		if p.Here {
			v.Online++
		}
		for k := range v.Groups {
			if slices.Contains(p.Groups, v.Groups[k].Name) {
				v.Groups[k].Count++
				if p.Here {
					v.Groups[k].Online++
				}
			}
		}
	}
	v.find()
	page := 1
	if n, err := strconv.Atoi(q.Get("page")); err == nil {
		page = max(1, n)
	}
	to := func(page int) string {
		return "/clients?" + url.Values{"q": {v.Query}, "group": {v.Group}, "page": {strconv.Itoa(page)}}.Encode()
	}
	cards := v.All <= mostCards
	v.Again = "/clients"
	if v.Query != "" || v.Group != "" || page > 1 {
		v.Again = to(page)
	}
	shown := v.People
	if !cards {
		first := min((page-1)*mostRows, len(shown))
		if page > 1 {
			v.Newer = to(page - 1)
		}
		if len(shown) > first+mostRows {
			v.Older = to(page + 1)
		}
		shown = shown[first:min(first+mostRows, len(shown))]
	}
	v.Few = len(v.Groups) <= mostCards
	few := mostNew
	if q.Get("new") == "all" {
		few = maxNew
	}
	if len(v.New) > few {
		v.New, v.MoreNew = v.New[:few], "/clients?new=all#new"
	}
	ctx := r.Context()
	for _, rows := range [][]clientRow{shown, v.Groups} {
		for i := range rows {
			c.describe(ctx, &rows[i])
		}
	}
	c.nameDevices(ctx, shown, v.New)
	for i := range v.New {
		v.New[i].Owner = ownerOf(v.New[i].Called, v.Persons)
	}
	_, groups := c.Known()
	for _, rows := range [][]clientRow{shown, v.Groups, v.New} {
		c.addState(r, rows)
		for i := range rows {
			row := &rows[i]
			row.Page = v
			for _, g := range v.Names {
				if slices.Contains(groups[g], row.Name) {
					row.Leaves = append(row.Leaves, g)
				}
			}
		}
	}
	if !cards {
		v.Rows = shown
		return
	}
	v.Sections = sections(v.Groups, shown, v.Query != "")
}

// sections puts people below the first of their groups, in the order of the settings' groups.
func sections(groups, people []clientRow, few bool) (all []section) {
	placed := map[string]bool{}
	for i := range groups {
		s := section{Group: &groups[i]}
		for _, p := range people {
			if !placed[p.Name] && slices.Contains(p.Groups, groups[i].Name) {
				placed[p.Name] = true
				s.Rows = append(s.Rows, p)
			}
		}
		if len(s.Rows) > 0 || !few {
			all = append(all, s)
		}
	}
	var rest section
	for _, p := range people {
		if !placed[p.Name] {
			rest.Rows = append(rest.Rows, p)
		}
	}
	if len(rest.Rows) > 0 {
		all = append(all, rest)
	}
	return all
}

// find keeps the rows that a search matches: those with a name, an address or a group that
// contains its text, and of people those of the group that is shown.
func (v *peopleView) find() {
	q := strings.ToLower(v.Query)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), q) }
	matches := func(r *clientRow) bool {
		return q == "" || has(r.Name) || has(r.Called) || slices.ContainsFunc(r.Addresses, has) || slices.ContainsFunc(r.Groups, has) || slices.ContainsFunc(r.Members, has)
	}
	for _, rows := range []*[]clientRow{&v.New, &v.People, &v.Groups} {
		*rows = slices.DeleteFunc(*rows, func(r clientRow) bool { return !matches(&r) })
	}
	if v.Group != "" {
		v.New = nil
		v.People = slices.DeleteFunc(v.People, func(r clientRow) bool { return !slices.Contains(r.Groups, v.Group) })
		v.Groups = slices.DeleteFunc(v.Groups, func(r clientRow) bool { return r.Name != v.Group })
	}
}

// nameDevices adds the names and kinds of devices.
func (c *Pages) nameDevices(ctx context.Context, people, unnamed []clientRow) {
	var addrs []netip.Addr
	for _, p := range people {
		for _, a := range p.Addresses {
			if addr, err := netip.ParseAddr(a); err == nil {
				addrs = append(addrs, addr)
			}
		}
	}
	var called map[netip.Addr]string
	if c.Events != nil && c.Events.Names != nil {
		called = c.Events.Names(ctx, addrs)
	}
	asked, here := c.kinds(ctx)
	kindOf := func(addr, name string) deviceKind {
		if k, ok := kindByName(name); ok {
			return k
		}
		if k, ok := asked[addr]; ok {
			return k
		}
		return unknown
	}
	for i := range people {
		for _, a := range people[i].Addresses {
			d := device{Addr: a, Here: here[a]}
			if addr, err := netip.ParseAddr(a); err == nil {
				if d.Name = called[addr]; d.Name == people[i].Name {
					d.Name = "" // the settings give it this name, not the device itself
				}
			}
			d.Kind = kindOf(a, d.Name)
			people[i].Devices = append(people[i].Devices, d)
		}
	}
	for i := range unnamed {
		unnamed[i].Kind = kindOf(unnamed[i].Name, unnamed[i].Called)
	}
}

// kinds returns what devices seem to be by the sites that they ask, and which are here.
func (c *Pages) kinds(ctx context.Context) (kinds map[string]deviceKind, here map[string]bool) {
	if c.Events == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, web.MaxAsk)
	defer cancel()
	questions, err := askKinds(event.Filter{Since: time.Now().Add(-24 * time.Hour)})
	if err != nil {
		return nil, nil
	}
	questions = append(questions, event.Question{Filter: event.Filter{Since: time.Now().Add(-hereWithin)}, By: event.Client, Top: maxClients})
	answers, err := c.Events.Count(ctx, questions...)
	if err != nil {
		return nil, nil // the page says elsewhere why not
	}
	here = map[string]bool{}
	for _, t := range answers[len(answers)-1] {
		here[t.Name] = true
	}
	return kindsOf(answers[:len(answers)-1]), here
}

// addState adds pauses, closed webs, minutes, and what who asks may do.
func (c *Pages) addState(r *http.Request, rows []clientRow) {
	var pauses []policy.Pause
	var decisions []policy.Decision
	if c.Pauses != nil {
		pauses = c.Pauses()
	}
	if c.Decisions != nil {
		decisions = c.Decisions()
	}
	bonuses := c.Bonuses()
	for i := range rows {
		row := &rows[i]
		for _, p := range pauses {
			if p.Who == row.Name {
				row.Paused = p.Until
			}
		}
		for _, d := range decisions {
			if d.Who == row.Name && d.Site == policy.AnySite && d.Block {
				row.Shut, row.Closed = true, d.Until
			}
		}
		for _, b := range bonuses {
			if b.Who == row.Name {
				row.Extra += b.Minutes
			}
		}
		row.Most = tightest(row.ClientState)
		row.May = c.MayServe != nil && c.MayServe(r, row.Name)
	}
}

// tightest returns the quota of minutes of which the least is left; nil if there is none.
func tightest(s ClientState) *minuteUse {
	var least *minuteUse
	for _, b := range s.Balances {
		if b.Unit != "minutes" || b.Most <= 0 {
			continue
		}
		x := minuteUse{Percent: min(100, 100*b.Used/b.Most), Text: b.Text}
		if least == nil || x.Percent > least.Percent {
			least = &x
		}
	}
	return least
}

// owns reports whether the user looks after a client: helpers only after those in
// their groups.
func owns(who *account.Who, groups []string) bool {
	return who.Role != account.Helper || web.Shares(groups, who.Groups)
}

// groupsOf returns the groups of a person.
func (c *Pages) groupsOf(ctx context.Context, name string) []string {
	if c.Site.Groups != nil {
		return c.Site.Groups(netip.Addr{}, name)
	}
	return c.About(ctx, netip.Addr{}, name, "").Groups
}

// data returns everybody whom who looks after, with the groups, but not what they have left.
func (c *Pages) data(ctx context.Context, who *account.Who) (*clientsData, error) {
	users, groups := c.Known()
	d := &clientsData{New: []clientRow{}, People: []clientRow{}, Groups: []clientRow{}, Bonus: []policy.Bonus{}, names: slices.Sorted(maps.Keys(groups))}
	for _, b := range c.Bonuses() {
		if who.Role != account.Helper || slices.Contains(who.Groups, b.Who) || web.Shares(c.groupsOf(ctx, b.Who), who.Groups) {
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
	in := map[string]*clientRow{}
	for _, name := range d.names {
		if owns(who, []string{name}) {
			in[name] = &clientRow{Name: name, Members: append([]string{}, groups[name]...)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byUser)) {
		row := byUser[name]
		row.Groups = c.groupsOf(ctx, name)
		if !owns(who, row.Groups) {
			continue
		}
		d.People = append(d.People, *row)
		for _, g := range row.Groups {
			if in[g] != nil {
				in[g].Events, in[g].Blocked = in[g].Events+row.Events, in[g].Blocked+row.Blocked
			}
		}
	}
	for _, name := range d.names {
		if in[name] != nil {
			d.Groups = append(d.Groups, *in[name])
		}
	}
	for _, row := range byAddr {
		addr, err := setting.Client(row.Name)
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
	tallies, err := c.Events.Count(ctx, event.Question{Filter: f, By: event.User, Top: maxClients}, event.Question{Filter: nobody, By: event.Client, Top: maxNew},
		event.Question{Filter: event.Filter{Since: time.Now().Add(-hereWithin)}, By: event.User, Top: maxClients})
	if err != nil {
		return users, nil, web.TooLong(ctx, err)
	}
	for _, t := range tallies[0] {
		if t.Name != "" {
			users[t.Name] = &clientRow{Name: t.Name, Events: t.Events, Blocked: t.Blocked}
		}
	}
	for _, t := range tallies[2] {
		if row := users[t.Name]; row != nil {
			row.Here = true
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
