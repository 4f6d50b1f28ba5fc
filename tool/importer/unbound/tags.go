package unbound

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/policy"
	"shuultuur/tool/importer/build"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/report"
)

// tags has zones that only clients with one of their tags get, and zones of another kind
// for some clients. Of the networks around a client the narrowest counts.
type tags struct {
	file      string
	some      bool                // whether some clients have settings of their own
	of        map[string][]string // tags of zones, by name
	zones     []tagged
	clients   map[netip.Prefix]*client
	overrides map[string]map[netip.Prefix]string // kinds of zones
}

// An tagged is a zone that has tags.
type tagged struct{ name, kind string }

// An client has the settings for the clients in a network.
type client struct {
	tags  []string
	kinds map[string]string // kinds of zones, by tag
}

// kindOf returns whether a kind of zone refuses names, and whether the kind is known.
func kindOf(kind string) (blocks, known bool) {
	if slices.Contains([]string{"static", "refuse", "deny", "always_nxdomain", "always_refuse", "always_deny", "always_null", "always_nodata", "redirect", "inform_deny", "inform_redirect", "block_a"}, kind) {
		return true, true
	}
	return false, slices.Contains([]string{"transparent", "typetransparent", "always_transparent", "nodefault", "inform"}, kind)
}

// client returns the settings for a network.
func (t *tags) client(n netip.Prefix) *client {
	if t.clients == nil {
		t.clients = map[netip.Prefix]*client{}
	}
	if t.clients[n] == nil {
		t.clients[n] = &client{kinds: map[string]string{}}
	}
	return t.clients[n]
}

// take converts an option about the tags and kinds of zones that some clients get.
func (t *tags) take(key, value string) *report.Note {
	f := fields(value)
	if len(f) < 2 || key != "access-control-tag" && len(f) != 3 {
		return report.ByHand("policies", "words are missing: write a policy with the network, and a rule with a list of the names")
	}
	zone := ""
	if key == "local-zone-override" {
		zone, f = strings.ToLower(strings.Trim(f[0], ".")), f[1:]
	}
	n, err := input.Network(f[0])
	if err != nil {
		return report.ByHand("policies", err.Error())
	}
	kind := f[len(f)-1]
	if _, known := kindOf(kind); !known && key != "access-control-tag" {
		return report.ByHand("policies", kind+" is not a kind of zone that is known: write a policy with the network, and a rule with a list of the names")
	}
	switch key {
	case "access-control-tag":
		c := t.client(n)
		c.tags, t.some = append(c.tags, f[1:]...), true
	case "access-control-tag-action":
		t.client(n).kinds[f[1]] = kind
	default:
		if t.overrides == nil {
			t.overrides = map[string]map[netip.Prefix]string{}
		}
		if t.overrides[zone] == nil {
			t.overrides[zone] = map[netip.Prefix]string{}
		}
		t.overrides[zone][n], t.some = kind, true
	}
	return report.Same("policies: networks")
}

// narrowest returns the settings for the narrowest network around n.
func narrowest[T any](all map[netip.Prefix]T, n netip.Prefix) (is T) {
	bits := -1
	for p, v := range all {
		if p.Bits() > bits && p.Bits() <= n.Bits() && p.Contains(n.Addr()) {
			is, bits = v, p.Bits()
		}
	}
	return is
}

// hasAny reports whether clients have one of some tags.
func (c *client) hasAny(tags []string) bool {
	return c != nil && slices.ContainsFunc(tags, func(tag string) bool { return slices.Contains(c.tags, tag) })
}

// lines returns the names that are refused to the clients in n: everybody's, changed by the
// clients' own settings, and those of their tags.
func (t *tags) lines(n netip.Prefix, everybodys []report.Place) (all []report.Place) {
	c, kinds := narrowest(t.clients, n), map[string]string{}
	for _, z := range t.zones {
		if !c.hasAny(t.of[z.name]) {
			continue
		}
		kinds[z.name] = z.kind
		for _, tag := range t.of[z.name] {
			if kind := c.kinds[tag]; kind != "" && slices.Contains(c.tags, tag) {
				kinds[z.name] = kind
				break
			}
		}
	}
	for zone, of := range t.overrides {
		kind := narrowest(of, n)
		if _, tagged := t.of[zone]; kind != "" && (!tagged || kinds[zone] != "") {
			kinds[zone] = kind
		}
	}
	for _, line := range everybodys {
		if kinds[strings.Trim(line.Text, "@|^")] == "" {
			all = append(all, line)
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(kinds)) {
		blocks, _ := kindOf(kinds[zone])
		all = append(all, report.Place{File: t.file, Text: build.ZoneRule(blocks, zone)})
	}
	return all
}

// policies returns policies for clients that get other names than everybody, who has rules.
// tagged has rules of which each is for the clients with one of its tags.
func (t *tags) policies(w *build.Work, file string, everybodys []report.Place, rules []policy.Rule, tagged map[string][]string) (all policy.Config, err error) {
	if !t.some {
		return nil, nil
	}
	nets := map[netip.Prefix]bool{}
	for n := range t.clients {
		nets[n] = true
	}
	for _, of := range t.overrides {
		for n := range of {
			nets[n] = true
		}
	}
	ordered := make([]netip.Prefix, 0, len(nets))
	for n := range nets {
		ordered = append(ordered, n)
	}
	slices.SortStableFunc(ordered, func(a, b netip.Prefix) int { return cmp.Or(b.Bits()-a.Bits(), a.Addr().Compare(b.Addr())) })
	var groups []*build.Clients // clients that get the same names
	for _, n := range ordered {
		groups = build.Join(groups, n, t.names(n, everybodys, tagged))
	}
	everybody := (&tags{}).names(netip.Prefix{}, everybodys, nil)
	for n := len(groups); n > 0 && slices.Equal(groups[n-1].Names, everybody); n-- {
		groups = groups[:n-1] // they need no policy
	}
	for i, g := range groups {
		p := policy.Policy{Name: fmt.Sprintf("clients of %s", g.Networks[0].Prefix), Networks: g.Networks}
		if slices.Equal(g.Names, everybody) {
			p.Rules = rules
			all = append(all, p)
			continue
		}
		category := fmt.Sprintf("blocked-%d", i+1)
		path, err := w.OwnLines(category, t.lines(g.Networks[0].Prefix, everybodys))
		if err != nil {
			return nil, err
		}
		name, err := w.AddList(category, build.ListOfZones(path, category), report.Place{File: file, Text: "names for the clients of " + g.Networks[0].String()})
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.Name != "blocked" {
				p.Rules = append(p.Rules, r)
			}
		}
		for _, rule := range slices.Sorted(maps.Keys(tagged)) {
			if narrowest(t.clients, g.Networks[0].Prefix).hasAny(tagged[rule]) {
				p.Rules = append(p.Rules, policy.Rule{Name: rule, Action: "block", Category: []string{"category/" + rule}})
			}
		}
		if name != "" {
			p.Rules = append(p.Rules, policy.Rule{Name: "blocked", Action: "block", Category: []string{"category/" + category}})
		}
		all = append(all, p)
	}
	return all, nil
}

// names returns the lines for the clients in n, and the rules of their tags.
func (t *tags) names(n netip.Prefix, everybodys []report.Place, tagged map[string][]string) (all []string) {
	for _, l := range t.lines(n, everybodys) {
		all = append(all, l.Text)
	}
	for _, rule := range slices.Sorted(maps.Keys(tagged)) {
		if narrowest(t.clients, n).hasAny(tagged[rule]) {
			all = append(all, rule)
		}
	}
	return all
}
