package engine

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
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
	if b.old != nil && b.old.Welcome != nil {
		return b.old.Welcome, nil // it has the people who have signed in
	}
	return portal.NewServer(b.log, filepath.Join(b.Data.Dir, "sign-ins.json")), nil
}

func newPortal(_ context.Context, b *builder) (*portal.Pages, error) {
	place := b.Settings.PortalPlace()
	place.Key = b.Data.Key
	return portal.New(b.Settings.Portal, place)
}

// portalEngine returns the parts with which the portal answers.
func (e *Engine) portalEngine(h *Host) *portal.Engine {
	wanted := map[string]bool{}
	for _, p := range e.Settings.Policies {
		for _, g := range p.Groups {
			wanted[strings.ToLower(g)] = true
		}
	}
	for _, r := range e.Settings.Portal.PAC {
		for _, g := range r.Groups {
			wanted[strings.ToLower(g)] = true
		}
	}
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
			return exchange.SignInPage(err) != ""
		},
		Policy: func(ctx context.Context, c *filter.Client) string {
			name, _ := e.Policies.Balance(ctx, "", c, time.Now())
			return name
		},
		Verify:  e.Identity.Verify,
		SignsIn: e.Identity.SignsIn(), Passwords: e.Identity.HasPasswords(), Provider: e.Identity.Provider(), Session: e.Identity.SessionTime(),
		Texts: e.Pages.Texts, Whose: e.Pages.Whose().Name,
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
		Own:      e.Sessions.Own,
		Wanted:   func(group string) bool { return wanted[strings.ToLower(group)] },
		Root:     h.Root,
		TLS:      e.Certificate,
		Answer:   e.Ordered.Answer,
		Trusted:  e.Settings.Proxy.Trusted,
		SignInID: e.Identity.SignInID,
		Stands: func(user, source, id string) bool {
			return e.Identity.Stands(user, source, id) && !e.Sessions.SignedOut(id)
		},
		SignOut: func(addr netip.Addr, id string) error { return signOut(e.Sessions, addr, id) },
		Withdraw: func(user, source string) error {
			var errs []error
			for _, s := range e.Sessions.All() {
				if s.User == user && s.Source == source {
					errs = append(errs, signOut(e.Sessions, s.Addr, s.ID))
				}
			}
			return errors.Join(errs...)
		},
	}
}

// signOut ends the session of an address, and the sign-ins that it and id belong to, wherever
// they count.
func signOut(sessions *session.Table, addr netip.Addr, id string) error {
	ids := map[string]bool{id: id != ""}
	s := sessions.Lookup(addr)
	if s == nil {
		s = sessions.OfDevice(addr)
	}
	if s != nil && s.By == "portal" {
		ids[s.ID] = s.ID != ""
	}
	_, err := sessions.End(session.EndRequest{Addr: addr})
	errs := []error{err}
	for id, some := range ids {
		if some {
			errs = append(errs, sessions.SignOut(id, time.Now().Add(session.MaxTime-time.Minute)))
		}
	}
	return errors.Join(errs...)
}
