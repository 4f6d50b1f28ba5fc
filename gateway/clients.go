package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"shuultuur/admin/clients"
	"shuultuur/admin/web"
	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/policy/decision"
)

// clientsParts returns the parts of the admin address about filtered clients.
func (p *pages) clientsParts() *clients.Clients {
	return &clients.Clients{
		Known: func() (users, groups map[string][]string) {
			id := &p.gateway.engine.Load().Settings.Identity
			return id.Addresses, id.Groups
		},
		About:   p.describe,
		Bonuses: func() []policy.Bonus { return p.gateway.engine.Load().Decisions.Bonuses(time.Now()) },
		Give:    p.giveTime,
	}
}

// describe describes a client at an address, a user, or a group.
func (p *pages) describe(ctx context.Context, addr netip.Addr, user, group string) clients.ClientState {
	e := p.gateway.engine.Load()
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
	a := clients.ClientState{User: c.User, Groups: c.Groups, Policy: e.Policies.Covers(&c, now)}
	if group == "" { // quotas are for persons and devices
		_, a.Balances = e.Policies.Balance(ctx, "", &c, now)
	}
	return a
}

// giveTime gives a client minutes beyond quotas for the rest of the day, on all
// nodes; 0 withdraws them.
func (p *pages) giveTime(who string, minutes int64, by netip.Addr) error {
	e := p.gateway.engine.Load()
	who, err := e.NormaliseWho(who)
	if err != nil {
		return err
	}
	minutes, err = e.Decisions.GiveTime(who, minutes, time.Now(), by.String())
	if e := (*decision.TooMuch)(nil); errors.As(err, &e) {
		return &web.BadChange{Err: err}
	}
	if err != nil {
		return err
	}
	message := "no more time than the quotas say"
	if minutes > 0 {
		message = fmt.Sprintf("%d minutes more today", minutes)
	}
	p.note(by, "bonus", who+": "+message)
	return nil
}
