package configuration

import (
	"fmt"

	"shuultuur/lib/setting"
	"shuultuur/nameserver"
	"shuultuur/portal"
)

// PortalPlace returns where clients find the portal, the proxy and the name server.
func (s *Settings) PortalPlace() portal.Place {
	l := &s.Listen
	d := portal.Doors{Plain: l.Portal, TLS: l.PortalTLS, Proxy: l.Proxy, Named: s.Identity.Kerberos != nil}
	if s.DNS != nil {
		c := &s.DNS.Server
		d.DNSName, d.DNSPath, d.DNSOverHTTPS, d.DNSOverTLS = c.Name, c.Path, c.HTTPS, c.TLS
	}
	return s.Portal.Place(d)
}

// Distinct reports servers with the same address.
func (s *Settings) Distinct() error {
	var all []setting.Use
	l := &s.Listen
	for _, d := range []struct {
		key   string
		addrs []setting.Address
	}{{"proxy", l.Proxy}, {"transparent", l.Transparent}, {"tproxy", l.TPROXY}, {"sinkhole", l.Sinkhole}, {"icap", l.ICAP}, {"icaps", l.ICAPS}, {"portal", l.Portal}, {"portal-tls", l.PortalTLS}, {"admin", l.Admin}} {
		for i, a := range d.addrs {
			all = append(all, setting.Use{Key: fmt.Sprintf("listen.%s[%d]", d.key, i), At: a.AddrPort(), Proto: "TCP", Dual: true})
		}
	}
	for i, a := range l.RADIUS {
		all = append(all, setting.Use{Key: fmt.Sprintf("listen.radius[%d]", i), At: a.AddrPort(), Proto: "UDP", Dual: true})
	}
	if s.DNS != nil {
		all = append(all, s.DNS.uses()...)
	}
	return setting.Distinct(all)
}

// uses returns the addresses of the name server.
func (d *DNS) uses() (all []setting.Use) {
	c := &d.Server
	for _, x := range []struct {
		key    string
		only   nameserver.Config
		protos []string
	}{
		{"listen", nameserver.Config{Listen: c.Listen}, []string{"TCP", "UDP"}}, {"tls", nameserver.Config{TLS: c.TLS}, []string{"TCP"}},
		{"https", nameserver.Config{HTTPS: c.HTTPS}, []string{"TCP", "UDP"}}, {"quic", nameserver.Config{QUIC: c.QUIC}, []string{"UDP"}},
		{"http", nameserver.Config{HTTP: c.HTTP, Trusted: c.Trusted}, []string{"TCP"}},
	} {
		x.only.Cert = "for the addresses alone"
		for _, at := range x.only.Addresses() {
			for _, proto := range x.protos {
				all = append(all, setting.Use{Key: "dns." + x.key, At: at, Proto: proto})
			}
		}
	}
	return all
}
