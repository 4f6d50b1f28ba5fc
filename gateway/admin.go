package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/alert"
	"shuultuur/cache"
	"shuultuur/check"
	"shuultuur/engine"
	"shuultuur/filter"
	"shuultuur/fleet"
	"shuultuur/list"
	"shuultuur/list/collection"
	"shuultuur/list/source"
	"shuultuur/policy"
	"shuultuur/vote"
	"shuultuur/zone/authority"
)

// pages provides the admin server with the data and actions of a gateway.
type pages struct{ *Gateway }

// newAdmin returns the server of the admin address.
func (g *pages) newAdmin(first *engine.Engine) (*admin.Server, error) {
	access, err := g.openAccess(first)
	if err != nil {
		return nil, err
	}
	health := func() admin.Health {
		h := g.health()
		if err := access.Audit.Problem(); err != nil {
			h.Problems = append(h.Problems, fmt.Sprintf("changes on the pages are refused while they cannot be recorded: %v", err))
		}
		return h
	}
	parts := admin.Parts{Metrics: g.metrics.handler, Health: health, Token: first.Settings.Listen.Token,
		Lists:    (&admin.Lists{In: g.lists, Change: g.node.ChangeLists, Use: g.ReloadAndLog, Arriving: g.refresher.Progress}).ShowLists(),
		Pause:    &admin.Pause{All: func() []policy.Pause { return g.engine.Load().Pauses.At(time.Now()) }, Set: g.pause},
		Root:     g.host.Root,
		Refusals: func() any { return g.engine.Load().Proxy.Refusals() },
		Quotas:   g.quotas,
		Access:   access,
		Sessions: &admin.Sessions{All: first.Sessions.All, Start: first.Sessions.Start, End: first.Sessions.End},
		Live:     &g.metrics.live,
		Texts:    g.host.Texts,
		Rulings:  &admin.Rulings{All: func() []policy.Decision { return g.engine.Load().Rulings.Sites(time.Now()) }, Set: g.rule, Groups: access.Groups},
		Explain:  g.explain,
		Settings: g.settingsParts(first.Settings),
		Setup:    g.setup.Load,
		Clients:  g.clientsParts(),
		System:   g.systemParts(),
		Watching: g.watching(),
	}
	if first.Votes != nil && first.Votes.Desk() != nil {
		parts.Votes = &admin.Votes{Desk: first.Votes.Desk()}
	}
	parts.Effect = g.effect
	parts.Checks = func() *check.Set { return g.engine.Load().Checks }
	parts.Remarks = func() []admin.Remark {
		if all := g.remarks.Load(); all != nil {
			return *all
		}
		return nil
	}
	parts.Devices = func() string {
		if e := g.engine.Load(); e.Welcome != nil {
			return e.Settings.PortalPlace().URL
		}
		return ""
	}
	if first.Zones != nil {
		parts.Zones = func() *authority.Authority { return g.engine.Load().Zones }
	}
	if first.Forward != nil {
		parts.NameServer = g.namesParts()
	}
	if first.Stored != nil {
		parts.Cache = g.cacheParts()
	}
	if r := first.Events.Reader(); r != nil {
		parts.Events = &admin.Events{Reader: r, Names: g.clientNames, Searches: access.Searches}
	}
	for _, n := range first.Settings.Listen.Monitors {
		parts.Monitors = append(parts.Monitors, n.Prefix)
	}
	return admin.New(parts), nil
}

// cacheParts returns the parts of the admin address for the cache in use.
func (g *pages) cacheParts() *admin.Cache {
	return &admin.Cache{
		Stats: func() any {
			if c := g.engine.Load().Stored; c != nil {
				return c.Stats()
			}
			return cache.Stats{}
		},
		Look: func(url string, fields [][2]string) (any, error) {
			c := g.engine.Load().Stored
			if c == nil {
				return nil, fleet.ErrNoCache
			}
			return c.Look(url, fields, time.Now())
		},
		Purge: g.node.Purge,
	}
}

// lists returns the lists in use, and the client that fetches them.
func (g *pages) lists() (*collection.Collection, *http.Client) {
	e := g.engine.Load()
	return e.Lists, e.Settings.Fetcher()
}

// fetched returns the store of fetched items, and the items.
func (g *Gateway) fetched() (*source.Store, source.Items) {
	e := g.engine.Load()
	return source.In(string(e.Settings.Data), e.Settings.Fetcher()), e.Fetched()
}

// pause pauses filtering for who (see [policy.Pause]) until a time. It resumes
// filtering if that time is not in the future, and for everyone if who is "".
// by is the address of the request.
func (g *pages) pause(who string, until time.Time, by netip.Addr) error {
	e, now := g.engine.Load(), time.Now()
	if who = strings.TrimSpace(who); who != "" {
		var err error
		if who, err = e.NormaliseWho(who); err != nil {
			return err
		}
	}
	message, err := e.Pauses.Set(who, until, now, by.String())
	if err != nil {
		return &admin.BadChange{Err: err}
	}
	if message == "" {
		return nil
	}
	g.note(by, "pause", message)
	return nil
}

// quotas returns what is left of a client's quotas.
func (g *pages) quotas(ctx context.Context, policy string, addr netip.Addr, user string) admin.Quotas {
	e := g.engine.Load()
	c := filter.Client{Addr: addr, User: user}
	if user == "" {
		if who, err := e.Identify(ctx, addr); err == nil {
			c = who
		}
	}
	q := admin.Quotas{User: c.User}
	q.Policy, q.Quotas = e.Policies.Balance(ctx, policy, &c, time.Now())
	return q
}

// clientNames returns names of devices. It queries the DNS if the settings have
// a route for reverse names.
func (g *pages) clientNames(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string {
	e := g.engine.Load()
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

// watching returns the parts of the admin address that alert people.
func (g *pages) watching() admin.Watching {
	return admin.Watching{Alerts: func() *alert.Desk {
		if e := g.engine.Load(); e != nil && e.Alerts != nil {
			return e.Alerts.Desk
		}
		return nil
	}, Pictures: &g.pictures}
}

// decide carries out a decision about votes on all nodes, or withdraws it.
func (g *pages) decide(ctx context.Context, d *vote.Decision) error {
	e := g.engine.Load()
	if name, c, ok := g.listed(d); ok {
		return g.node.ChangeLists(ctx, map[string][]list.Change{name: {c}})
	}
	return e.Rulings.Rule(siteDecision(d), !d.Ended.IsZero(), d.By)
}
