package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/lib/certificate"
	"shuultuur/lib/dns"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/list/source"
	"shuultuur/nameserver"
	"shuultuur/policy"
	"shuultuur/resolver"
	"shuultuur/resolver/forward"
	"shuultuur/zone/authority"
)

// dnsSettings returns a function that returns settings of the name server, nil if there is none.
func dnsSettings(of func(*configuration.DNS) any) func(*configuration.Settings) any {
	return func(s *configuration.Settings) any {
		if s.DNS == nil {
			return nil
		}
		return of(s.DNS)
	}
}

// nameParts are the rows of the name server.
func nameParts() []part {
	return []part{
		{name: "forwarding", key: "dns.forward", kind: problem.Names, from: dnsSettings(func(d *configuration.DNS) any { return []any{d.Forward, d.Server.Addresses()} }),
			without: rootlessForwarder, slot: newSlot(func(e *Engine) **forward.Forwarder { return &e.Forward }, newForwarder)},
		{name: "cache", key: "dns.cache", above: []string{"forwarding"}, from: dnsSettings(func(d *configuration.DNS) any { return d.Cache }),
			slot: newSlot(func(e *Engine) **resolver.Store { return &e.Cache }, newCache)},
		{name: "resolver", key: "dns", kind: problem.Names, above: []string{"lists", "identity", "policies", "cache"}, from: dnsSettings(func(d *configuration.DNS) any { return d.Names }),
			slot: newSlot(func(e *Engine) **resolver.Resolver { return &e.Resolver }, newResolver)},
		{name: "zones", key: "dns", kind: problem.Zones, from: dnsSettings(func(d *configuration.DNS) any { return []any{d.Zones, d.Redis} }),
			slot: newSlot(func(e *Engine) **authority.Authority { return &e.Zones }, newAuthority)},
		{name: "nameserver", key: "dns", kind: problem.Log, from: nameServerOf, fixed: dnsSettings(func(d *configuration.DNS) any { return fixedOf(d) }), listens: func(s *configuration.Settings) []netip.AddrPort { return s.DNS.Server.Addresses() },
			without: bareNameserver, slot: newSlot(func(e *Engine) **nameserver.Server { return &e.Names }, newNameserver)},
	}
}

// fixedOf returns the settings that only a restart changes.
func fixedOf(d *configuration.DNS) any {
	s := &d.Server
	return []any{s.Listen, s.TLS, s.HTTPS, s.QUIC, s.HTTP, s.Sockets, s.Connections, s.PerClient, s.Workers, s.Queue, s.Wait, s.Path, s.Cookies.Secret, s.Dnstap}
}

func newForwarder(_ context.Context, b *builder) (*forward.Forwarder, error) {
	cfg := b.Settings.DNS.Forward
	for _, name := range cfg.Sets() {
		if !slices.ContainsFunc(b.Settings.Policies, func(p policy.Policy) bool { return p.Name == name }) {
			return nil, setting.At("policies."+name, fmt.Errorf("there is no policy %q", name))
		}
	}
	cfg.Own = b.Settings.DNS.Server.Addresses() // it is never queried, to avoid a loop
	f, err := forward.New(cfg)
	if err != nil {
		return nil, err
	}
	b.reads(f.AwaitedFiles()...)
	if !b.trial() {
		for _, p := range f.Problems() {
			b.log.Warn(p)
		}
	}
	return f, nil
}

// rootlessForwarder makes a forwarder that does not query over TLS.
func rootlessForwarder(b *builder) (err error) {
	cfg := b.Settings.DNS.Forward
	cfg.Own, cfg.Rootless = b.Settings.DNS.Server.Addresses(), true
	b.Forward, err = forward.New(cfg)
	return err
}

func newCache(_ context.Context, b *builder) (*resolver.Store, error) {
	if b.trial() {
		return resolver.NewStore(b.Settings.DNS.Cache, labelOf(b.Settings.DNS), resolver.Offline)
	}
	var sets []resolver.Upstream
	for i := range b.Settings.DNS.Forward.Sets() {
		sets = append(sets, b.Forward.AskFor(uint8(i+1)))
	}
	return resolver.NewStore(b.Settings.DNS.Cache, labelOf(b.Settings.DNS), b.Forward.Ask, sets...)
}

func newResolver(_ context.Context, b *builder) (*resolver.Resolver, error) {
	r, err := b.ResolverFor(b.Settings.DNS, b.Policies, b.Cache)
	if err == nil && !b.trial() {
		for _, p := range r.Problems() {
			b.log.Warn(p)
		}
	}
	return r, err
}

