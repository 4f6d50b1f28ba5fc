package unbound

import (
	"slices"
	"strings"

	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// Rules reads local-zone and local-data of unbound.conf. Data answer within a zone,
// except within those that always refuse.
func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "unbound.conf")
	z, data, redirected, view := original.NewNames(), map[string]string{}, map[string]bool{}, false
	err := s.Options(file, optionFiles(), func(at, key, value string) {
		if value == "" && slices.Contains(sections, key) {
			view = key == "view"
		} else if view {
			return // which is for some clients
		}
		f := strings.Fields(strings.ReplaceAll(value, `"`, " "))
		switch key {
		case "local-zone":
			if len(f) < 2 {
				return
			}
			name := strings.ToLower(strings.TrimSuffix(f[0], "."))
			switch f[1] {
			case "static", "refuse", "deny", "redirect", "inform_deny", "inform_redirect":
				z.Zones[name], redirected[name] = original.Decision{Refuse: true, By: at}, strings.HasSuffix(f[1], "redirect")
			case "always_nxdomain", "always_refuse", "always_null", "always_deny", "always_nodata":
				z.Zones[name] = original.Decision{Refuse: true, By: at + " always"}
			default: // transparent and similar kinds, nodefault
				z.Zones[name] = original.Decision{By: at}
			}
		case "local-data":
			if len(f) > 1 {
				data[strings.ToLower(strings.TrimSuffix(f[0], "."))] = at
			}
		case "rpz", "view", "local-zone-tag", "local-zone-override":
			s.Untested("%s: %s %s", at, key, value)
		}
	})
	for name, at := range data {
		zone := input.FirstParent(name, func(n string) bool { _, ok := z.Zones[n]; return ok })
		if d := z.Zones[zone]; !strings.HasSuffix(d.By, " always") {
			z.Exact[name] = original.Decision{By: at}
			if zone == name && redirected[name] { // its data include the names below it
				z.Zones[name] = original.Decision{By: at}
			}
		}
	}
	return z, err
}
