package technitium

import (
	"context"
	"net/netip"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules permits clients of some networks every name.
type rules struct {
	*original.Names
	bypass []netip.Prefix
}

func (x *rules) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	for _, n := range x.bypass {
		if stage == filter.Name && n.Contains(t.Client.Addr) {
			return original.Decision{By: "blockingBypassList: " + n.String()}, true
		}
	}
	return x.Names.Decide(ctx, t, stage)
}

// Rules reads blocked and allowed zones. It cannot evaluate fetched lists.
func Rules(s *original.Source, file string) (original.Rules, error) {
	v, err := original.ReadJSON(file, "settings.json", "response")
	if err != nil {
		return nil, err
	}
	z := original.NewNames()
	if v["enableBlocking"] == false {
		return z, nil
	}
	for _, u := range original.Strings(v, "blockListUrls") {
		s.Untested("blockListUrls: %s is fetched", u)
	}
	for _, name := range original.Strings(v, "blockedZones") {
		z.Below(name, "blockedZones: "+name, true)
	}
	for _, name := range original.Strings(v, "allowedZones") {
		z.Below(name, "allowedZones: "+name, false)
	}
	x := &rules{Names: z}
	for _, text := range original.Strings(v, "blockingBypassList") {
		if n, err := input.Network(text); err != nil {
			s.Untested("blockingBypassList: %v", err)
		} else {
			x.bypass = append(x.bypass, n)
		}
	}
	return x, nil
}
