package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/dns"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/nameserver"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/setting"
	"shuultuur/zone/authority"
	"shuultuur/zone/redins"
)

// DNS are the settings of the name server.
type DNS struct {
	Server  nameserver.Config    `yaml:",inline"`
	Names   resolver.Config      `yaml:",inline"`
	Forward forward.Config       `yaml:"forward"`
	Cache   resolver.CacheConfig `yaml:"cache"`
	Zones   authority.Config     `yaml:"zones"`
	Redis   *redins.Config       `yaml:"redis"` // zones in redins' layout; nil for none
}

// from returns settings of the name server, nil when there is none.
func from(of func(*DNS) any) func(*Settings) any {
	return func(s *Settings) any {
		if s.DNS == nil {
			return nil
		}
		return of(s.DNS)
	}
}

// nameParts are the rows of the name server.
func nameParts() []part {
	return []part{
		{name: "forwarding", key: "dns.forward", from: from(func(d *DNS) any { return []any{d.Forward, d.Server.Addresses()} }),
			without: rootlessForwarder, slot: in(func(e *Engine) **forward.Forwarder { return &e.forward }, newForwarder)},
		{name: "cache", key: "dns.cache", above: []string{"forwarding"}, from: from(func(d *DNS) any { return d.Cache }),
			slot: in(func(e *Engine) **resolver.Store { return &e.cache }, newCache)},
		{name: "resolver", key: "dns", above: []string{"lists", "identity", "policies", "cache"}, from: from(func(d *DNS) any { return d.Names }),
			slot: in(func(e *Engine) **resolver.Resolver { return &e.resolver }, newResolver)},
		{name: "zones", key: "dns", from: from(func(d *DNS) any { return []any{d.Zones, d.Redis} }),
			slot: in(func(e *Engine) **authority.Authority { return &e.zones }, newAuthority)},
		{name: "nameserver", key: "dns", from: from(func(d *DNS) any { return d.Server }), fixed: from(func(d *DNS) any { return d.fixed() }),
			without: bareNameserver, slot: in(func(e *Engine) **nameserver.Server { return &e.names }, newNameserver)},
	}
}

// fixed are the settings that only a restart changes.
func (d *DNS) fixed() any {
	s := &d.Server
	return []any{s.Listen, s.TLS, s.HTTPS, s.QUIC, s.Sockets, s.Connections, s.PerClient, s.Workers, s.Queue, s.Wait, s.Path, s.Cookies.Secret}
}

