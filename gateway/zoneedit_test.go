//go:build !small

package gateway

import (
	"context"

	"shuultuur/zone/authority"
)

func init() {
	editZone = func(ctx context.Context, g *Gateway, origin string, text []byte) error {
		return authority.Editor{Authority: g.engine.Load().Zones}.Write(ctx, origin, "", text)
	}
}
