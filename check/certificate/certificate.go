// Package certificate names what may be wrong with an origin's certificate, so
// that rules can say what is to happen then.
//
// The faults are found where TLS is spoken: the proxy looks at the certificate
// before the client is answered, and puts what it sees among the transaction's
// findings. This check looks at nothing; it stands for them in the settings.
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

// Wants is false: the faults are there before any check is asked, or not at all.
func (Check) Wants(*filter.Transaction, filter.Stage) bool { return false }

func (Check) Find(_ context.Context, _ *filter.Transaction, _ filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	return dst, nil
}
