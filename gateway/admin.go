package gateway

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/admin/backup"
	"shuultuur/admin/clients"
	"shuultuur/admin/exception"
	"shuultuur/admin/home"
	"shuultuur/admin/lists"
	"shuultuur/admin/network"
	"shuultuur/admin/web"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/engine"
	"shuultuur/filter"
	"shuultuur/fleet"
	"shuultuur/lib/certificate"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/policy"
	"shuultuur/vote"
	"shuultuur/zone/authority"
)

// pages provides the admin server with the data and actions of a gateway.
type pages struct{ gateway *Gateway }

// newAdmin returns the server of the admin address.
func (p *pages) newAdmin(first *engine.Engine) (*web.Site, error) {
	var parts admin.Parts
	if err := p.openAccess(first, &parts); err != nil {
		return nil, err
	}
	parts.Metrics, parts.Health, parts.Token, parts.Texts = p.gateway.metrics.handler, p.gateway.health, first.Settings.Listen.Token, p.gateway.host.Texts
	parts.Lists = (&lists.Lists{In: p.lists, Change: p.gateway.node.ChangeLists, Use: p.gateway.ReloadAndLog, Arriving: p.gateway.refresher.Progress, Checked: p.checkedLists}).ShowLists()
	parts.Pause = &exception.Pause{All: func() []policy.Pause { return p.gateway.engine.Load().Pauses.At(time.Now()) }, Set: p.pause}
	parts.Root = p.gateway.host.Root
	parts.Ordered = func() certificate.Status {
		if k := p.gateway.engine.Load().Ordered; k != nil {
			return k.Status()
		}
		return certificate.Status{}
	}
	parts.Refusals = func() any { return p.gateway.engine.Load().Proxy.Refusals() }
	parts.Quotas = p.quotas
	parts.Sessions = &clients.Sessions{All: first.Sessions.All, Start: first.Sessions.Start, End: first.Sessions.End}
	parts.Live = &p.gateway.metrics.live
	parts.Decisions = &exception.Decisions{All: func() []policy.Decision { return p.gateway.engine.Load().Decisions.Sites(time.Now()) }, Set: p.rule, Groups: parts.Groups}
	parts.Explain = p.explain
	parts.Settings = p.settingsParts(first)
	parts.Alerts = func() *alert.Desk {
		if e := p.gateway.engine.Load(); e != nil && e.Alerts != nil {
			return e.Alerts.Desk
		}
		return nil
	}
	parts.Pictures = &p.gateway.pictures
	parts.Setup = p.gateway.setup.Load
	parts.Clients = p.clientsParts()
	parts.System = p.systemParts(backup.Folder(filepath.Join(string(first.Settings.Data), backup.KeptIn)))
	if first.Votes != nil && first.Votes.Desk() != nil {
		parts.Votes = &exception.Votes{Desk: first.Votes.Desk()}
	}
	parts.Fleet = p.fleetParts()
	parts.Judge = p.effect
	parts.Checks = func() *check.Set { return p.gateway.engine.Load().Checks }
	parts.Remarks = func() []home.Remark {
		if all := p.gateway.remarks.Load(); all != nil {
			return *all
		}
		return nil
	}
	parts.Devices = func() string {
		if e := p.gateway.engine.Load(); e.Welcome != nil {
			return e.Settings.PortalPlace().URL
		}
		return ""
	}
	if first.Zones != nil {
		parts.Zones = func() *authority.Authority { return p.gateway.engine.Load().Zones }
	}
	if first.Forward != nil {
		parts.NameServer = p.namesParts()
	}
	if first.Stored != nil {
		parts.Cache = p.cacheParts()
	}
	if r := first.Events.Reader(); r != nil {
		parts.Events = &web.Record{Reader: r, Names: p.clientNames}
	}
	for _, n := range first.Settings.Listen.Monitors {
		parts.Monitors = append(parts.Monitors, n.Prefix)
	}
	return admin.New(parts), nil
}

// cacheParts returns the parts of the admin address for the cache in use.
func (p *pages) cacheParts() *network.Cache {
	return &network.Cache{
		Stats: func() any {
			if c := p.gateway.engine.Load().Stored; c != nil {
				return c.Stats()
			}
			return cache.Stats{}
		},
		Look: func(url string, fields [][2]string) (any, error) {
			c := p.gateway.engine.Load().Stored
			if c == nil {
				return nil, fleet.ErrNoCache
			}
			return c.Look(url, fields, time.Now())
		},
		Purge: p.gateway.node.Purge,
	}
}

// lists returns the lists in use, and the client that fetches them.
func (p *pages) lists() (*collection.Collection, *http.Client) {
	e := p.gateway.engine.Load()
	return e.Lists, e.Settings.Fetcher()
}

// checkedLists returns the lists that the check of categories looks into.
func (p *pages) checkedLists() []string {
	if c := p.gateway.engine.Load().Settings.Checks.Category; c != nil {
		return c.Lists
	}
	return nil
}

// fetched returns the store of fetched items, and the items.
func (g *Gateway) fetched() (*source.Store, source.Items) {
	e := g.engine.Load()
	return source.In(string(e.Settings.Data), e.Settings.Fetcher()), e.Fetched()
}

// pause pauses filtering for who (see [policy.Pause]) until a time. It resumes
// filtering if that time is not in the future, and for everyone if who is "".
// by is the address of the request.
func (p *pages) pause(who string, until time.Time, by netip.Addr) error {
	e, now := p.gateway.engine.Load(), time.Now()
	if who = strings.TrimSpace(who); who != "" {
		var err error
		if who, err = e.NormaliseWho(who); err != nil {
			return err
		}
	}
	message, err := e.Pauses.Set(who, until, now, by.String())
	if err != nil {
		return &web.BadChange{Err: err}
	}
	if message == "" {
		return nil
	}
	p.note(by, "pause", message)
	return nil
}

// quotas returns what is left of a client's quotas.
func (p *pages) quotas(ctx context.Context, policy string, addr netip.Addr, user string) clients.Quotas {
	e := p.gateway.engine.Load()
	c := filter.Client{Addr: addr, User: user}
	if user == "" {
		if who, err := e.Identify(ctx, addr); err == nil {
			c = who
		}
	}
	q := clients.Quotas{User: c.User}
	q.Policy, q.Quotas = e.Policies.Balance(ctx, policy, &c, time.Now())
	return q
}

// clientNames returns names of devices. It queries the DNS if the settings have
// a route for reverse names.
func (p *pages) clientNames(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string {
	e := p.gateway.engine.Load()
	var pointer func(context.Context, netip.Addr) string
	if f := e.Forward; f != nil {
		pointer = func(ctx context.Context, addr netip.Addr) string {
			if !f.RoutesPointer(addr) {
				return ""
			}
			name, _ := f.Pointer(ctx, addr) // after an error it has no name
			return name
		}
	}
	return e.Clients.Of(ctx, addrs, pointer)
}

// decide carries out a decision about votes on all nodes, or withdraws it.
func (p *pages) decide(ctx context.Context, d *vote.Decision) error {
	e := p.gateway.engine.Load()
	if d.Action == vote.More {
		minutes := int64(vote.MoreMinutes)
		if !d.Ended.IsZero() {
			minutes = 0
		}
		_, err := e.Decisions.GiveTime(d.Who, minutes, time.Now(), d.By)
		return err
	}
	if name, c, ok := p.listed(d); ok {
		return p.gateway.node.ChangeLists(ctx, map[string][]list.Change{name: {c}})
	}
	return e.Decisions.Rule(siteDecision(d), !d.Ended.IsZero(), d.By)
}
