package opnsense

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"shuultuur/filter"
	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// rules decide as OPNsense's name server does: what is in its overrides is answered; a block list
// applies to its networks, and what it allows is an exception from it alone.
type rules struct {
	own   *original.Names
	lists []blocklist
}

type blocklist struct {
	networks []netip.Prefix // of its clients; none: all
	names    *original.Names
}

// Rules reads the lists of names of the name server, and its overrides.
func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "config.xml")
	data, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	root, err := readXML(data)
	if err != nil {
		return nil, err
	}
	unbound := nameServer(root.at("opnsense"))
	u := &rules{own: original.NewNames()}
	lists := []*xmlNode{unbound.at("dnsbl")}
	unbound.at("dnsbl").eachChild("blocklist", func(n *xmlNode) { lists = append(lists, n) })
	for i, b := range lists {
		if b.at("enabled").text != "0" {
			u.lists = append(u.lists, readBlocklist(s, b, "dnsbl "+strconv.Itoa(i)))
		}
	}
	unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if h.at("enabled").text != "0" {
			name := strings.ToLower(strings.Trim(h.at("hostname").text+"."+h.at("domain").text, "."))
			u.own.Allowed[name] = "hosts: " + name
		}
	})
	return u, nil
}

func readBlocklist(s *original.Source, b *xmlNode, by string) blocklist {
	l := blocklist{names: original.NewNames()}
	for _, text := range b.at("source_nets").values() {
		n, err := input.Network(text)
		if err != nil {
			s.Untested("%s: source_nets %s", by, text)
			continue
		}
		l.networks = append(l.networks, n)
	}
	for _, u := range append(b.at("lists").values(), b.at("type").values()...) {
		s.Untested("dnsbl: %s is fetched", u)
	}
	for _, name := range b.at("blocklists").values() {
		l.names.Exact[strings.ToLower(name)] = original.Decision{Refuse: true, By: by + ": " + name}
	}
	for _, name := range b.at("wildcards").values() {
		l.names.Below(name, by+": "+name, true)
	}
	for _, key := range []string{"whitelists", "allowlists"} {
		for _, name := range b.at(key).values() {
			if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
				s.Untested("dnsbl: expression %s", name)
				continue
			}
			l.names.Below(name, by+": "+key+" "+name, false)
		}
	}
	return l
}

func (u *rules) Decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (original.Decision, bool) {
	d, ok := u.own.Decide(ctx, t, stage)
	if !ok || d.By != original.NoRule {
		return d, ok
	}
	for _, l := range u.lists {
		if len(l.networks) > 0 && !slices.ContainsFunc(l.networks, func(n netip.Prefix) bool { return n.Contains(t.Client.Addr) }) {
			continue
		}
		if d, _ := l.names.Decide(ctx, t, stage); d.Refuse {
			return d, true
		}
	}
	return d, true
}
