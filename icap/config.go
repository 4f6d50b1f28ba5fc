package icap

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/lib/setting"
	"shuultuur/policy"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

// Config has the settings of a Server. The zero value of each field selects its
// default.
type Config struct {
	// Clients are the networks of proxies that may send requests; default this
	// machine and private networks. Their statements about users and addresses are
	// trusted.
	Clients setting.OneOrMore[policy.Network] `yaml:"clients" names:"people"`
	// Users and Groups are the fields in which those proxies name users and their groups; default
	// X-Client-Username and X-Authenticated-User, and X-Authenticated-Groups.
	Users       setting.OneOrMore[string] `yaml:"users"`
	Groups      setting.OneOrMore[string] `yaml:"groups"`
	Connections setting.Count             `yaml:"connections"` // most concurrent connections; default 1024
	Preview     setting.Size              `yaml:"preview"`     // bytes of a body that are sent with its head; default 4 KiB, at most 64 KiB
	Idle        setting.Duration          `yaml:"idle"`        // time after which a silent connection is closed; default 5m
	Pending     setting.Count             `yaml:"pending"`     // most requests that wait for their response; default 4096
	Wait        setting.Duration          `yaml:"wait"`        // how long they wait before they are recorded alone; default 1m
	Drain       setting.Duration          `yaml:"drain"`       // time for transactions in progress at a stop, off for none; default 10s
}

// An Engine has what the server needs for its decisions. It is immutable.
type Engine struct {
	Decider filter.Decider
	// Accept and Balance are as in [exchange.Engine].
	Accept  func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	Pages   *page.Set
	// Identify returns the client, as proxy.Engine.Identify does, if the ICAP
	// client does not name a user.
	Identify func(ctx context.Context, addr netip.Addr, authorization []byte) (filter.Client, error)
	// Named returns the client at an address whose user and groups the ICAP client names in
	// fields with these values.
	Named func(ctx context.Context, addr netip.Addr, users, groups []string, source string) filter.Client
	// Tag changes when decisions may change: it is the ISTag, at most 30 letters
	// and digits.
	Tag string

	judge exchange.Engine
}
