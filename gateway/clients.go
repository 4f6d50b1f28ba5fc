package gateway

import (
	"context"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"shuultuur/identity"
	"shuultuur/nameserver/wire"
)

// clientNames are the settings of what devices are called: hosts files that the
// name server answers from count too.
func (s *Settings) clientNames() (cfg identity.NamesConfig) {
	for _, f := range s.Identity.Names.Leases {
		cfg.Leases = append(cfg.Leases, s.path(f))
	}
	for _, f := range s.Identity.Names.Hosts {
		cfg.Hosts = append(cfg.Hosts, s.path(f))
	}
	if s.DNS != nil {
		for _, f := range s.DNS.Names.HostsFiles {
			if f = s.path(f); !slices.Contains(cfg.Hosts, f) {
				cfg.Hosts = append(cfg.Hosts, f)
			}
		}
	}
	return cfg
}

// ClientNames returns what says how the devices of the settings in file are
// called, beside a running gateway. The DNS is not asked.
func ClientNames(file string) (func(context.Context, []netip.Addr) map[netip.Addr]string, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	cfg := s.Identity
	cfg.Basic, cfg.Groups = nil, nil
	id, err := identity.New(cfg)
	if err != nil {
		return nil, err
	}
	n, err := identity.NewNames(s.clientNames(), id)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string { return n.Of(ctx, addrs, nil) }, nil
}

// clientNames says how devices are called.
func (g *Gateway) clientNames(ctx context.Context, addrs []netip.Addr) map[netip.Addr]string {
	e := g.engine.Load()
	if e == nil {
		return nil
	}
	return e.clients.Of(ctx, addrs, g.pointer)
}

// pointer asks for the name of an address where a route of the settings says
// who knows it, and nobody else: others have no names for private addresses.
func (g *Gateway) pointer(ctx context.Context, addr netip.Addr) string {
	e := g.engine.Load()
	g.mu.Lock()
	n := g.names
	g.mu.Unlock()
	reverse, err := dns.ReverseAddr(addr.WithZone("").String())
	if e == nil || n == nil || err != nil || !e.routes(reverse) {
		return ""
	}
	name, err := wire.Name(reverse)
	if err != nil {
		return ""
	}
	msg, _, err := n.forward.Ask(ctx, name, dns.TypePTR, dns.ClassINET, false, false)
	if err != nil {
		return ""
	}
	var m dns.Msg
	if m.Unpack(msg) != nil {
		return ""
	}
	for _, rr := range m.Answer {
		if p, ok := rr.(*dns.PTR); ok {
			return p.Ptr
		}
	}
	return ""
}

// routes says whether a name has upstreams of its own.
func (e *Engine) routes(name string) bool {
	if e.settings.DNS == nil {
		return false
	}
	own, err := routed(e.settings.DNS.Forward.Routes)
	return err == nil && slices.ContainsFunc(own, func(domain []byte) bool { return dns.IsSubDomain(wire.Text(domain), name) })
}
