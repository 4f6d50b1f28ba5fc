package importer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/arrange"
	"shuultuur/policy"
)

// squidClients are clients that every line of squid.conf treats alike: the same acls of type
// src and proxy_auth match them.
type squidClients struct {
	names    []string // names of these acls, sorted
	networks []policy.Network
	users    []string
	groups   []string
}

// maxSquidClients bounds the policies that are made from a configuration. Acls of clients that
// overlap in every way would need a policy for each combination.
const maxSquidClients = 300

// is reports whether an acl matches these clients. Without particular clients (nil) every acl
// does.
func (k *squidClients) is(name string) bool { return k == nil || slices.Contains(k.names, name) }

// name returns the name of their policy.
func (k *squidClients) name() string {
	if len(k.names) == 0 {
		return "everyone else"
	}
	return strings.Join(k.names, "+")
}

// clients divides the clients into sets, in the order in which policies must be
// tested: narrow networks before wide ones, users before all clients at an
// address.
func (c *squidConf) clients() (all []*squidClients) {
	used := map[string]*squidACL{}
	for _, l := range slices.Concat(c.access, c.replies, c.bumps) {
		for _, n := range l.names {
			n = strings.TrimPrefix(n, "!")
			if a := c.acls[n]; a != nil && n != "all" && (a.kind == "src" || a.kind == "group" || a.kind == "proxy_auth" && !a.coversUsers()) {
				used[n] = a
			}
		}
	}
	of := map[netip.Prefix][]string{}
	users, members := map[string][]string{}, map[string][]string{} // acls of a user, and of a group
	var prefixes []netip.Prefix
	for _, name := range sortedKeys(used) {
		a := used[name]
		if to := map[string]map[string][]string{"proxy_auth": users, "group": members}[a.kind]; to != nil {
			for _, v := range a.values {
				to[v] = append(to[v], name)
			}
			continue
		}
		nets := squidNetworks(a.values)
		for _, v := range a.values {
			if len(squidNetworks([]string{v})) == 0 {
				c.rep.add(&Note{Kind: Lost, place: a.at, What: "acl " + name + " src " + v, Ours: "policies: networks", Why: "neither an address nor a network: write the addresses that it stands for into the networks of the policies that are called so"})
			}
		}
		for _, n := range nets {
			if _, known := of[n.Prefix]; !known {
				prefixes = append(prefixes, n.Prefix)
			}
			of[n.Prefix] = nil
		}
	}
	for _, p := range prefixes {
		for _, name := range sortedKeys(used) {
			if a := used[name]; a.kind == "src" && contains(squidNetworks(a.values), p) {
				of[p] = append(of[p], name)
			}
		}
	}
	arrange.By(prefixes, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	var groups []*squidClients
	for _, p := range prefixes {
		groups = joinNetwork(groups, p, of[p])
	}
	groups = append(groups, &squidClients{})
	people := append(c.grouped(users, false), c.grouped(members, true)...)
	for _, g := range groups {
		for _, x := range people {
			all = append(all, &squidClients{append(slices.Clone(x.names), g.names...), g.networks, x.users, x.groups})
		}
		all = append(all, g)
	}
	if len(all) > maxSquidClients {
		c.rep.add(&Note{Kind: Lost, place: place{file: c.dir}, What: fmt.Sprintf("%d combinations of acls about clients", len(all)), Why: fmt.Sprintf("a policy is made of %d of them at most, and of everybody else: give clients fewer acls that overlap", maxSquidClients)})
		all = append(all[:maxSquidClients-1], all[len(all)-1])
	}
	return all
}

// grouped puts users, or groups, together that the same acls match. Those that an earlier line of
// http_access names come first.
func (c *squidConf) grouped(acls map[string][]string, groups bool) (all []*squidClients) {
	byUse := map[string]*squidClients{}
	for _, v := range sortedKeys(acls) {
		key := strings.Join(acls[v], "\x00")
		x := byUse[key]
		if x == nil {
			x = &squidClients{names: acls[v]}
			byUse[key], all = x, append(all, x)
		}
		if groups {
			x.groups = append(x.groups, v)
		} else {
			x.users = append(x.users, v)
		}
	}
	first := func(x *squidClients) int {
		return slices.IndexFunc(c.access, func(l squidAccess) bool {
			return slices.ContainsFunc(l.names, func(n string) bool { return slices.Contains(x.names, strings.TrimPrefix(n, "!")) })
		})
	}
	arrange.By(all, func(a, b *squidClients) int { return first(a) - first(b) })
	return all
}

// concernsOnly reports whether the named acls about clients match exactly these clients.
func (c *squidConf) concernsOnly(names []string, who *squidClients) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		name, not := strings.CutPrefix(n, "!")
		a := c.acls[name]
		return a != nil && (a.kind == "src" || a.kind == "group" || a.kind == "proxy_auth" && !a.coversUsers()) && who.is(name) == not
	})
}

