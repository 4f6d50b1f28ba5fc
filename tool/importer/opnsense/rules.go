package opnsense

import (
	"strconv"
	"strings"

	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// Rules reads the lists of names of the name server, and its
// overrides.
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
	unbound := root.at("opnsense", "OPNsense", "unboundplus")
	z := original.NewNames()
	lists := []*xmlNode{unbound.at("dnsbl")}
	unbound.at("dnsbl").eachChild("blocklist", func(n *xmlNode) { lists = append(lists, n) })
	for i, b := range lists {
		if b.at("enabled").text == "0" {
			continue
		}
		by := "dnsbl " + strconv.Itoa(i)
		for _, u := range append(b.at("lists").values(), b.at("type").values()...) {
			s.Untested("dnsbl: %s is fetched", u)
		}
		for _, name := range b.at("blocklists").values() {
			z.Exact[strings.ToLower(name)] = original.Decision{Refuse: true, By: by + ": " + name}
		}
		for _, name := range b.at("wildcards").values() {
			z.Below(name, by+": "+name, true)
		}
		for _, key := range []string{"whitelists", "allowlists"} {
			for _, name := range b.at(key).values() {
				if strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
					s.Untested("dnsbl: expression %s", name)
					continue
				}
				z.Below(name, by+": "+key+" "+name, false)
			}
		}
	}
	unbound.at("hosts").eachChild("host", func(h *xmlNode) {
		if h.at("enabled").text != "0" {
			name := strings.ToLower(strings.Trim(h.at("hostname").text+"."+h.at("domain").text, "."))
			z.Allowed[name] = "hosts: " + name
		}
	})
	return z, nil
}
