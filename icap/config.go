package icap

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/policy"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
	"shuultuur/setting"
)

// Config has the settings of a Server. The zero value of each field means its
// default.
type Config struct {
	// Clients are the networks of the proxies that may ask, default this machine
	// and private networks. What they say about users and addresses is believed.
	Clients     setting.OneOrMore[policy.Network] `yaml:"clients"`
	Connections setting.Count                     `yaml:"connections"` // at once; default 1024
	Preview     setting.Size                      `yaml:"preview"`     // bytes of a body that come with its head; default 4 KiB, at most 64 KiB
	Idle        setting.Duration                  `yaml:"idle"`        // longest silence of a connection; default 5m
	Pending     setting.Count                     `yaml:"pending"`     // requests that wait for their response; default 4096
	Wait        setting.Duration                  `yaml:"wait"`        // how long they wait before they go on record alone; default 1m
	Drain       setting.Duration                  `yaml:"drain"`       // what transactions under way get on stop, off is nothing; default 10s
}

// An Engine is what decides. It never changes.
type Engine struct {
	Decider filter.Decider
	// Accept and Balance are as in [exchange.Engine].
	Accept  func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	Pages   *page.Set
	// Identify says who asks, as [proxy.Engine.Identify] does, where the proxy
	// that asks does not name a user.
	Identify func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error)
	// Named returns the client at an address whom the proxy that asks has
	// identified as a user of groups.
	Named func(ctx context.Context, addr netip.Addr, user string, groups []string, source string) filter.Client
	// Tag changes when decisions may: it is the ISTag, at most 30 letters and
	// digits.
	Tag string

	judge exchange.Engine
}
