//go:build !small

package remote

import (
	"context"
	"errors"
	"net/http"

	"shuultuur/admin/lists"
	"shuultuur/lib/suricata/engine"
)

// Signatures returns the costs of signature rules, most expensive first, and the work of their
// prefilters.
func (c Client) Signatures(ctx context.Context) (rules []engine.Profile, buffers []engine.BufferProfile, err error) {
	var d lists.ChecksData
	if err := c.ask(ctx, http.MethodGet, "/checks", "", &d); err != nil {
		return nil, nil, err
	}
	if !d.Signatures {
		return nil, nil, errors.New("the gateway has no signature rules: its settings have no checks.signature")
	}
	return d.Rules, d.Buffers, nil
}
