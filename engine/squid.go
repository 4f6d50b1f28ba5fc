package engine

import (
	"context"
	"net/netip"

	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/helper"
	"shuultuur/lib/release"
)

// squidOf returns the settings of the socket for Squid's helpers, nil for none.
func squidOf(s *configuration.Settings) any {
	if s.Listen.Squid == "" {
		return nil
	}
	return s.Listen.Squid
}

func newHelpers(_ context.Context, b *builder) (*helper.Server, error) {
	if release.Small {
		return nil, release.Lacks("the helpers for Squid")
	}
	if b.trial() {
		return helper.New(string(b.Settings.Listen.Squid), b.Proxy.Inspector(), nil, b.log), nil
	}
	return helper.New(string(b.Settings.Listen.Squid), b.Proxy.Inspector(), b.host.Done, b.log), nil
}

// helperEngine returns the parts with which Squid's helpers decide.
func (e *Engine) helperEngine() *helper.Engine {
	return &helper.Engine{
		Decider: e.Policies.Engine, Accept: e.Policies.Accept, Balance: e.balance, Pages: e.Pages,
		Identify: func(ctx context.Context, addr netip.Addr) (filter.Client, error) { return e.Identify(ctx, addr) },
		Member: func(ctx context.Context, addr netip.Addr, user string) (filter.Client, error) {
			return e.Identity.DirectoryClient(ctx, addr, user, "squid")
		},
		Verify:   e.Identity.Verify,
		HasGroup: e.Identity.HasGroup,
		Checks:   e.Checks.Checks,
	}
}
