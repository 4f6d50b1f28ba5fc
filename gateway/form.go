//go:build !small

package gateway

import (
	"context"

	"shuultuur/engine/configuration"
	"shuultuur/engine/probe"
)

// try asks the servers that a part of a text of settings names.
func (g *Gateway) try(ctx context.Context, text []byte, part, with string) ([]string, error) {
	s, err := configuration.Parse(g.file, text)
	if err != nil {
		return nil, err
	}
	return probe.Ask(ctx, s, part, with)
}
