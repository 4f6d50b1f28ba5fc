package unbound

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules decide as Unbound does: by the zones and data of the client's view, and those of all clients
// if the client has no view or its view begins with itself; by zones with tags for clients with one
// of these; and by kinds of zones that are others for some networks.
type rules struct {
	local  local             // of all clients
	views  map[string]*local // by name
	viewOf map[netip.Prefix]string
	tags   tags
	mu     sync.Mutex
	made   map[netip.Addr]*original.Names // guarded by mu; by client
}

// local has zones and data of one part of the settings.
type local struct {
	zones []localZone
	data  map[string]string // where a name has an answer
	first bool              // a view: what it does not have, the settings of all clients decide
}

type localZone struct{ name, kind, at string }

// Rules reads local-zone and local-data of unbound.conf, its views and tags. Data answer within a
// zone, except within those that always refuse.
func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "unbound.conf")
	u := &rules{views: map[string]*local{}, viewOf: map[netip.Prefix]string{}, tags: tags{of: map[string][]string{}}, made: map[netip.Addr]*original.Names{}}
	u.local.data = map[string]string{}
	now := &u.local
	err := s.Options(file, optionFiles(), func(at, key, value string) {
		f := strings.Fields(strings.NewReplacer(`"`, " ", "'", " ").Replace(value))
		if value == "" && slices.Contains(sections, key) {
			if now = &u.local; key == "view" {
				now = &local{data: map[string]string{}}
			}
			if key == "rpz" {
				s.Untested("%s: %s", at, key)
			}
			return
		}
		switch {
		case key == "name" && now != &u.local && len(f) == 1:
			u.views[f[0]] = now
		case key == "view-first":
			now.first = len(f) == 1 && f[0] == "yes"
		case key == "local-zone" && len(f) > 1:
			now.zones = append(now.zones, localZone{strings.ToLower(strings.TrimSuffix(f[0], ".")), f[1], at})
		case key == "local-data" && len(f) > 1:
			now.data[strings.ToLower(strings.TrimSuffix(f[0], "."))] = at
		case key == "local-zone-tag" && len(f) > 1:
			u.tags.of[strings.ToLower(strings.Trim(f[0], "."))] = f[1:]
		case key == "access-control" && len(f) > 1:
			if n, err := input.Network(f[0]); err == nil {
				u.tags.client(n) // of the networks around a client the narrowest counts, also for tags
			}
		case key == "access-control-tag", key == "access-control-tag-action", key == "local-zone-override":
			u.tags.take(key, value)
		case key == "access-control-view" && len(f) == 2:
			if n, err := input.Network(f[0]); err == nil {
				u.viewOf[n] = f[1]
			}
		}
	})
	return u, err
}

func (u *rules) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	return u.of(t.Client.Addr).Decide(ctx, t, stage)
}

// of returns the names for a client.
func (u *rules) of(client netip.Addr) *original.Names {
	u.mu.Lock()
	defer u.mu.Unlock()
	if z := u.made[client]; z != nil {
		return z
	}
	z := original.NewNames()
	n := netip.PrefixFrom(client, client.BitLen())
	view := u.views[narrowest(u.viewOf, n)]
	if view == nil || view.first {
		u.local.add(z, func(x localZone) string { return u.kind(x, n) })
	}
	if view != nil {
		view.add(z, func(x localZone) string { return x.kind })
	}
	u.made[client] = z
	return z
}

// kind returns the kind that a zone has for a network, or "" if it is not for that.
func (u *rules) kind(x localZone, n netip.Prefix) string {
	kind, c := x.kind, narrowest(u.tags.clients, n)
	if tags, tagged := u.tags.of[x.name]; tagged {
		if !c.hasAny(tags) {
			return ""
		}
		for _, tag := range tags {
			if k := c.kinds[tag]; k != "" && slices.Contains(c.tags, tag) {
				kind = k
				break
			}
		}
	}
	return cmp.Or(narrowest(u.tags.overrides[x.name], n), kind)
}

// add adds zones by their kind, and data.
func (l *local) add(z *original.Names, kind func(localZone) string) {
	redirected := map[string]bool{}
	for _, x := range l.zones {
		switch k := kind(x); k {
		case "":
		case "static", "refuse", "deny", "redirect", "inform_deny", "inform_redirect":
			z.Zones[x.name], redirected[x.name] = original.Decision{Refuse: true, By: x.at}, strings.HasSuffix(k, "redirect")
		case "always_nxdomain", "always_refuse", "always_null", "always_deny", "always_nodata":
			z.Zones[x.name] = original.Decision{Refuse: true, By: x.at + " always"}
		default: // transparent and similar kinds, nodefault
			z.Zones[x.name] = original.Decision{By: x.at}
		}
	}
	for name, at := range l.data {
		of := input.FirstParent(name, func(n string) bool { _, ok := z.Zones[n]; return ok })
		if d := z.Zones[of]; !strings.HasSuffix(d.By, " always") {
			z.Exact[name] = original.Decision{By: at}
			if of == name && redirected[name] { // its data include the names below it
				z.Zones[name] = original.Decision{By: at}
			}
		}
	}
}
