package portal

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"shuultuur/lib/setting"
)

// Doors are the addresses of a gateway's servers that clients may need.
type Doors struct {
	Plain, TLS []setting.Address // of the portal
	Proxy      []setting.Address
	Named      bool // clients have to know the proxy by its name, as they have for tickets

	DNSName      string // of the name server; "" is the portal's name
	DNSPath      string // of DNS over HTTPS; "" is /dns-query
	DNSOverHTTPS []string
	DNSOverTLS   []string
}

// Place returns the addresses at which clients reach the servers of d.
func (c *Config) Place(d Doors) (p Place) {
	p.Name = c.Name
	for _, a := range slices.Concat(d.TLS, d.Plain) {
		if at := a.AddrPort().Addr(); p.Name == "" && at.IsValid() && !at.IsUnspecified() {
			p.Name = at.String()
		}
	}
	p.Plain, p.TLS = d.Plain, d.TLS
	p.URL, p.Proxy = d.url(p.Name), d.proxy(p.Name)
	p.DNS = d.dns(cmp.Or(d.DNSName, p.Name))
	return p
}

// url returns the URL of the portal, or "" if it has no address.
func (d *Doors) url(name string) string {
	scheme, usual, list := "https", uint16(443), d.TLS
	if len(list) == 0 {
		scheme, usual, list = "http", 80, d.Plain
	}
	if len(list) == 0 || name == "" {
		return ""
	}
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
		name = "[" + name + "]"
	}
	if port := list[0].AddrPort().Port(); port != usual {
		name += ":" + strconv.Itoa(int(port))
	}
	return scheme + "://" + name
}

// proxy returns the proxy's address for clients, or "" if they cannot reach it.
func (d *Doors) proxy(name string) string {
	for _, a := range d.Proxy {
		at := a.AddrPort()
		host := at.Addr().String()
		if at.Port() == 0 {
			continue // the system chooses the port
		}
		if _, err := netip.ParseAddr(name); d.Named && err != nil && name != "" {
			host = name
		}
		if at.Addr().IsUnspecified() {
			if host = name; host == "" {
				continue
			}
		}
		return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
	}
	return ""
}

// dns returns the encrypted addresses of the name server.
func (d *Doors) dns(name string) (all DNS) {
	https, tls := addrsOf(d.DNSOverHTTPS), addrsOf(d.DNSOverTLS)
	if len(https) > 0 && name != "" {
		all.HTTPS = "https://" + name
		if p := https[0].Port(); p != 443 {
			all.HTTPS += ":" + strconv.Itoa(int(p))
		}
		all.HTTPS += cmp.Or(d.DNSPath, "/dns-query")
	}
	if len(tls) > 0 && tls[0].Port() == 853 { // clients cannot be given another port
		all.TLS = name
	}
	for _, a := range append(https, tls...) {
		if at := a.Addr().Unmap(); !at.IsUnspecified() && !at.IsLoopback() {
			all.Addrs = append(all.Addrs, at.String())
		}
	}
	return all
}

// addrsOf returns the addresses that have a port.
func addrsOf(all []string) (at []netip.AddrPort) {
	for _, s := range all {
		if a := setting.Address(s); a.AddrPort().IsValid() {
			at = append(at, a.AddrPort())
		}
	}
	return at
}
