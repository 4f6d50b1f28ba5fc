package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/list"
	"shuultuur/policy"
	"shuultuur/setting"
	"shuultuur/state"
	"shuultuur/vote"
	"shuultuur/vote/booth"
)

// decisionTopic is that of decisions about votes: the key is for whom and about
// which site, the value what was decided.
const decisionTopic = "decision"

// votes are the settings of votes, nil when nobody votes.
func (s *Settings) votes() any {
	if s.Votes == nil {
		return nil
	}
	return s.Votes
}

// newDecisions reads the decisions in force.
func newDecisions(_ context.Context, b *builder) (*policy.Decisions, error) {
	d := &policy.Decisions{}
	refreshDecisions(d, b.state)
	return d, nil
}

// refreshDecisions takes the instructions in force into use.
func refreshDecisions(d *policy.Decisions, s state.Store) {
	d.Set(decisionsOf(s))
	d.SetBonuses(bonusesOf(s))
}

// bonusesOf are the instructions in force about more time: the key is for whom,
// the value how many minutes.
func bonusesOf(s state.Store) (all []policy.Bonus) {
	for _, i := range s.InForce(bonusTopic) {
		if n, err := strconv.ParseInt(i.Value, 10, 64); err == nil {
			all = append(all, policy.Bonus{Who: i.Key, Minutes: n, Until: i.Until})
		}
	}
	return all
}

// decisionsOf are the instructions in force about sites, later ones last.
func decisionsOf(s state.Store) []policy.Decision {
	given := s.InForce(decisionTopic)
	slices.SortStableFunc(given, func(a, b state.Instruction) int { return cmp.Compare(a.At, b.At) })
	all := make([]policy.Decision, 0, len(given))
	for _, i := range given {
		who, site, _ := strings.Cut(i.Key, "\t")
		all = append(all, policy.Decision{Who: who, Site: site, Block: i.Value == string(vote.Block), Until: i.Until})
	}
	return all
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
	return booth.Open(ctx, c, booth.Parts{Data: string(b.settings.Data), Key: b.data.Key, Apply: g.decide, Who: g.voter, Log: b.log})
}

// decide carries out a decision about votes on all nodes, or takes it back.
func (g *Gateway) decide(ctx context.Context, d *vote.Decision) error {
	e := g.engine.Load()
	if name := e.settings.Votes.List; name != "" && d.Action == vote.Block && d.Who == "" && d.Until.IsZero() {
		return g.changeLists(ctx, map[string][]list.Change{name: {{Entry: d.Site, Remove: !d.Ended.IsZero()}}})
	}
	i := state.Instruction{Topic: decisionTopic, Key: d.Who + "\t" + d.Site, Value: string(d.Action), Until: d.Until, By: d.By}
	if !d.Ended.IsZero() {
		i.Value = ""
	}
	if err := e.state.Give(i); err != nil {
		return err
	}
	refreshDecisions(e.decisions, e.state)
	return nil
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
