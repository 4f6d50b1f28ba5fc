package engine

import (
	"context"
	"fmt"

	"shuultuur/engine/configuration"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/policy/decision"
	"shuultuur/vote/booth"
)

// votesOf returns the settings of votes, nil if voting is off.
func votesOf(s *configuration.Settings) any {
	if s.Votes == nil {
		return nil
	}
	return s.Votes
}

func newDecisions(_ context.Context, b *builder) (*decision.Keeper, error) {
	return decision.New(b.State), nil
}

func openVotes(ctx context.Context, b *builder) (*booth.Booth, error) {
	if release.Small {
		return nil, release.Lacks("votes")
	}
	c := *b.Settings.Votes
	if _, ok := b.Settings.Lists[c.List]; c.List != "" && !ok {
		return nil, setting.At("list", fmt.Errorf("there is no list %q", c.List))
	}
	if b.trial() {
		return nil, c.Check()
	}
	h := b.host
	return booth.Open(ctx, c, booth.Parts{Data: string(b.Settings.Data), Key: b.Data.Key, Apply: h.Decide, Asked: h.Asked, Who: h.voter, Texts: h.Texts, Contact: h.contact, Log: b.log})
}
