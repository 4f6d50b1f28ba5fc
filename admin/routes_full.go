//go:build !small

package admin

import (
	"path/filepath"
	"slices"

	"shuultuur/admin/api"
	"shuultuur/admin/exception"
	"shuultuur/admin/system"
	"shuultuur/admin/watch"
	"shuultuur/admin/web"
	"shuultuur/admin/zones"
	"shuultuur/event"
)

// These are the rows that the small build lacks.

// watching returns the pages of what is watched: alerts, pictures and reports.
func (p *Parts) watching(site *web.Site, record *web.Record) (all []web.Route) {
	if p.Alerts != nil {
		all = append(all, (&watch.Alerts{Site: site, Alerts: p.Alerts, Events: record}).Routes()...)
	}
	if record != nil {
		all = append(all, (&watch.Reports{Site: site, Events: record}).Routes()...)
	}
	if p.Pictures != nil {
		all = append(all, (&watch.Pictures{Site: site, Pictures: p.Pictures}).Routes()...)
	}
	return all
}

// voting returns the pages of votes.
func (p *Parts) voting(site *web.Site, record *web.Record) []web.Route {
	if p.Votes == nil {
		none := exception.NoVotes{}
		if p.Settings != nil {
			none.Change = p.Settings.Change
		}
		return none.Routes(site)
	}
	x := *p.Votes
	if record != nil {
		x.Names = record.Names
	}
	return x.Routes(site)
}

// zones returns the pages of zones.
func (p *Parts) zones(site *web.Site, reader event.Reader) []web.Route {
	z := &zones.Pages{Site: site, Zones: p.Zones, Events: reader}
	if s := p.Settings; s != nil {
		z.Change, z.Folder, z.Kept = s.Change, filepath.Dir(s.File), s.Versions.Dir
	}
	return z.Routes()
}

// diagnosis returns the profiles.
func (p *Parts) diagnosis() []web.Route { return system.ProfileRoutes() }

// described returns the pages that describe all others, and the way in for assistants.
func described(site *web.Site, all []web.Route) []web.Route {
	mine := api.AssistantRoutes(site, all)
	return append(mine, api.Routes(site, slices.Concat(all, mine))...)
}
