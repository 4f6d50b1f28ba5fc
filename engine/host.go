package engine

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"shuultuur/admin/web"
	"shuultuur/check/picture"
	"shuultuur/filter"
	"shuultuur/fleet/bundle"
	"shuultuur/icap"
	"shuultuur/intercept"
	"shuultuur/nameserver"
	"shuultuur/text"
	"shuultuur/vote"
	"shuultuur/vote/booth"
)

// A Host is the gateway for which engines are built. Parts that need something while they
// serve get it from the engine in use at that time.
type Host struct {
	InUse    func() *Engine                              // nil before the first
	Done     func(*filter.Transaction)                   // called for a finished transaction
	Named    nameserver.Record                           // called for an answered query
	Decide   func(context.Context, *vote.Decision) error // carries out voters' decisions
	Asked    func(*vote.Vote)                            // tells somebody of a request to open
	Admin    func(*Engine) (*web.Site, error)            // makes the server of the admin address
	Pictures *picture.Gallery                            // findings in pictures
	Bundles  bundle.User                                 // puts bundles of a fleet into use
	KeyLog   io.Writer                                   // writes the keys of intercepted connections; nil for none
	Log      *slog.Logger
}

// Texts returns the texts for pages, in the language for an Accept-Language value.
func (h *Host) Texts(accept string) *text.Texts {
	if h == nil { // the settings are on trial
		return nil
	}
	if e := h.InUse(); e != nil {
		return e.Pages.Texts(accept)
	}
	return nil
}

// contact returns whom blocked people ask, "" if nobody is named.
func (h *Host) contact() string {
	if e := h.InUse(); e != nil {
		return e.Pages.Whose().Contact
	}
	return ""
}

// Root returns the root certificate that clients must trust, nil for none.
func (h *Host) Root() *intercept.Root {
	if e := h.InUse(); e != nil && e.Intercept != nil {
		return e.Intercept.Authority.Root()
	} else if e != nil && e.Authority != nil {
		return e.Authority.Root()
	}
	return nil
}

// adminTLS returns the TLS settings of the admin address, which use the current certificate
// for each handshake; nil without TLS.
func (h *Host) adminTLS() *tls.Config {
	if e := h.InUse(); e == nil || e.Certificate == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return h.InUse().Certificate, nil
	}}
}

// GroupsOf returns the groups of a client.
func (h *Host) GroupsOf(addr netip.Addr, user string) []string {
	return h.InUse().Identity.NamedClient(addr, user, nil, "").Groups
}

// voter identifies a client of the API for votes.
func (h *Host) voter(addr, authorization string) vote.Voter {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return vote.Voter{Addr: addr}
	}
	c, err := h.InUse().Identity.Identify(context.Background(), a.Unmap(), []byte(authorization))
	if err != nil { // not logged in, or wrong password
		c = filter.Client{Addr: a}
	}
	return booth.Voter(c)
}

// serveICAPS returns a function that serves ICAP over TLS, with the current certificate.
func (h *Host) serveICAPS(s *icap.Server) func(context.Context, net.Listener) error {
	return func(ctx context.Context, ln net.Listener) error {
		return s.ServeTLS(ctx, ln, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := h.InUse().Certificate.Clone()
			c.NextProtos = nil
			return c, nil
		}})
	}
}

// Connect makes the servers use the parts of an engine.
func (e *Engine) Connect(h *Host) {
	if in := e.Intercept; in != nil && h.KeyLog != nil {
		in.Authority.LogKeys(h.KeyLog)
	}
	if err := e.Proxy.Use(e.proxyEngine()); err != nil {
		h.Log.Error("the proxy uses the previous settings", "error", err)
	}
	if e.Stored != nil {
		e.Stored.Serve(e.Stored.InFrontOf(e.Proxy.Upstream()))
	}
	if e.ICAP != nil {
		if err := e.ICAP.Use(e.icapEngine()); err != nil {
			h.Log.Error("the ICAP server uses the previous settings", "error", err)
		}
	}
	if e.Welcome != nil && e.Portal != nil {
		if err := e.Welcome.Use(e.portalEngine(h)); err != nil {
			h.Log.Error("the portal uses the previous settings", "error", err)
		}
	}
	if e.Helpers != nil {
		if err := e.Helpers.Use(e.helperEngine()); err != nil {
			h.Log.Error("Squid helpers use the previous settings", "error", err)
		}
	}
	if e.Names == nil {
		return
	}
	if e.basis["nameserver"].fault == nil {
		if err := e.Names.Reload(h.nameServer(e.Settings)); err != nil {
			h.Log.Error("the name server uses the previous settings", "error", err)
		}
	}
	if e.Forward != nil {
		e.Forward.SetWatch(e.Names.Watch())
	}
	e.Names.SetResponders(e.Zones, e.Resolver.With(e.Zones), e.Zones, e.Zones.Outside())
}
