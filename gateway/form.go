//go:build !small

package gateway

import (
	"context"
	"sync"

	"shuultuur"

	"shuultuur/engine/configuration"
	"shuultuur/engine/probe"
	"shuultuur/lib/setting"
)

// manual returns what the manual says about each key of the settings.
var manual = sync.OnceValue(func() map[string]setting.Row {
	all := map[string]setting.Row{}
	rows, _ := setting.Manual(shuultuur.Manual) // a test reads them
	for _, r := range rows {
		all[r.Key] = r
	}
	return all
})

// try asks the servers that a part of a text of settings names.
func (g *Gateway) try(ctx context.Context, text []byte, part, with string) ([]string, error) {
	s, err := configuration.Parse(g.file, text)
	if err != nil {
		return nil, err
	}
	return probe.Ask(ctx, s, part, with)
}
