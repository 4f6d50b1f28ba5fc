package blocky

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// listsOf collects the lists of a group.
func (b *config) listsOf(p *build.Plain, group string) *build.Plain {
	g := b.groups[group]
	if g == nil {
		g = &build.Plain{Work: p.Work, Suffix: "-" + group}
		b.groups[group] = g
	}
	g.At = p.At
	return g
}

// finish makes a policy for each kind of clients: first the rules by which their groups allow,
// then those by which they block. A client that the settings do not name has the groups of
// "default".
func (b *config) finish(w *build.Work, at report.Place) error {
	rules := map[string][]policy.Rule{}
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		g := b.groups[name]
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(b.clients)), func(c string) bool { return slices.Contains(b.clients[c], name) }) {
			w.Report.Add(&report.Note{Kind: report.Default, Place: g.At, What: "lists of group " + name, Why: "this group has no client"})
			continue
		}
		var err error
		if rules[name], err = g.Rules(); err != nil {
			return err
		}
		if !b.denies[name] { // only allowed hosts
			rules[name] = append(rules[name], policy.Rule{Name: "others than of " + name, Action: "block"})
		}
	}
	of := func(groups []string) (all []policy.Rule) {
		for _, action := range []string{"allow", "block"} {
			for _, name := range groups {
				for _, r := range rules[name] {
					if r.Action == action && !slices.ContainsFunc(all, func(x policy.Rule) bool { return x.Name == r.Name }) {
						all = append(all, r)
					}
				}
			}
		}
		return all
	}
	everyone := w.MainPolicy()
	types := everyone.Rules // which are refused to all clients
	everyone.Rules = append(of(b.clients["default"]), types...)
	var all policy.Config
	var unknown []policy.Rule // of clients that nothing identifies
	for _, client := range slices.Sorted(maps.Keys(b.clients)) {
		if client == "default" {
			continue
		}
		p := policy.Policy{Name: "clients " + client}
		if n, err := input.Network(client); err == nil {
			p.Networks = []policy.Network{{Prefix: n}}
		} else {
			p.Users = b.named(w, client)
		}
		p.Rules = append(of(b.groupsOf(w, client, p)), types...)
		if len(p.Networks)+len(p.Users) == 0 {
			n := report.ByHand("policies", "clients are identified by address: give this name addresses under identity: addresses, and write a policy with users; until then its groups block for everybody")
			n.Place, n.What = at, fmt.Sprintf("blocking.clientGroupsBlock: %s", client)
			w.Report.Add(n.Closing())
			unknown = append(unknown, of(b.clients[client])...)
			continue
		}
		all = append(all, p)
	}
	for i := range all {
		all[i].Rules = withBlocks(all[i].Rules, unknown)
	}
	everyone.Rules = withBlocks(everyone.Rules, unknown)
	slices.SortStableFunc(all, func(x, y policy.Policy) int { return narrow(y) - narrow(x) })
	w.Set.Policies = append(all, w.Set.Policies...)
	return nil
}

// groupsOf returns the groups of the clients that a policy is for, which key names: those of key,
// and of each other key that covers such a client, because Blocky adds up all that match.
func (b *config) groupsOf(w *build.Work, key string, p policy.Policy) []string {
	all := slices.Clone(b.clients[key])
	for _, other := range slices.Sorted(maps.Keys(b.clients)) {
		if other == key || !b.covers(w, other, p) {
			continue
		}
		for _, g := range b.clients[other] {
			if !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// covers reports whether a key names a client of a policy as well: it is a network with the policy's,
// or with an address of one of its users, or a pattern of their names.
func (b *config) covers(w *build.Work, key string, p policy.Policy) bool {
	n, err := input.Network(key)
	if err != nil {
		named := b.named(w, key)
		return slices.ContainsFunc(p.Users, func(u string) bool { return slices.Contains(named, u) })
	}
	if len(p.Networks) > 0 {
		return n.Bits() <= p.Networks[0].Bits() && n.Contains(p.Networks[0].Addr())
	}
	return slices.ContainsFunc(p.Users, func(u string) bool {
		return slices.ContainsFunc(w.Set.Identity.Addresses[u], func(a string) bool {
			addr, err := netip.ParseAddr(a)
			return err == nil && n.Contains(addr)
		})
	})
}

// withBlocks adds those rules that block, and are not there.
func withBlocks(rules, more []policy.Rule) []policy.Rule {
	for _, r := range more {
		if r.Action == "block" && !slices.ContainsFunc(rules, func(x policy.Rule) bool { return x.Name == r.Name }) {
			rules = append(rules, r)
		}
	}
	return rules
}

// named returns the users that a name or pattern is about, if the settings have their
// addresses.
func (b *config) named(w *build.Work, pattern string) (users []string) {
	for _, name := range slices.Sorted(maps.Keys(w.Set.Identity.Addresses)) {
		if ok, err := path.Match(pattern, name); name == pattern || ok && err == nil {
			users = append(users, name)
		}
	}
	return users
}

// narrow tells how few addresses a policy is about: the bits of its network, and more for
// users.
func narrow(p policy.Policy) int {
	if len(p.Networks) == 0 {
		return 1000
	}
	n := p.Networks[0]
	return n.Bits() + 128 - n.Addr().BitLen()
}
