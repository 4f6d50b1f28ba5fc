//go:build small

package gateway

import "context"

// editZone is nil, because the small build cannot edit zones.
var editZone func(ctx context.Context, g *Gateway, origin string, text []byte) error
