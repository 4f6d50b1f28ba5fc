package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/portal"
)

// portal are the settings of the portal, nil when it has no address.
func (s *Settings) portal() any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 {
		return nil
	}
	return []any{s.Portal, s.portalPlace(), s.DNS != nil}
}

// portalDoors are where the portal listens, nil for nowhere.
func (s *Settings) portalDoors() any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 {
		return nil
	}
	return []any{s.Listen.Portal, s.Listen.PortalTLS}
}

// portalPlace is where clients find the portal, the proxy and the name server.
func (s *Settings) portalPlace() portal.Place {
	l := &s.Listen
	d := portal.Doors{Plain: l.Portal, TLS: l.PortalTLS, Proxy: l.Proxy}
	if s.DNS != nil {
		c := &s.DNS.Server
		d.DNSName, d.DNSPath, d.DNSOverHTTPS, d.DNSOverTLS = c.Name, c.Path, c.HTTPS, c.TLS
	}
	return s.Portal.Place(d)
}

func newPortalServer(_ context.Context, b *builder) (*portal.Server, error) {
	return portal.NewServer(b.log), nil
}

func newPortal(_ context.Context, b *builder) (*portal.Pages, error) {
	place := b.settings.portalPlace()
	place.Key = b.data.Key
	return portal.New(b.settings.Portal, place)
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
	if at := s.At("portal-tls"); at != "" {
		return at
	}
	return s.At("portal")
}
