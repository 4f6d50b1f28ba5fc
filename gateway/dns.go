package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/identity"
	"shuultuur/nameserver"
	"shuultuur/nameserver/forward"
	"shuultuur/nameserver/resolve"
	"shuultuur/nameserver/wire"
	"shuultuur/nameserver/zone"
	"shuultuur/nameserver/zone/redins"
)

// DNS are the settings of the name server.
type DNS struct {
	Server  nameserver.Config   `yaml:",inline"`
	Names   resolve.Config      `yaml:",inline"`
	Forward forward.Config      `yaml:"forward"`
	Cache   resolve.CacheConfig `yaml:"cache"`
	Zones   Zones               `yaml:"zones"`
	Redis   *redins.Config      `yaml:"redis"` // zones in redins' layout; nil for none
}

// names are what the name server asks others with, and what it remembers of
// that. They outlive engines: a reload changes them only when their own
// settings have.
type names struct {
	forward *forward.Forwarder
	store   *resolve.Store
	made    string // of these settings
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// newNames makes them; close ends them.
func newNames(s *Settings) (*names, error) {
	d := s.DNS
	n := &names{made: d.madeOf()}
	var err error
	if n.forward, err = forward.New(s.forwarding()); err != nil {
		return nil, filter.Setting("dns.forward", err)
	}
	if n.store, err = resolve.NewStore(d.Cache, n.forward.Ask); err != nil {
		n.forward.Close()
		return nil, filter.Setting("dns.cache", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.wg.Go(func() { _ = n.forward.Run(ctx) }) // ends with ctx, and without an error
	return n, nil
}

// forwarding are the settings of forwarding, which never asks this server
// itself: that would go in circles.
func (s *Settings) forwarding() forward.Config {
	cfg := s.DNS.Forward
	cfg.CA = s.path(cfg.CA)
	cfg.Own = s.DNS.Server.Addresses()
	return cfg
}

// nameserver are the settings of the server itself.
func (s *Settings) nameserver() nameserver.Config {
	cfg := s.DNS.Server
	cfg.Cert, cfg.Key = s.path(cfg.Cert), s.path(cfg.Key)
	return cfg
}

// fixed are the settings that only a restart changes.
func (d *DNS) fixed() string {
	s := &d.Server
	return fmt.Sprint(s.Listen, s.TLS, s.HTTPS, s.QUIC, s.Sockets, s.Connections, s.PerClient, s.Workers, s.Queue,
		s.Wait, s.Path, s.Cookies.Secret)
}

// label is how CoreDNS names a server in metrics.
func (d *DNS) label() string {
	if len(d.Server.Listen) == 0 {
		return "dns://"
	}
	return "dns://" + d.Server.Listen[0]
}

func (d *DNS) madeOf() string { return fmt.Sprint(d.Forward, d.Cache) }

// answers is its store, nil when there is none.
func (n *names) answers() *resolve.Store {
	if n == nil {
		return nil
	}
	return n.store
}

func (n *names) close() {
	if n == nil {
		return
	}
	n.store.Close()
	n.stop()
	n.wg.Wait()
}

// resolver makes the engine's resolver, over a store that asks nobody when
// there is none.
func (e *Engine) names(store *resolve.Store) error {
	d := e.settings.DNS
	if d == nil {
		return nil
	}
	if store == nil {
		var err error
		store, err = resolve.NewStore(d.Cache, func(context.Context, []byte, uint16, uint16, bool, bool) ([]byte, uint16, error) {
			return nil, 0, errOffline
		})
		if err != nil {
			return filter.Setting("dns.cache", err)
		}
		e.offline = store
	}
	var err error
	e.resolver, err = e.newResolver(d, e.policy, store)
	return err
}

var errOffline = errors.New("nobody is asked")

func (e *Engine) newResolver(d *DNS, decider filter.Decider, store *resolve.Store) (*resolve.Resolver, error) {
	s := e.settings
	for i := range s.Policies {
		p := &s.Policies[i]
		if len(d.Names.Block.Sinkhole) > 0 {
			break
		}
		if p.DNS.Answer == filter.Sinkhole {
			return nil, filter.Setting(fmt.Sprintf("policies[%d].dns.answer", i), errNoSinkhole)
		}
		for j := range p.Rules {
			if p.Rules[j].Answer == filter.Sinkhole {
				return nil, filter.Setting(fmt.Sprintf("policies[%d].rules[%d].answer", i, j), errNoSinkhole)
			}
		}
	}
	cfg := d.Names
	cfg.HostsFiles = nil
	for _, f := range d.Names.HostsFiles {
		cfg.HostsFiles = append(cfg.HostsFiles, s.path(f))
		if !slices.Contains(e.files, s.path(f)) {
			e.files = append(e.files, s.path(f))
		}
	}
	own, err := routed(d.Forward.Routes)
	if err != nil {
		return nil, err
	}
	r, err := resolve.New(cfg, resolve.Parts{
		Decider: decider, Count: e.policy.Query, Identify: byAddress(e.identity), Store: store, Addresses: e.knowsAddresses(), Routed: own,
		Validated: d.Forward.Validate,
	})
	if err != nil {
		return nil, filter.Setting("dns", err)
	}
	return r, nil
}

var errNoSinkhole = errors.New("there is no sinkhole; name its addresses under dns: block: sinkhole")

// byAddress says who is at an address; a name server cannot ask for a password.
func byAddress(id *identity.Identity) func(netip.Addr) filter.Client {
	return func(addr netip.Addr) filter.Client {
		c, err := id.Identify(context.Background(), addr, nil)
		if err != nil && !c.Addr.IsValid() {
			c.Addr = addr
		}
		return c
	}
}

// knowsAddresses says whether lists or rules know addresses, so that those in
// answers are to be judged.
func (e *Engine) knowsAddresses() bool {
	for _, f := range e.lists {
		if f.HasAddresses() {
			return true
		}
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

// routed are the domains that have upstreams of their own, in wire form.
func routed(routes map[string][]string) ([][]byte, error) {
	var domains [][]byte
	for key := range routes {
		names, err := forward.RouteNames(key)
		if err != nil {
			return nil, filter.Setting("dns.forward.routes."+key, err)
		}
		for _, n := range names {
			if len(n) > 1 {
				domains = append(domains, n)
			}
		}
	}
	return domains, nil
}

// tryDNS looks for mistakes that only a start would find.
func (e *Engine) tryDNS() error {
	d := e.settings.DNS
	if d == nil {
		return nil
	}
	if _, err := nameserver.New(e.settings.nameserver(), nil, nil); err != nil {
		return filter.Setting("dns", err)
	}
	f, err := forward.New(e.settings.forwarding())
	if err != nil {
		return filter.Setting("dns.forward", err)
	}
	return f.Close()
}

// openDNS makes the name server and opens its addresses.
func (g *Gateway) openDNS(ctx context.Context, s *Settings, e *Engine) (err error) {
	if s.DNS == nil {
		return nil
	}
	if g.dns, err = nameserver.New(s.nameserver(), g.log, g.named); err != nil {
		return filter.Setting("dns", err)
	}
	if g.zones, err = newZones(s, g, g.log); err != nil {
		return err
	}
	g.respond(g.zones, e)
	if err := g.dns.Listen(ctx); err != nil {
		return filter.Setting("dns", err)
	}
	return nil
}

// named is told of queries that were answered.
func (g *Gateway) named(q *wire.Query, a *wire.Reply, took time.Duration) {
	e := g.engine.Load()
	if e == nil || e.resolver == nil {
		return
	}
	t := e.resolver.Record(q, a)
	t.Duration, t.BytesIn, t.BytesOut = took, int64(len(q.Msg)), int64(len(a.Buf))
	g.metrics.count(&t)
	g.events.Add(event.From(&t))
}

// newZones returns the zones of new settings: those it has, when they would be
// the same.
func (g *Gateway) newZones(s *Settings) (*zones, error) {
	if g.dns == nil || s.DNS == nil {
		return g.zones, nil // that takes a restart
	}
	if g.zones.made == s.zonesMadeOf() {
		return g.zones, nil
	}
	g.zones.save() // for the new ones to go on with
	return newZones(s, g, g.log)
}

// dropZones lets go of what newZones has made and is not used.
func (g *Gateway) dropZones(z *zones) {
	if z != g.zones {
		z.close()
	}
}

// newNames returns what the name server of new settings asks others with: what
// it has, when that would be the same.
func (g *Gateway) newNames(s *Settings) (*names, error) {
	if g.dns == nil || s.DNS == nil {
		return g.names, nil // that takes a restart
	}
	if g.names.made == s.DNS.madeOf() {
		return g.names, nil
	}
	return newNames(s)
}

// dropNames lets go of what newNames has made and is not used.
func (g *Gateway) dropNames(n *names) {
	if n != g.names {
		n.close()
	}
}

// reloadDNS takes the new settings of the name server into use. That they can
// be used has been tried when e was built.
func (g *Gateway) reloadDNS(s *Settings, e *Engine, n *names, z *zones) {
	if g.dns == nil || s.DNS == nil {
		return
	}
	if err := g.dns.Reload(s.nameserver()); err != nil {
		g.log.Error("the name server keeps its old limits", "error", err)
	}
	g.respond(z, e)
	if old := g.zones; z != old {
		g.mu.Lock()
		g.zones = z
		g.mu.Unlock()
		old.close()
	}
	if old := g.names; n != old {
		g.mu.Lock()
		g.names = n
		g.mu.Unlock()
		old.close()
	}
}

// A NameAnswer is what the name server would say.
type NameAnswer struct {
	Transaction filter.Transaction
	Rcode       string
	Records     []string // of the answer, as in a zone file
	Error       string   // the Extended DNS Error, "" when there is none
	// Upstream says that upstreams would be asked, and their answer be judged
	// again: Rcode and Records are empty.
	Upstream bool
	// DNS64 is what is made of their answer, "" for nothing.
	DNS64 string
	// Zone is the zone of our own that answers; nothing is judged then.
	Zone string
	// Unknown is where zones are that may answer instead and are not looked at
	// without asking, "" when there are none.
	Unknown string
}

// Name says what the name server would answer a client who asks for the
// records of a type that a name has, without asking anybody. d is the decider,
// as Engine.As returns it.
func (e *Engine) Name(d filter.Decider, c filter.Client, name string, qtype uint16) (*NameAnswer, error) {
	settings := e.settings.DNS
	if settings == nil {
		settings = &DNS{}
	}
	store, err := resolve.NewStore(resolve.CacheConfig{}, func(context.Context, []byte, uint16, uint16, bool, bool) ([]byte, uint16, error) {
		return nil, 0, errOffline
	})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r, err := e.newResolver(settings, d, store)
	if err != nil {
		return nil, e.settings.mistake(err)
	}
	if _, err := wire.Name(name); err != nil {
		return nil, err
	}
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.SetEdns0(4096, false)
	msg, err := m.Pack()
	if err != nil {
		return nil, fmt.Errorf("asking for %q: %w", name, err)
	}
	var q wire.Query
	if q.Parse(msg) != wire.OK {
		return nil, fmt.Errorf("%q is not a name to ask for", name)
	}
	q.Client, q.At, q.Recursion = netip.AddrPortFrom(c.Addr, 53), time.Now(), true
	judge := r.As(c)
	x, err := e.ownName(judge, &q)
	if x != nil || err != nil {
		return x, err
	}
	if x, err = ask(judge, judge, &q); err == nil {
		x.Unknown = settings.elsewhere(dns.CanonicalName(name))
	}
	return x, err
}

// ownName answers q out of the zone files, nil when it is in none of them.
func (e *Engine) ownName(judge *resolve.Resolver, q *wire.Query) (*NameAnswer, error) {
	s := e.settings
	if s.DNS == nil || len(s.DNS.Zones.Files.Files) == 0 {
		return nil, nil
	}
	all, err := zone.Load(s.zones().Files)
	if err != nil {
		return nil, s.mistake(filter.Setting("dns.zones", err))
	}
	own := zone.NewResponder()
	if err := own.Replace(all...); err != nil {
		return nil, s.mistake(filter.Setting("dns.zones", err))
	}
	var a wire.Reply
	a.Start(q, nil, 4096)
	if own.Answer(q, &a) == wire.Declined {
		return nil, nil
	}
	x, err := ask(own, judge, q)
	if err != nil {
		return nil, err
	}
	name, _, err := dns.UnpackDomainName(q.Name, 0)
	if err != nil {
		return nil, err
	}
	for _, z := range all {
		if origin := dns.CanonicalName(z.Origin); len(origin) > len(x.Zone) && dns.IsSubDomain(origin, name) {
			x.Zone = origin
		}
	}
	return x, nil
}

// elsewhere says where zones are that may answer for name.
func (d *DNS) elsewhere(name string) string {
	for _, z := range d.Zones.Transfer.Secondaries {
		if dns.IsSubDomain(dns.CanonicalName(z.Zone), name) {
			return "the primaries of " + dns.CanonicalName(z.Zone)
		}
	}
	if d.Redis != nil {
		return "Redis"
	}
	return ""
}

// ask puts q to r; judge makes the record of it.
func ask(r wire.Responder, judge *resolve.Resolver, q *wire.Query) (*NameAnswer, error) {
	var a wire.Reply
	a.Start(q, nil, 4096)
	x := &NameAnswer{}
	switch r.Answer(q, &a) {
	case wire.Later:
		x.Upstream, x.DNS64 = true, judge.DNS64(q)
		x.Transaction = judge.Record(q, &a)
		return x, nil
	case wire.Answered:
	default:
		x.Upstream = true
		return x, nil
	}
	x.Transaction = judge.Record(q, &a)
	var m dns.Msg
	if err := m.Unpack(a.Finish(&wire.Options{Size: 4096, Max: 4096})); err != nil {
		return nil, err
	}
	x.Rcode = filter.RcodeName(uint16(m.Rcode))
	for _, rr := range m.Answer {
		x.Records = append(x.Records, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	if a.HasEDE {
		x.Error = fmt.Sprintf("%d (%s): %s", a.EDE, dns.ExtendedErrorCodeToString[a.EDE], a.EDEText)
	}
	return x, nil
}
