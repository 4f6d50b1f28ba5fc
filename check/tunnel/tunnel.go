// Package tunnel is the check of what is said first in a tunnel: HTTP, TLS, SSH, a VPN, or something
// else.
//
// The proxy reads the first bytes (package opening) and judges the tunnel again with what they are,
// before anything of them has left.
package tunnel

import (
	"context"

	"shuultuur/filter"
	"shuultuur/intercept/opening"
)

// Check reports http, tls, ssh, vpn and unknown.
type Check struct{}

// Name implements [filter.Check].
func (Check) Name() string { return filter.Tunnel }

// Cost implements [filter.Check].
func (Check) Cost() filter.Cost { return filter.Cheap }

// Categories implements [filter.Check].
func (Check) Categories() []filter.Category {
	var all []filter.Category
	for _, k := range opening.Kinds {
		all = append(all, filter.Category{Name: string(k)})
	}
	return all
}

// Wants implements [filter.Check].
func (Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.Name && t.Opening.Kind != ""
}

// Find implements [filter.Check].
func (Check) Find(_ context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	if s != filter.Name || t.Opening.Kind == "" {
		return dst, nil
	}
	f := filter.Finding{Check: filter.Tunnel, Category: t.Opening.Kind}
	if !t.Terse {
		f.Evidence = t.Opening.Says
	}
	return append(dst, f), nil
}
