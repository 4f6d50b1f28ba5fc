//go:build small

package admin

import (
	"shuultuur/admin/exception"
	"shuultuur/admin/web"
	"shuultuur/event"
)

// The small build lacks these pages. The API is the same as in the full build, but does not
// describe itself.

func (p *Parts) watching(*web.Site, *web.Record) []web.Route { return nil }

func (p *Parts) voting(site *web.Site, _ *web.Record) []web.Route {
	return new(exception.NoVotes).Routes(site)
}

func (p *Parts) zones(*web.Site, event.Reader) []web.Route { return nil }

func (p *Parts) diagnosis() []web.Route { return nil }

func described(*web.Site, []web.Route) []web.Route { return nil }
