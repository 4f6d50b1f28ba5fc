package helper

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
	"shuultuur/proxy/page"
)

// An Engine has everything that the server needs for its decisions. It is
// immutable.
type Engine struct {
	Decider filter.Decider
	// Accept and Balance are as in [exchange.Engine].
	Accept  func(ctx context.Context, t *filter.Transaction, token string) (string, error)
	Balance func(ctx context.Context, c *filter.Client, now time.Time) (policy string, left []filter.Balance)
	Pages   *page.Set
	// Identify returns the client at an address if Squid names no user.
	Identify func(ctx context.Context, addr netip.Addr) (filter.Client, error)
	// Member returns the client that Squid has identified as a user, with the
	// user's groups.
	Member func(ctx context.Context, addr netip.Addr, user string) (filter.Client, error)
	// Verify returns the client with this name and password.
	Verify func(ctx context.Context, addr netip.Addr, user, password string) (filter.Client, error)
	// HasGroup reports whether there is a group of this name.
	HasGroup func(name string) bool
	// Checks find the categories of a request.
	Checks []filter.Check

	judge      exchange.Engine
	categories map[string]bool
}
