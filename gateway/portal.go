package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/portal"
	"shuultuur/setting"
)

// portal are the settings of the portal, nil when it has no address.
func (s *Settings) portal() any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 {
		return nil
	}
	return []any{s.Portal, s.portalURL(), s.proxyForClients(), s.encryptedDNS(), s.DNS != nil}
}

// portalDoors are where the portal listens, nil for nowhere.
func (s *Settings) portalDoors() any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 {
		return nil
	}
	return []any{s.Listen.Portal, s.Listen.PortalTLS}
}

// portalName is the name or address by which clients find the portal, without a
// port.
func (s *Settings) portalName() string {
	if s.Portal.Name != "" {
		return s.Portal.Name
	}
	for _, a := range append(append([]setting.Address(nil), s.Listen.PortalTLS...), s.Listen.Portal...) {
		if at := a.AddrPort().Addr(); at.IsValid() && !at.IsUnspecified() {
			return at.String()
		}
	}
	return ""
}

// portalURL is where clients find the portal, "" when it has no address.
func (s *Settings) portalURL() string {
	name, scheme, usual, list := s.portalName(), "https", uint16(443), s.Listen.PortalTLS
	if len(list) == 0 {
		scheme, usual, list = "http", 80, s.Listen.Portal
	}
	if len(list) == 0 || name == "" {
		return ""
	}
	port := list[0].AddrPort().Port()
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
		name = "[" + name + "]"
	}
	if port != usual {
		name += ":" + strconv.Itoa(int(port))
	}
	return scheme + "://" + name
}

// proxyForClients is the proxy of this gateway as clients reach it, "" when they
// do not.
func (s *Settings) proxyForClients() string {
	for _, a := range s.Listen.Proxy {
		at := a.AddrPort()
		host := at.Addr().String()
		if at.Port() == 0 {
			continue // the system chooses one
		}
		if at.Addr().IsUnspecified() {
			if host = s.portalName(); host == "" {
				continue
			}
		}
		return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
	}
	return ""
}

// encryptedDNS says how clients reach the name server encrypted.
func (s *Settings) encryptedDNS() (d portal.DNS) {
	if s.DNS == nil {
		return d
	}
	c := &s.DNS.Server
	name := c.Name
	if name == "" {
		name = s.portalName()
	}
	path := c.Path
	if path == "" {
		path = "/dns-query"
	}
	if a := addrsOf(c.HTTPS); len(a) > 0 && name != "" {
		d.HTTPS = "https://" + name
		if p := a[0].Port(); p != 443 {
			d.HTTPS += ":" + strconv.Itoa(int(p))
		}
		d.HTTPS += path
	}
	if a := addrsOf(c.TLS); len(a) > 0 && a[0].Port() == 853 { // clients know no other port
		d.TLS = name
	}
	for _, a := range append(addrsOf(c.HTTPS), addrsOf(c.TLS)...) {
		if at := a.Addr().Unmap(); !at.IsUnspecified() && !at.IsLoopback() {
			d.Addrs = append(d.Addrs, at.String())
		}
	}
	return d
}

// addrsOf are those of the addresses that name a port.
func addrsOf(all []string) (at []netip.AddrPort) {
	for _, s := range all {
		if a := setting.Address(s); a.AddrPort().IsValid() {
			at = append(at, a.AddrPort())
		}
	}
	return at
}

func newPortalServer(_ context.Context, b *builder) (*portal.Server, error) {
	return portal.NewServer(b.log), nil
}

func newPortal(_ context.Context, b *builder) (*portal.Pages, error) {
	return portal.New(b.settings.Portal, portal.Place{
		URL: b.settings.portalURL(), Name: b.settings.portalName(), Proxy: b.settings.proxyForClients(), DNS: b.settings.encryptedDNS(), Key: b.data.Key,
	})
}

// portalEngine is what the portal answers with.
func (g *Gateway) portalEngine(e *Engine) *portal.Engine {
	return &portal.Engine{
		Pages: e.portal,
		Identify: func(ctx context.Context, addr netip.Addr) filter.Client {
			c, err := e.identity.Identify(ctx, addr, nil)
			if err != nil {
				c.Addr = addr // nobody has signed in there
			}
			return c
		},
		Policy: func(ctx context.Context, c *filter.Client) string {
			name, _ := e.policies.Balance(ctx, "", c, time.Now())
			return name
		},
		Verify:  e.identity.Verify,
		SignsIn: e.identity.SignsIn(), Passwords: e.identity.HasPasswords(), Provider: e.identity.Provider(), Session: e.identity.SessionTime(),
		Texts: e.pages.Texts,
		Start: func(s session.Session) error { return e.sessions.Start(s) },
		End: func(addr netip.Addr) error {
			_, err := e.sessions.End("", addr)
			return err
		},
		Root: g.root,
	}
}

// servePortalTLS is what serves the portal over TLS, with the certificate in use.
func (g *Gateway) servePortalTLS(s *portal.Server) func(context.Context, net.Listener) error {
	return func(ctx context.Context, ln net.Listener) error {
		return s.Serve(ctx, tls.NewListener(ln, g.adminTLS()))
	}
}

// PortalAddr is where the portal listens first, with TLS or without, "" when it
// does not.
func (g *Gateway) PortalAddr() string {
	s := g.engine.Load().servers
	if at := s.at("portal-tls"); at != "" {
		return at
	}
	return s.at("portal")
}
