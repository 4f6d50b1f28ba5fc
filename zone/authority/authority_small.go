//go:build small

package authority

import (
	"context"
	"log/slog"
	"net/netip"

	"shuultuur/filter"
	"shuultuur/lib/dns"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
	"shuultuur/zone/redins"
)

// An Authority of the small build has no zones.
type Authority struct{}

// New refuses zones.
func New(cfg Config, redis *redins.Config, _ func() Upstream, _ *Authority, _ *slog.Logger) (*Authority, error) {
	t := cfg.Transfer
	switch {
	case redis != nil:
		return nil, setting.At("redis", release.Lacks("zones of its own"))
	case len(cfg.Files.Files)+len(t.Keys)+len(t.Sign)+len(t.Allow)+len(t.Notify)+len(t.Secondaries)+len(t.Catalogs) > 0:
		return nil, setting.At("zones", release.Lacks("zones of its own; names for this network can be in dns: hosts-files"))
	}
	return &Authority{}, nil
}

// The methods are those of the full build.

func (a *Authority) Ready() {}

func (a *Authority) Answer(*dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome {
	return dns.Declined
}

func (a *Authority) Wait(context.Context, *dns.Query, *dns.Reply, *filter.Transaction) dns.Outcome {
	return dns.Declined
}

func (a *Authority) Outside() Outside { return Outside{} }

func (a *Authority) Zones() Outside { return Outside{} }

// Depth is that of [Authority.Depth].
func (Outside) Depth([]byte, []uint8, netip.Addr) int { return -1 }

func (a *Authority) Origins() [][]byte { return nil }

func (a *Authority) HasData([]byte, []byte) bool { return false }

func (a *Authority) Depth([]byte, []uint8, netip.Addr) int { return -1 }

func (a *Authority) OtherSource([]byte) string { return "" }

func (a *Authority) Zone([]byte) string { return "" }

func (a *Authority) Faults() []error { return nil }

func (a *Authority) Verify(*dns.Query) bool { return false }

func (a *Authority) Sign(_ *dns.Query, reply []byte) []byte { return reply }

func (a *Authority) Show() []Summary { return []Summary{} }

func (a *Authority) Problems() []string { return nil }

func (a *Authority) Text(context.Context, string, string) ([]byte, error) { return nil, ErrNoZone }

func (a *Authority) Records(string, string, int, int) ([]string, bool, error) {
	return nil, false, ErrNoZone
}

func (a *Authority) Places() (string, bool) { return "", false }

func (a *Authority) Create(context.Context, string, NewZone) (string, error) { return "", ErrNoZone }

func (a *Authority) State(Summary) State { return State{} }

func (a *Authority) Publishes(string) bool { return false }

func (a *Authority) Publish(context.Context, string, string) (func(context.Context) error, error) {
	return nil, ErrNoZone
}