// ResolverFor makes a resolver with another decider and cache than the engine's.
func (e *Engine) ResolverFor(d *configuration.DNS, decider filter.Decider, store *resolver.Store) (*resolver.Resolver, error) {
	own, err := d.Forward.RoutedDomains()
	if err != nil {
		return nil, setting.At("forward", err)
	}
	over, stop := context.WithCancel(context.Background())
	stop()
	return resolver.New(d.Names, resolver.Parts{
		Decider: decider, Count: e.Policies.Query, Store: store, Addresses: e.hasAddresses(), Routed: own, Needs: e.needs(),
		Validated: d.Forward.Validate, Set: upstreamsOf(d, e.Policies.Covers),
		Identify: func(addr netip.Addr, clientID string) filter.Client {
			return byAddress(over, e.Identity, addr, clientID)
		},
		Await: func(ctx context.Context, addr netip.Addr, clientID string) filter.Client {
			ctx, stop := context.WithTimeout(ctx, groupsTime)
			defer stop()
			return byAddress(ctx, e.Identity, addr, clientID)
		},
	})
}

// upstreamsOf returns what tells which upstreams answer a client, nil if they are the same for all.
func upstreamsOf(d *configuration.DNS, covers func(c *filter.Client, now time.Time) string) func(c *filter.Client, now time.Time) uint8 {
	numbers := map[string]uint8{}
	for i, policy := range d.Forward.Sets() {
		numbers[policy] = uint8(i + 1)
	}
	if len(numbers) == 0 {
		return nil
	}
	return func(c *filter.Client, now time.Time) uint8 { return numbers[covers(c, now)] }
}

// needs returns the hosts that the gateway asks for itself: servers of lists and rules with their
// mirrors, and every server that the settings name, such as upstreams, those of updates, sign-ins,
// certificates, mail, alerts and databases.
func (e *Engine) needs() (hosts []string) {
	add := func(s string) {
		if host := serverOf(s); host != "" {
			hosts = append(hosts, host)
		}
	}
	items := maps.Clone(e.Lists.Fetched())
	if items == nil {
		items = source.Items{}
	}
	rules, _ := e.Settings.Checks.Fetches() // mistakes are reported where rules are read
	maps.Copy(items, rules)
	for _, it := range items {
		for _, s := range append([]string{it.Source.URL, it.Source.Signature, it.Source.Sums}, it.Source.Mirrors...) {
			add(s)
		}
	}
	add(string(e.Settings.Updates))
	if e.Settings.ACME != nil {
		add(cmp.Or(e.Settings.ACME.Directory, certificate.LetsEncrypt))
	}
	return append(hosts, serversOf(e.Settings.Text.Data())...)
}

// serversOf returns the hosts of the servers that settings name.
func serversOf(text []byte) (hosts []string) {
	_ = setting.Walk(text, func(path []string, _ int, value string, comment bool) { // the text could be read
		if comment || len(path) == 0 || slices.Contains(ofClients, path[0]) {
			return
		}
		if last := path[len(path)-1]; (last == "servers" || last == "upstreams") && !strings.Contains(value, ":") {
			value += ":0" // a port may be left out
		}
		if host := serverOf(value); host != "" {
			hosts = append(hosts, host)
		}
	})
	return hosts
}

// ofClients has the parts of the settings whose addresses are those that clients ask for, or our own.
var ofClients = []string{"listen", "lists", "pages", "policies", "portal"}

// serverOf returns the host of a URL, or of host:port; "" for anything else and for addresses.
func serverOf(s string) string {
	host, port, err := net.SplitHostPort(s)
	if u, wrong := url.Parse(s); wrong == nil && strings.Contains(s, "://") {
		host = u.Hostname()
	} else if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil {
		return ""
	}
	if host = strings.ToLower(strings.TrimSuffix(host, ".")); !dns.IsHost([]byte(host)) {
		return ""
	}
	return host
}

// byAddress returns the client at an address or with a ClientID; a name server cannot ask for
// a password.
func byAddress(ctx context.Context, id *identity.Identity, addr netip.Addr, clientID string) filter.Client {
	if clientID != "" {
		if c, ok := id.ByClientID(addr, clientID); ok {
			return c
		}
	}
	c, err := id.Identify(ctx, addr, nil)
	if err != nil && !c.Addr.IsValid() {
		c.Addr = addr
	}
	return c
}

