package forward

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/resolver/validate"
)

// Config is the settings of forwarding.
type Config struct {
	Upstreams setting.OneOrMore[string]            `yaml:"upstreams" role:"owner"` // for all names without a route; default: the system's
	Routes    map[string]setting.OneOrMore[string] `yaml:"routes" role:"owner"`    // upstreams by domain or network; off: no such names exist
	// Policies are the upstreams of the clients of a policy, in place of those of everybody; routes
	// come before them. off: these clients get names of routes alone.
	Policies  map[string]setting.OneOrMore[string] `yaml:"policies" role:"owner"`
	Order     Order                                `yaml:"order"`                  // fastest (default), parallel, strict
	Race      setting.Count                        `yaml:"race"`                   // upstreams queried at once with parallel; default 3
	Bootstrap setting.OneOrMore[string]            `yaml:"bootstrap" role:"owner"` // servers that look up the names of upstreams; default: the system's
	CA        setting.File                         `yaml:"ca" role:"owner"`        // a PEM file of root certificates to verify upstreams; default: the system's
	Timeout   setting.Duration                     `yaml:"timeout"`                // per upstream; default 2s
	Total     setting.Duration                     `yaml:"total"`                  // per question, for all attempts; default 5s
	InFlight  setting.Count                        `yaml:"in-flight"`              // queries waiting per upstream; default 1000

	Validate        bool `yaml:"validate"` // DNSSEC
	validate.Config `yaml:",inline"`

	Own []netip.AddrPort `yaml:"-"` // where this server listens: never queried

	// Rootless leaves CA unread and trusts no root: queries over TLS fail until the settings
	// change.
	Rootless bool `yaml:"-"`
}

// Limits of settings.
const (
	mostUpstreams = 64
	mostSets      = 63
	mostInFlight  = 10000
	mostRace      = 6
)

// limits are the numbers of a Config, with defaults applied.
type limits struct {
	timeout, total time.Duration // of one upstream, and of a question
	race, inFlight int
}

func (c *Config) limits() (l limits, err error) {
	if c.Order == "" {
		c.Order = Fastest
	}
	if err := c.Order.UnmarshalText([]byte(c.Order)); err != nil {
		return l, setting.At("order", err)
	}
	for _, x := range []struct {
		key string
		v   setting.Duration
		to  *time.Duration
		def time.Duration
	}{{"timeout", c.Timeout, &l.timeout, 2 * time.Second}, {"total", c.Total, &l.total, 5 * time.Second}} {
		if *x.to = x.v.Or(x.def); *x.to <= 0 || *x.to > time.Minute {
			return l, setting.At(x.key, fmt.Errorf("%v is not a time up to 1m", x.v))
		}
	}
	for _, x := range []struct {
		key      string
		v        setting.Count
		to       *int
		def, max int
	}{{"race", c.Race, &l.race, 3, mostRace}, {"in-flight", c.InFlight, &l.inFlight, 1000, mostInFlight}} {
		if *x.to = x.v.Or(x.def); *x.to <= 0 || *x.to > x.max {
			return l, setting.At(x.key, fmt.Errorf("%v is not a number from 1 to %d", x.v, x.max))
		}
	}
	return l, nil
}

