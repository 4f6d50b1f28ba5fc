package dnsmasq

import (
	"strings"

	"shuultuur/tool/importer/input"
	"shuultuur/tool/importer/original"
)

// Rules reads address, local and server of dnsmasq.conf. The longest of their names
// that covers a name counts.
func Rules(s *original.Source, file string) (original.Rules, error) {
	file = input.In(file, "dnsmasq.conf")
	z := original.NewNames()
	domain, devices := "", map[string]string{} // names of devices with a fixed address, and where they stand
	err := s.Options(file, Files(), func(at, key, value string) {
		switch key {
		case "domain":
			domain, _, _ = strings.Cut(value, ",")
		case "dhcp-host":
			if addr, name, _ := StaticLease(value); addr != "" && name != "" {
				devices[strings.ToLower(name)] = at
			}
		case "address", "local", "server":
			parts := strings.Split(value, "/")
			if len(parts) < 3 {
				return
			}
			to := parts[len(parts)-1]
			null := to == "0.0.0.0" || to == "::"
			for _, name := range parts[1 : len(parts)-1] {
				name = strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, "*"), "."))
				if name == "#" { // any name: the answer is that of no origin
					name, null = "", key == "address"
				}
				z.Zones[name] = original.Decision{Refuse: null || to == "" || to == "#" && key == "address", By: at}
			}
		case "host-record", "cname":
			names := strings.Split(value, ",")
			for _, name := range names[:max(1, len(names)-1)] {
				z.Exact[strings.ToLower(strings.TrimSpace(name))] = original.Decision{By: at}
			}
		case "addn-hosts":
			s.Untested("%s: %s=%s", at, key, value)
		}
	})
	for name, at := range devices {
		z.Exact[name] = original.Decision{By: at}
		if domain != "" {
			z.Exact[name+"."+strings.ToLower(domain)] = original.Decision{By: at}
		}
	}
	return z, err
}
