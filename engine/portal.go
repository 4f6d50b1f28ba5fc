package engine

import (
	"context"
	"net/netip"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/identity/session"
	"shuultuur/portal"
	"shuultuur/proxy/exchange"
)

// portalOf returns the settings of the portal, nil if it has no address.
func portalOf(s *configuration.Settings) any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 && s.Portal.Name == "" && s.Portal.PAC == nil {
		return nil
	}
	return []any{s.Portal, s.PortalPlace(), s.DNS != nil}
}

// portalDoorsOf returns the addresses on which the portal listens, nil for none.
func portalDoorsOf(s *configuration.Settings) any {
	if len(s.Listen.Portal)+len(s.Listen.PortalTLS) == 0 {
		return nil
	}
	return []any{s.Listen.Portal, s.Listen.PortalTLS}
}

func newPortalServer(_ context.Context, b *builder) (*portal.Server, error) {
	return portal.NewServer(b.log), nil
}

func newPortal(_ context.Context, b *builder) (*portal.Pages, error) {
	place := b.Settings.PortalPlace()
	place.Key = b.Data.Key
	return portal.New(b.Settings.Portal, place)
}

// portalEngine returns the parts with which the portal answers.
func (e *Engine) portalEngine(h *Host) *portal.Engine {
	return &portal.Engine{
		Pages: e.Portal,
		Identify: func(ctx context.Context, addr netip.Addr) filter.Client {
			c, err := e.Identity.Identify(ctx, addr, nil)
			if err != nil {
				c.Addr = addr // the client has not signed in
			}
			return c
		},
		Captive: func(ctx context.Context, addr netip.Addr) bool {
			_, err := e.Identity.Identify(ctx, addr, nil)
			return exchange.AsksToSignIn(err)
		},
		Policy: func(ctx context.Context, c *filter.Client) string {
			name, _ := e.Policies.Balance(ctx, "", c, time.Now())
			return name
		},
		Verify:  e.Identity.Verify,
		SignsIn: e.Identity.SignsIn(), Passwords: e.Identity.HasPasswords(), Provider: e.Identity.Provider(), Session: e.Identity.SessionTime(),
		Texts: e.Pages.Texts,
		Start: func(s session.Session) error { return e.Sessions.Start(s) },
		End: func(addr netip.Addr) error {
			_, err := e.Sessions.End(session.EndRequest{Addr: addr})
			return err
		},
		Regroup: func(user, source string, groups []string) error {
			var all []session.Session
			for _, s := range e.Sessions.All() {
				if s.User == user && s.Source == source {
					s.Groups = groups
					all = append(all, s)
				}
			}
			return e.Sessions.Start(all...)
		},
		Root: h.Root,
	}
}