// uses are the addresses of the name server.
func (d *DNS) uses() (all []setting.Use) {
	c := &d.Server
	for _, x := range []struct {
		key    string
		only   nameserver.Config
		protos []string
	}{
		{"listen", nameserver.Config{Listen: c.Listen}, []string{"TCP", "UDP"}}, {"tls", nameserver.Config{TLS: c.TLS}, []string{"TCP"}},
		{"https", nameserver.Config{HTTPS: c.HTTPS}, []string{"TCP", "UDP"}}, {"quic", nameserver.Config{QUIC: c.QUIC}, []string{"UDP"}},
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

func newForwarder(_ context.Context, b *builder) (*forward.Forwarder, error) {
	cfg := b.settings.DNS.Forward
	cfg.Own = b.settings.DNS.Server.Addresses() // never asked: that would go in circles
	return forward.New(cfg)
}

// rootlessForwarder asks no upstream over TLS.
func rootlessForwarder(b *builder) (err error) {
	cfg := b.settings.DNS.Forward
	cfg.Own, cfg.Rootless = b.settings.DNS.Server.Addresses(), true
	b.forward, err = forward.New(cfg)
	return err
}

func newCache(_ context.Context, b *builder) (*resolver.Store, error) {
	if b.trial() {
		return resolver.NewStore(b.settings.DNS.Cache, b.settings.DNS.label(), resolver.Offline)
	}
	return resolver.NewStore(b.settings.DNS.Cache, b.settings.DNS.label(), b.forward.Ask)
}

func newResolver(_ context.Context, b *builder) (*resolver.Resolver, error) {
	return b.resolverFor(b.settings.DNS, b.policies, b.cache)
}

func (e *Engine) resolverFor(d *DNS, decider filter.Decider, store *resolver.Store) (*resolver.Resolver, error) {
	own, err := d.Forward.Routed()
	if err != nil {
		return nil, setting.At("forward", err)
	}
	return resolver.New(d.Names, resolver.Parts{
		Decider: decider, Count: e.policies.Query, Identify: byAddress(e.identity), Store: store, Addresses: e.knowsAddresses(), Routed: own,
		Validated: d.Forward.Validate,
	})
}

// byAddress says who is at an address or has a ClientID; a name server cannot ask
// for a password.
func byAddress(id *identity.Identity) func(netip.Addr, string) filter.Client {
	return func(addr netip.Addr, clientID string) filter.Client {
		if clientID != "" {
			if c, ok := id.ByClientID(addr, clientID); ok {
				return c
			}
		}
		c, err := id.Identify(context.Background(), addr, nil)
		if err != nil && !c.Addr.IsValid() {
			c.Addr = addr
		}
		return c
	}
}

// knowsAddresses says whether lists or rules know addresses, so that those in
// answers have to be judged.
func (e *Engine) knowsAddresses() bool {
	if e.lists.HasAddresses() {
		return true
	}
	for _, p := range e.settings.Policies {
		for _, r := range p.Rules {
			if slices.ContainsFunc(r.Host, func(h string) bool { _, err := netip.ParseAddr(strings.Trim(h, "[]")); return err == nil }) {
				return true
			}
		}
	}
	return false
}

// newAuthority makes what answers for zones. A zone with a mistake in its file
// stops neither the others nor a start or reload, but does not pass a trial.
func newAuthority(_ context.Context, b *builder) (*authority.Authority, error) {
	d := b.settings.DNS
	if b.trial() {
		a, err := authority.New(d.Zones, d.Redis, func() authority.Upstream { return nil }, nil, b.log)
		if err != nil {
			return nil, err
		}
		return a, errors.Join(a.Faults()...)
	}
	var before *authority.Authority
	if b.old != nil && b.old.zones != nil {
		before = b.old.zones
	}
	g := b.g
	return authority.New(d.Zones, d.Redis, func() authority.Upstream {
		if e := g.engine.Load(); e != nil && e.forward != nil {
			return e.forward // the one that is in use at that moment
		}
		return nil
	}, before, b.log)
}

// newNameserver makes the server, or tries new settings for the one there is:
// it takes them over when the engine comes into use.
func newNameserver(_ context.Context, b *builder) (*nameserver.Server, error) {
	cfg := b.settings.DNS.Server
	if b.trial() {
		return nameserver.New(cfg, b.log, nil)
	}
	s, err := nameserver.New(cfg, b.log, b.g.named)
	if err == nil && b.old != nil && b.old.names != nil {
		return b.old.names, nil
	}
	return s, err
}

// bareNameserver makes a name server whose TLS handshakes fail.
func bareNameserver(b *builder) (err error) {
	cfg := b.settings.DNS.Server
	cfg.Uncertified = true
	b.names, err = nameserver.New(cfg, b.log, b.g.named)
	return err
}

// named records a query that was answered.
func (g *Gateway) named(q *dns.Query, a *dns.Reply, judged *filter.Transaction, took time.Duration) {
	e := g.engine.Load()
	if e == nil || e.resolver == nil {
		return
	}
	t := e.resolver.Record(q, a, judged)
	t.Duration, t.BytesIn, t.BytesOut = took, int64(len(q.Msg)), int64(len(a.Buf))
	g.metrics.count(&t)
	e.events.Add(event.From(&t))
}

// Name says what the name server would answer a client that asks for the
// records of a type that a name has, without asking anybody. d is the decider,
// as Engine.As returns it.
func (e *Engine) Name(d filter.Decider, c filter.Client, name string, qtype uint16) (*resolver.Explanation, error) {
	settings := e.settings.DNS
	if settings == nil {
		settings = &DNS{}
	}
	store, err := resolver.NewStore(resolver.CacheConfig{}, "", resolver.Offline)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r, err := e.resolverFor(settings, d, store)
	if err != nil {
		return nil, e.settings.text.Mistakes(setting.At("dns", err))
	}
	q, err := resolver.Question(c, name, qtype)
	if err != nil {
		return nil, err
	}
	judge := r.As(c)
	if e.zones == nil {
		x, _, err := judge.Explain(q)
		return x, err
	}
	x, own, err := judge.Explain(q, e.zones.Zones())
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	case own:
		x.Zone = e.zones.Zone(q.Name)
	default:
		x.Unknown = e.zones.Elsewhere(q.Name)
	}
	return x, nil
}

// label is how CoreDNS names a server in metrics.
func (d *DNS) label() string {
	if len(d.Server.Listen) == 0 {
		return "dns://"
	}
	return "dns://" + d.Server.Listen[0]
}
