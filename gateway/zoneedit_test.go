//go:build !small

package gateway

import (
	"context"
)

// editZone writes the text of a zone as a page does.
var editZone = func(ctx context.Context, g *Gateway, origin string, text []byte) error {
	zones := g.engine.Load().Zones
	was, err := zones.Text(ctx, origin, "")
	if err != nil {
		return err
	}
	return zones.Editor().Write(ctx, origin, "", was, text)
}