// groupsTime is how long a query waits for the groups of its client.
const groupsTime = 2 * time.Second

// hasAddresses reports whether lists or rules contain addresses, so that those in answers must
// be judged.
func (e *Engine) hasAddresses() bool {
	if e.Lists.HasAddresses() {
		return true
	}
	for _, p := range e.Settings.Policies {
		for _, r := range p.Rules {
			if slices.ContainsFunc(r.Host, func(h string) bool { _, err := netip.ParseAddr(strings.Trim(h, "[]")); return err == nil }) {
				return true
			}
		}
	}
	return false
}

// newAuthority makes the server of zones. A mistake in a zone file stops neither other zones
// nor a start or reload, but fails a trial.
func newAuthority(_ context.Context, b *builder) (*authority.Authority, error) {
	d := b.Settings.DNS
	if b.trial() {
		a, err := authority.New(d.Zones, d.Redis, func() authority.Upstream { return nil }, nil, b.log)
		if err != nil {
			return nil, err
		}
		return a, errors.Join(a.Faults()...)
	}
	var before *authority.Authority
	if b.old != nil && b.old.Zones != nil {
		before = b.old.Zones
	}
	h := b.host
	return authority.New(d.Zones, d.Redis, func() authority.Upstream {
		if e := h.InUse(); e != nil && e.Forward != nil {
			return e.Forward // the one in use at that time
		}
		return nil
	}, before, b.log)
}

// newNameserver makes the name server, or validates new settings for the existing one, which
// adopts them when the engine comes into use.
func newNameserver(_ context.Context, b *builder) (*nameserver.Server, error) {
	cfg := b.host.nameServer(b.Settings)
	if b.trial() {
		return nameserver.New(cfg, b.log, nil)
	}
	s, err := nameserver.New(cfg, b.log, b.host.Named)
	if err == nil && b.old != nil && b.old.Names != nil && (b.old.Settings.DNS == nil || setting.Digest(fixedOf(b.old.Settings.DNS)) == setting.Digest(fixedOf(b.Settings.DNS)) || overlap(b.old.Settings.DNS.Server.Addresses(), cfg.Addresses())) {
		return b.old.Names, nil
	}
	return s, err
}

// bareNameserver makes a name server whose TLS handshakes fail.
func bareNameserver(b *builder) (err error) {
	cfg := b.host.nameServer(b.Settings)
	cfg.Uncertified = true
	b.Names, err = nameserver.New(cfg, b.log, b.host.Named)
	return err
}

// Name returns how the name server would answer a client's query, without querying other
// servers. d is the decider from Engine.As.
func (e *Engine) Name(d filter.Decider, c filter.Client, name string, qtype uint16) (x *resolver.Explanation, err error) {
	settings := e.Settings.DNS
	if settings == nil {
		settings = &configuration.DNS{}
	}
	store, err := resolver.NewStore(resolver.CacheConfig{}, "", resolver.Offline)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r, err := e.ResolverFor(settings, d, store)
	if err != nil {
		return nil, e.Settings.Text.Mistakes(setting.At("dns", err))
	}
	q, err := resolver.Question(c, name, qtype)
	if err != nil {
		return nil, err
	}
	judge := r.As(c)
	defer func() {
		if x != nil && x.Upstream && e.Forward != nil {
			set := slices.Index(settings.Forward.Sets(), x.Transaction.Verdict.Reason.Policy) + 1
			x.Upstreams = e.Forward.Asked(q.Name, qtype, uint8(set))
		}
	}()
	if e.Zones == nil {
		return judge.Explain(q)
	}
	ours := e.Zones.Zones()
	judge = judge.With(ours)
	own := judge.IsOurs(q)
	x, err = judge.Explain(q)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	case own:
		x.Zone = e.Zones.Zone(q.Name)
	default:
		x.Unknown = e.Zones.OtherSource(q.Name)
	}
	return x, nil
}

// overlaps says where zones, hosts and routes of the settings hide each other.
func (e *Engine) overlaps() []string {
	if e.Resolver == nil || e.Zones == nil {
		return nil
	}
	return e.Resolver.Overlaps(e.Zones.Origins(), e.Zones.HasData)
}

// labelOf returns CoreDNS's label for the server in metrics.
func labelOf(d *configuration.DNS) string {
	if len(d.Server.Listen) == 0 {
		return "dns://"
	}
	return "dns://" + d.Server.Listen[0]
}