// contains reports whether one of the networks contains p.
func contains(all []policy.Network, p netip.Prefix) bool {
	return slices.ContainsFunc(all, func(n policy.Network) bool { return n.Bits() <= p.Bits() && n.Contains(p.Addr()) })
}

// joinNetwork adds a network to the group with the same acls, unless a later group has a part
// of it, which would then not be reached.
func joinNetwork(groups []*squidClients, p netip.Prefix, names []string) []*squidClients {
	n := policy.Network{Prefix: p}
	for i := len(groups) - 1; i >= 0; i-- {
		if slices.Equal(groups[i].names, names) {
			groups[i].networks = append(groups[i].networks, n)
			return groups
		}
		if slices.ContainsFunc(groups[i].networks, func(x policy.Network) bool { return p.Contains(x.Addr()) }) {
			break
		}
	}
	return append(groups, &squidClients{names: names, networks: []policy.Network{n}})
}

// expand replaces acls made of acls: any-of becomes a line for each, all-of its contents. After
// "!", each is treated like the other.
func (c *squidConf) expand(lines []squidAccess) (all []squidAccess) {
	for _, l := range lines {
		sets := c.alternatives(l.names, 0)
		if sets == nil {
			c.rep.add(&Note{Kind: Lost, place: l.at, What: l.at.what, Why: fmt.Sprintf("nested acls that give more than %d combinations, or include themselves: write the line with fewer", maxAlternatives)})
		}
		for _, names := range sets {
			l.names = names
			all = append(all, l)
		}
	}
	return all
}

// maxAlternatives bounds the conditions into which one line may expand.
const maxAlternatives = 64

// alternatives returns the sets of acls of which one must match, or nil if there are too many.
func (c *squidConf) alternatives(names []string, depth int) [][]string {
	all := [][]string{{}}
	for _, n := range names {
		name, not := strings.CutPrefix(n, "!")
		a := c.acls[name]
		switch {
		case a == nil || a.kind != "any-of" && a.kind != "all-of":
			all = product(all, [][]string{{n}})
		case depth >= maxDepth:
			return nil
		case a.kind == "any-of" && !not:
			all = product(all, c.alternativesOf(slices.Concat(a.lines...), depth))
		case a.kind == "any-of":
			all = product(all, c.alternatives(opposite(slices.Concat(a.lines...)), depth+1))
		case !not:
			var sets [][]string
			for _, line := range a.lines {
				sets = append(sets, c.alternatives(line, depth+1)...)
			}
			all = product(all, sets)
		default:
			for _, line := range a.lines {
				all = product(all, c.alternativesOf(opposite(line), depth))
			}
		}
		if len(all) == 0 {
			return nil
		}
	}
	return all
}

// alternativesOf returns the alternatives, each of which is one of names.
func (c *squidConf) alternativesOf(names []string, depth int) (sets [][]string) {
	for _, n := range names {
		sets = append(sets, c.alternatives([]string{n}, depth+1)...)
	}
	return sets
}

// product joins each set of the first with each of the second; nil if there are too many.
func product(some, others [][]string) (all [][]string) {
	if len(some)*len(others) > maxAlternatives {
		return nil
	}
	for _, x := range some {
		for _, y := range others {
			all = append(all, slices.Concat(x, y))
		}
	}
	return all
}

// opposite negates names.
func opposite(names []string) (all []string) {
	for _, n := range names {
		if rest, was := strings.CutPrefix(n, "!"); was {
			all = append(all, rest)
		} else {
			all = append(all, "!"+n)
		}
	}
	return all
}
