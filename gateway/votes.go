package gateway

import (
	"context"
	"fmt"
	"net/netip"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/policy/ruling"
	"shuultuur/setting"
	"shuultuur/vote"
	"shuultuur/vote/booth"
)

// votes are the settings of votes, nil when nobody votes.
func (s *Settings) votes() any {
	if s.Votes == nil {
		return nil
	}
	return s.Votes
}

func newRulings(_ context.Context, b *builder) (*ruling.Keeper, error) {
	return ruling.New(b.state), nil
}

func openVotes(ctx context.Context, b *builder) (*booth.Booth, error) {
	c := *b.settings.Votes
	if _, ok := b.settings.Lists[c.List]; c.List != "" && !ok {
		return nil, setting.At("list", fmt.Errorf("there is no list %q", c.List))
	}
	if b.trial() {
		return nil, c.Check()
	}
	g := b.g
	return booth.Open(ctx, c, booth.Parts{Data: string(b.settings.Data), Key: b.data.Key, Apply: g.decide, Who: g.voter, Texts: g.texts, Log: b.log})
}

// decide carries out a decision about votes on all nodes, or takes it back.
func (g *Gateway) decide(ctx context.Context, d *vote.Decision) error {
	e := g.engine.Load()
	if name := e.settings.Votes.List; name != "" && d.Action == vote.Block && d.Who == "" && d.Until.IsZero() {
		return g.changeLists(ctx, map[string][]list.Change{name: {{Entry: d.Site, Remove: !d.Ended.IsZero()}}})
	}
	return e.rulings.Rule(policy.Decision{Who: d.Who, Site: d.Site, Block: d.Action == vote.Block, Until: d.Until}, !d.Ended.IsZero(), d.By)
}

// voter identifies a client of the API for votes.
func (g *Gateway) voter(addr, authorization string) vote.Voter {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return vote.Voter{Addr: addr}
	}
	c, err := g.engine.Load().identity.Identify(context.Background(), a.Unmap(), []byte(authorization))
	if err != nil { // it has not logged in, or wrongly
		c = filter.Client{Addr: a}
	}
	return booth.Voter(c)
}
