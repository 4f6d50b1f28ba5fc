//go:build small

package gateway

import (
	"context"

	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

func manual() map[string]setting.Row { return nil }

func (g *Gateway) try(context.Context, []byte, string, string) ([]string, error) {
	return nil, release.Lacks("tests of settings")
}
