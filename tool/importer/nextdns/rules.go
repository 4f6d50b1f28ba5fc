package nextdns

import (
	"shuultuur/tool/importer/original"
)

// Rules reads the lists of names of a profile. Rewrites count before its allowlist,
// and that before all other lists.
func Rules(s *original.Source, file string) (original.Rules, error) {
	v, err := original.ReadJSON(file, "nextdns.json", "data")
	if err != nil {
		return nil, err
	}
	z := original.NewNames()
	entries := func(v any, take func(id string)) {
		list, _ := v.([]any)
		for _, x := range list {
			if id, ok := x.(string); ok {
				take(id)
			} else if e, ok := x.(map[string]any); ok && e["active"] != false {
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
	entries(within("security", "tlds"), func(id string) { z.Below(id, "security.tlds: "+id, true) })
	entries(v["denylist"], func(id string) { z.Below(id, "denylist: "+id, true) })
	entries(v["allowlist"], func(id string) { z.Below(id, "allowlist: "+id, false) })
	rewrites, _ := v["rewrites"].([]any)
	for _, x := range rewrites {
		if e, ok := x.(map[string]any); ok {
			if name, ok := e["name"].(string); ok {
				z.Below(name, "rewrites: "+name, false)
			}
		}
	}
	for _, part := range [][2]string{{"privacy", "blocklists"}, {"privacy", "natives"}, {"parentalControl", "categories"}, {"parentalControl", "services"}} {
		entries(within(part[0], part[1]), func(id string) { s.Untested("%s.%s: %s is NextDNS's own", part[0], part[1], id) })
	}
	return z, nil
}
