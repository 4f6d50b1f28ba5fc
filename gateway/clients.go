package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"shuultuur/admin"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/state"
)

// clientsParts are what the admin address shows of those who are filtered.
func (g *Gateway) clientsParts() *admin.Clients {
	return &admin.Clients{
		Known: func() (users, groups map[string][]string) {
			id := &g.engine.Load().settings.Identity
			return id.Addresses, id.Groups
		},
		About:   g.about,
		Bonuses: func() []policy.Bonus { return g.engine.Load().decisions.Bonuses(time.Now()) },
		Give:    g.giveTime,
	}
}

// about says who is at an address, or who a user is, or what a group may.
func (g *Gateway) about(ctx context.Context, addr netip.Addr, user, group string) admin.About {
	e := g.engine.Load()
	var c filter.Client
	switch {
	case group != "":
		c = filter.Client{Groups: []string{group}}
	case user != "":
		c = e.identity.Named(addr, user, nil, "")
	default:
		c, _ = e.Identify(ctx, addr) // who would have to log in is known by the address alone
	}
	now := time.Now()
	a := admin.About{User: c.User, Groups: c.Groups, Policy: e.policies.Covers(&c, now)}
	if group == "" { // quotas are a person's, or a device's
		_, a.Balances = e.policies.Balance(ctx, "", &c, now)
	}
	return a
}

// giveTime gives somebody minutes beyond quotas for the rest of the day, on all
// nodes; 0 takes back what was given.
func (g *Gateway) giveTime(who string, minutes int64, by netip.Addr) error {
	e, now := g.engine.Load(), time.Now()
	who, err := e.whom(who)
	if err != nil {
		return err
	}
	i := state.Instruction{Topic: bonusTopic, Key: who, By: by.String()}
	said := "no more time than the quotas say"
	if minutes > 0 {
		for _, b := range e.decisions.Bonuses(now) {
			if b.Who == who {
				minutes += b.Minutes
			}
		}
		if minutes > policy.MaxBonus {
			return &admin.BadChange{Err: fmt.Errorf("%s would have %d minutes more: a day has %d", who, minutes, policy.MaxBonus)}
		}
		y, m, d := now.Date()
		i.Value, i.Until = strconv.FormatInt(minutes, 10), time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
		said = fmt.Sprintf("%d minutes more today", minutes)
	}
	if err := e.state.Give(i); err != nil {
		return err
	}
	refreshDecisions(e.decisions, e.state)
	g.note(by, "bonus", who+": "+said)
	return nil
}
