package clients

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
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
)

// oneClient is the page of one client.
type oneClient struct {
	clientRow
	Kind    string     `json:"kind"` // user, group or device
	Bonus   int64      `json:"bonus"`
	Rules   any        `json:"rules,omitempty"`
	Hosts   []web.Bar  `json:"-"`
	Refused []web.Bar  `json:"-"`
	Spent   []quotaUse `json:"-"`
	Week    []dayUse   `json:"week,omitempty"`

	Use     week              `json:"-"`
	Rulings []policy.Decision `json:"-"` // sites opened and blocked for it by hand
	MayRule bool              `json:"-"`
	Owner   bool              `json:"-"` // may export and erase

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
	d.MayRule = web.UserOf(r).Role >= account.Operator && c.Decisions != nil
	d.Owner = d.Kind != "group" && c.Events != nil && web.UserOf(r).Role >= account.Owner
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
	if c.Decisions != nil {
		for _, x := range c.Decisions() {
			if x.Who == who {
				d.Rulings = append(d.Rulings, x)
			}
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
	if d.Use, err = c.weekOf(ctx, event.Filter{Terms: f.Terms}, time.Now()); err != nil {
		return web.TooLong(ctx, err)
	}
	d.Week = d.Use.Days
	return nil
}