// New makes a forwarder. It does not connect before the first question.
func New(cfg Config) (*Forwarder, error) {
	l, err := cfg.limits()
	if err != nil {
		return nil, err
	}
	f := &Forwarder{
		cfg:     cfg,
		limits:  l,
		routes:  map[string]*group{},
		wake:    make(chan struct{}, 1),
		seconds: metric.NewHistogramVec("coredns_proxy_request_duration_seconds", "Response time of an upstream.", metric.Doubling(0.00025, 16), "proxy_name", "to", "rcode"),
	}
	f.life, f.stop = context.WithCancel(context.Background())
	if cfg.Rootless {
		f.roots = x509.NewCertPool()
	} else if f.roots, err = cfg.CA.Roots(); err != nil {
		f.stop()
		return nil, setting.At("ca", err)
	}
	if err := f.build(); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.newValidator(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// build makes bootstrap, routes and upstreams from the settings.
func (f *Forwarder) build() error {
	known := map[string]*upstream{}
	system := systemServers(f.cfg.Own)
	var err error
	if f.boot, err = f.group(known, "bootstrap", f.cfg.Bootstrap.Or(system...)); err != nil {
		return err
	}
	for i, u := range f.boot.upstreams {
		if len(u.addr.fixed) == 0 {
			return setting.At(fmt.Sprintf("bootstrap[%d]", i), fmt.Errorf("%s has to be looked up itself: give an IP address", u.to))
		}
	}
	servers := f.cfg.Upstreams.Or(system...)
	if f.routes["\x00"], err = f.group(known, "upstreams", servers); err != nil {
		return err
	}
	f.routes["\x00"].missing = len(servers) == 0
	for domain, servers := range f.cfg.Routes {
		key := "routes." + domain
		names, err := routeNames(domain)
		if err != nil {
			return setting.At(key, err)
		}
		g, err := f.group(known, key, servers)
		if err != nil {
			return err
		}
		for _, n := range names {
			f.routes[string(n)] = g
		}
	}
	for _, policy := range f.cfg.Sets() {
		g, err := f.group(known, "policies."+policy, f.cfg.Policies[policy])
		if err != nil {
			return err
		}
		f.sets = append(f.sets, g)
	}
	if len(f.sets) > mostSets {
		return setting.At("policies", fmt.Errorf("%d policies have upstreams of their own, at most %d can", len(f.sets), mostSets))
	}
	if len(f.upstreams) > mostUpstreams {
		return setting.At("upstreams", fmt.Errorf("%d servers are more than %d", len(f.upstreams), mostUpstreams))
	}
	return nil
}

// Sets returns the policies that have upstreams of their own, in the order of their numbers: the first
// has 1.
func (c *Config) Sets() []string { return slices.Sorted(maps.Keys(c.Policies)) }

// group makes upstreams, each once for all groups.
func (f *Forwarder) group(known map[string]*upstream, key string, servers []string) (*group, error) {
	g := &group{order: f.cfg.Order, race: f.limits.race}
	for i, s := range servers {
		at := fmt.Sprintf("%s[%d]", key, i)
		u, err := f.upstreamOf(known, s)
		if err != nil {
			return nil, setting.At(at, err)
		}
		g.upstreams = append(g.upstreams, u)
	}
	return g, nil
}

// upstreamOf returns the upstream of an address, possibly from another group.
func (f *Forwarder) upstreamOf(known map[string]*upstream, s string) (*upstream, error) {
	a, err := parseAddress(s)
	if err != nil {
		return nil, err
	}
	for _, ip := range a.fixed {
		if isOwn(f.cfg.Own, netip.AddrPortFrom(ip, a.port)) {
			return nil, fmt.Errorf("upstream %q is this server itself", s)
		}
	}
	u := known[a.String()]
	if u == nil {
		u = f.newUpstream(a)
		known[u.to] = u
		f.upstreams = append(f.upstreams, u)
	}
	if u.addr.name != a.name || !slices.Equal(u.addr.fixed, a.fixed) || !slices.Equal(u.addr.pin, a.pin) {
		return nil, fmt.Errorf("upstream %q appears twice, with a different address, name or pin", s)
	}
	return u, nil
}

// newUpstream makes an upstream with the transport of its scheme.
func (f *Forwarder) newUpstream(a address) *upstream {
	u := &upstream{addr: a, to: a.String(), slots: make(chan struct{}, f.limits.inFlight)}
	u.stats.seconds, u.stats.to = f.seconds, u.to
	where := &locator{host: a.host, port: a.port, addrs: a.fixed, one: make(chan struct{}, 1)}
	if len(a.fixed) == 0 {
		where.look = f.locate
	}
	lane := &stream{life: f.life, stats: &u.stats, wait: f.limits.timeout, dial: func(ctx context.Context) (net.Conn, error) {
		to, err := where.pick(ctx)
		if err != nil {
			return nil, err
		}
		c, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
		if err != nil {
			where.failed(to.Addr())
		}
		return c, err
	}}
	u.transport = f.newTransport(a, where, lane, &u.stats)
	return u
}

// newTransport makes the transport to an upstream; lane connects over TCP.
func (f *Forwarder) newTransport(a address, where *locator, lane *stream, st *stats) transport {
	switch a.scheme {
	case "tcp":
		return lane
	case "tls":
		lane.dial, lane.pad = overTLS(lane.dial, tlsConfig(a, f.roots, "dot")), true
		return lane
	case "https":
		return newHTTPS(a.url, tlsConfig(a, f.roots), st, f.limits.timeout, lane.dial)
	case "h3", "quic":
		return f.newQUIC(a, where, st)
	}
	return &udp{life: f.life, where: where, stats: st, tcp: lane, open: map[*socket]struct{}{}}
}
