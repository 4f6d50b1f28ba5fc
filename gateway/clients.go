package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/admin"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/policy/ruling"
)

// clientsParts returns the parts of the admin address about filtered clients.
func (g *pages) clientsParts() *admin.Clients {
	return &admin.Clients{
		Known: func() (users, groups map[string][]string) {
			id := &g.engine.Load().Settings.Identity
			return id.Addresses, id.Groups
		},
		About:   g.describe,
		Bonuses: func() []policy.Bonus { return g.engine.Load().Rulings.Bonuses(time.Now()) },
		Give:    g.giveTime,
	}
}

// describe describes a client at an address, a user, or a group.
func (g *pages) describe(ctx context.Context, addr netip.Addr, user, group string) admin.ClientState {
	e := g.engine.Load()
	var c filter.Client
	switch {
	case group != "":
		c = filter.Client{Groups: []string{group}}
	case user != "":
		c = e.Identity.NamedClient(addr, user, nil, "")
	default:
		c, _ = e.Identify(ctx, addr) // without a login, the address decides
	}
	now := time.Now()
	a := admin.ClientState{User: c.User, Groups: c.Groups, Policy: e.Policies.Covers(&c, now)}
	if group == "" { // quotas are for persons and devices
		_, a.Balances = e.Policies.Balance(ctx, "", &c, now)
	}
	return a
}

// giveTime gives a client minutes beyond quotas for the rest of the day, on all
// nodes; 0 withdraws them.
func (g *pages) giveTime(who string, minutes int64, by netip.Addr) error {
	e := g.engine.Load()
	who, err := e.NormaliseWho(who)
	if err != nil {
		return err
	}
	minutes, err = e.Rulings.GiveTime(who, minutes, time.Now(), by.String())
	if e := (*ruling.TooMuch)(nil); errors.As(err, &e) {
		return &admin.BadChange{Err: err}
	}
	if err != nil {
		return err
	}
	message := "no more time than the quotas say"
	if minutes > 0 {
		message = fmt.Sprintf("%d minutes more today", minutes)
	}
	g.note(by, "bonus", who+": "+message)
	return nil
}
