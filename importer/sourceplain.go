package importer

import (
	"context"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"

	"shuultuur/filter"
)

// These programs have lists for all clients. They refuse a name with its
// subdomains, unless the name or a parent of it is allowed.

// below decides about a name and its subdomains.
func (z *nameSource) below(name, by string, refuse bool) {
	name = strings.ToLower(strings.Trim(strings.TrimPrefix(name, "*."), "."))
	if refuse {
		z.zones[name] = decision{true, by}
		return
	}
	z.allowed[name] = by
}

// jsonSource reads a JSON file, in which the answer may be inside an envelope.
func jsonSource(file, usual, envelope string) (v map[string]any, err error) {
	file = fileIn(file, usual)
	data, err := readWhole(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	if inner, ok := v[envelope].(map[string]any); ok {
		return inner, nil
	}
	return v, nil
}

// listIn returns the values in a list of texts.
func listIn(v map[string]any, key string) (all []string) {
	list, _ := v[key].([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

// technitiumSource permits clients of some networks every name.
type technitiumSource struct {
	*nameSource
	bypass []netip.Prefix
}

func (x *technitiumSource) decide(ctx context.Context, t *filter.Transaction, stage filter.Stage) (decision, bool) {
	for _, n := range x.bypass {
		if stage == filter.Name && n.Contains(t.Client.Addr) {
			return decision{by: "blockingBypassList: " + n.String()}, true
		}
	}
	return x.nameSource.decide(ctx, t, stage)
}

// newTechnitiumSource reads blocked and allowed zones. It cannot evaluate fetched lists.
func newTechnitiumSource(s *Source, file string) (sourceRules, error) {
	v, err := jsonSource(file, "settings.json", "response")
	if err != nil {
		return nil, err
	}
	z := newNameSource()
	if v["enableBlocking"] == false {
		return z, nil
	}
	for _, u := range listIn(v, "blockListUrls") {
		s.noteUntested("blockListUrls: %s is fetched", u)
	}
	for _, name := range listIn(v, "blockedZones") {
		z.below(name, "blockedZones: "+name, true)
	}
	for _, name := range listIn(v, "allowedZones") {
		z.below(name, "allowedZones: "+name, false)
	}
	x := &technitiumSource{nameSource: z}
	for _, text := range listIn(v, "blockingBypassList") {
		if n, err := network(text); err != nil {
			s.noteUntested("blockingBypassList: %v", err)
		} else {
			x.bypass = append(x.bypass, n)
		}
	}
	return x, nil
}

// newNextDNSSource reads the lists of names of a profile. Rewrites count before its allowlist,
// and that before all other lists.
func newNextDNSSource(s *Source, file string) (sourceRules, error) {
	v, err := jsonSource(file, "nextdns.json", "data")
	if err != nil {
		return nil, err
	}
	z := newNameSource()
	entries := func(v any, take func(id string)) {
		list, _ := v.([]any)
		for _, x := range list {
			if e, ok := x.(map[string]any); ok && e["active"] != false {
				if id, ok := e["id"].(string); ok {
					take(id)
				}
			}
		}
	}
	within := func(top, key string) any {
		m, _ := v[top].(map[string]any)
		return m[key]
	}
	entries(within("security", "tlds"), func(id string) { z.below(id, "security.tlds: "+id, true) })
	entries(v["denylist"], func(id string) { z.below(id, "denylist: "+id, true) })
	entries(v["allowlist"], func(id string) { z.below(id, "allowlist: "+id, false) })
	rewrites, _ := v["rewrites"].([]any)
	for _, x := range rewrites {
		if e, ok := x.(map[string]any); ok {
			if name, ok := e["name"].(string); ok {
				z.below(name, "rewrites: "+name, false)
			}
		}
	}
	for _, part := range [][2]string{{"privacy", "blocklists"}, {"privacy", "natives"}, {"parentalControl", "categories"}, {"parentalControl", "services"}} {
		entries(within(part[0], part[1]), func(id string) { s.noteUntested("%s.%s: %s is NextDNS's own", part[0], part[1], id) })
	}
	return z, nil
}

// newOPNsenseSource reads the lists of names of the name server, and its
// overrides.
func newOPNsenseSource(s *Source, file string) (sourceRules, error) {
	data, err := readWhole(file)
	if err != nil {
		return nil, err
	}
	root, err := readXML(data)
	if err != nil {
		return nil, err
	}
	unbound := root.at("opnsense", "OPNsense", "unboundplus")
	z := newNameSource()
	lists := []*xmlNode{unbound.at("dnsbl")}
	unbound.at("dnsbl").eachChild("blocklist", func(n *xmlNode) { lists = append(lists, n) })
	for i, b := range lists {
		if b.at("enabled").text == "0" {
			continue
		}
		by := "dnsbl " + strconv.Itoa(i)
		for _, u := range append(b.at("lists").values(), b.at("type").values()...) {
			s.noteUntested("dnsbl: %s is fetched", u)
		}
		for _, name := range b.at("blocklists").values() {
			z.exact[strings.ToLower(name)] = decision{true, by + ": " + name}
		}
		for _, name := range b.at("wildcards").values() {
			z.below(name, by+": "+name, true)
		}
		for _, key := range []string{"whitelists", "allowlists"} {
			for _, name := range b.at(key).values() {
				if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
					s.noteUntested("dnsbl: expression %s", name)
					continue
				}
				z.below(name, by+": "+key+" "+name, false)
			}
		}
	}
	unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if h.at("enabled").text != "0" {
			name := strings.ToLower(strings.Trim(h.at("hostname").text+"."+h.at("domain").text, "."))
			z.allowed[name] = "hosts: " + name
		}
	})
	return z, nil
}
