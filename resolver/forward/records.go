package forward

import (
	"bytes"
	"net/netip"

	"shuultuur/lib/dns"
	"shuultuur/lib/setting"
)

// RoutedDomains returns the domains with their own upstreams, in wire form, without the
// root.
func (c *Config) RoutedDomains() ([][]byte, error) {
	var domains [][]byte
	for key := range c.Routes {
		names, err := routeNames(key)
		if err != nil {
			return nil, setting.At("routes."+key, err)
		}
		for _, n := range names {
			if len(n) > 1 {
				domains = append(domains, n)
			}
		}
	}
	return domains, nil
}

// RoutesPointer reports whether the name of an address has its own upstream. Other
// upstreams have no names for private addresses.
func (f *Forwarder) RoutesPointer(addr netip.Addr) bool {
	own, err := f.cfg.RoutedDomains()
	if err != nil {
		return false
	}
	name := dns.Reverse(addr)
	for _, domain := range own {
		if bytes.HasSuffix(name, domain) {
			return true
		}
	}
	return false
}
