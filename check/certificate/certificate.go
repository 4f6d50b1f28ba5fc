// Package certificate declares the faults of origins' certificates as categories, so that
// rules can name them.
//
// The proxy finds the faults: it verifies the certificate before it answers the client, and
// adds findings to the transaction. This check itself examines nothing.
package certificate

import (
	"context"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// Check reports the categories revoked, self-signed, unknown-root,
// missing-intermediate, invalid-chain, wrong-host, expired, not-yet-valid and
// weak-key.
type Check struct{}

func (Check) Name() string { return "certificate" }

// Cost implements [filter.Check].
func (Check) Cost() filter.Cost { return filter.Cheap }

func (Check) Categories() []filter.Category {
	var all []filter.Category
	for _, k := range []intercept.Kind{
		intercept.Revoked, intercept.SelfSigned, intercept.UnknownRoot, intercept.MissingIntermediate, intercept.InvalidChain,
		intercept.WrongHost, intercept.Expired, intercept.NotYetValid, intercept.WeakKey,
	} {
		all = append(all, filter.Category{Name: string(k)})
	}
	return all
}

// Wants returns false: the proxy reports the faults before any check runs.
func (Check) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (Check) Find(_ context.Context, _ *filter.Transaction, _ filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	return dst, nil
}
