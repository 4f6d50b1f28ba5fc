package squid

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// maxClients bounds the policies that are made from a configuration. Acls of clients that
// overlap in every way would need a policy for each combination.
const maxClients = 300

// clients divides the clients into sets, in the order in which policies must be
// tested: narrow networks before wide ones, users before all clients at an
// address.
func (c *config) clients() (all []*build.Clients) {
	used := map[string]*acl{}
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
	for _, name := range slices.Sorted(maps.Keys(used)) {
		a := used[name]
		if to := map[string]map[string][]string{"proxy_auth": users, "group": members}[a.kind]; to != nil {
			for _, v := range a.values {
				to[v] = append(to[v], name)
			}
			continue
		}
		nets := networksOf(a.values)
		for _, v := range a.values {
			if len(networksOf([]string{v})) == 0 {
				c.w.Report.Add(&report.Note{Kind: report.Lost, Place: a.at, What: "acl " + name + " src " + v, Ours: "policies: networks", Why: "neither an address nor a network: write the addresses that it stands for into the networks of the policies that are called so"})
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
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if a := used[name]; a.kind == "src" && build.Covers(networksOf(a.values), p) {
				of[p] = append(of[p], name)
			}
		}
	}
	slices.SortStableFunc(prefixes, func(a, b netip.Prefix) int { return b.Bits() - a.Bits() })
	var groups []*build.Clients
	for _, p := range prefixes {
		groups = build.Join(groups, p, of[p])
	}
	groups = append(groups, &build.Clients{})
	people := append(c.grouped(users, false), c.grouped(members, true)...)
	for _, g := range groups {
		for _, x := range people {
			all = append(all, &build.Clients{Names: append(slices.Clone(x.Names), g.Names...), Networks: g.Networks, Users: x.Users, Groups: x.Groups})
		}
		all = append(all, g)
	}
	if len(all) > maxClients {
		c.w.Report.Add(&report.Note{Kind: report.Lost, Place: report.Place{File: c.dir}, What: fmt.Sprintf("%d combinations of acls about clients", len(all)), Why: fmt.Sprintf("a policy is made of %d of them at most, and of everybody else: give clients fewer acls that overlap", maxClients)})
		all = append(all[:maxClients-1], all[len(all)-1])
	}
	return all
}

// grouped puts users, or groups, together that the same acls match. Those that an earlier line of
// http_access names come first.
func (c *config) grouped(acls map[string][]string, groups bool) (all []*build.Clients) {
	byUse := map[string]*build.Clients{}
	for _, v := range slices.Sorted(maps.Keys(acls)) {
		key := strings.Join(acls[v], "\x00")
		x := byUse[key]
		if x == nil {
			x = &build.Clients{Names: acls[v]}
			byUse[key], all = x, append(all, x)
		}
		if groups {
			x.Groups = append(x.Groups, v)
		} else {
			x.Users = append(x.Users, v)
		}
	}
	first := func(x *build.Clients) int {
		return slices.IndexFunc(c.access, func(l access) bool {
			return slices.ContainsFunc(l.names, func(n string) bool { return slices.Contains(x.Names, strings.TrimPrefix(n, "!")) })
		})
	}
	slices.SortStableFunc(all, func(a, b *build.Clients) int { return first(a) - first(b) })
	return all
}

// concernsOnly reports whether the named acls about clients match exactly these clients.
func (c *config) concernsOnly(names []string, who *build.Clients) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		name, not := strings.CutPrefix(n, "!")
		a := c.acls[name]
		return a != nil && (a.kind == "src" || a.kind == "group" || a.kind == "proxy_auth" && !a.coversUsers()) && who.Is(name) == not
	})
}

// expand replaces acls made of acls: any-of becomes a line for each, all-of its contents. After
// "!", each is treated like the other.
func (c *config) expand(lines []access) (all []access) {
	for _, l := range lines {
		sets := c.alternatives(l.names, 0)
		if sets == nil {
			n := closes(c, l, fmt.Sprintf("nested acls that give more than %d combinations, or include themselves: write the line with fewer", maxAlternatives))
			n.Place, n.What = l.at, l.at.Text
			c.w.Report.Add(n)
			if !l.allow {
				sets = [][]string{{"all"}}
			}
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
func (c *config) alternatives(names []string, depth int) [][]string {
	all := [][]string{{}}
	for _, n := range names {
		name, not := strings.CutPrefix(n, "!")
		a := c.acls[name]
		switch {
		case a != nil && a.kind == "proto" && not:
			all = product(all, [][]string{{n}, {"CONNECT"}}) // a tunnel has no scheme
		case a == nil || a.kind != "any-of" && a.kind != "all-of":
			all = product(all, [][]string{{n}})
		case depth >= input.MaxDepth:
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
func (c *config) alternativesOf(names []string, depth int) (sets [][]string) {
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
