//go:build !small

package gateway

import (
	"context"
)

// editZone writes the text of a zone as a page does.
var editZone = func(ctx context.Context, g *Gateway, origin string, text []byte) error {
	return g.engine.Load().Zones.Editor().Write(ctx, origin, "", text)
}
