package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"

	"shuultuur/filter"
	"shuultuur/nameserver/forward/validate"
)

// Config is the settings of forwarding.
type Config struct {
	Upstreams []string            `yaml:"upstreams"` // of all names without a route; none: the system's
	Routes    map[string][]string `yaml:"routes"`    // upstreams by domain or network; an empty list: nothing exists there
	Order     Order               `yaml:"order"`     // fastest (default), parallel, strict
	Race      int                 `yaml:"race"`      // upstreams asked at once with parallel; default 3
	Bootstrap []string            `yaml:"bootstrap"` // addresses of servers that look up the names of upstreams; none: the system's
	CA        string              `yaml:"ca"`        // a PEM file of roots that upstreams are verified with; default the system's
	Timeout   time.Duration       `yaml:"timeout"`   // of one upstream; default 2s
	Total     time.Duration       `yaml:"total"`     // of a question, all attempts; default 5s
	InFlight  int                 `yaml:"in-flight"` // queries waiting for one upstream; default 1000

	Validate        bool `yaml:"validate"` // DNSSEC
	validate.Config `yaml:",inline"`

	Own []netip.AddrPort `yaml:"-"` // where this server listens: never asked
}

// Bounds of settings.
const (
	mostUpstreams = 64
	mostInFlight  = 10000
	mostRace      = 6
)

// complete checks c and fills in what it leaves out.
func (c *Config) complete() error {
	if c.Order == "" {
		c.Order = Fastest
	}
	if err := c.Order.UnmarshalText([]byte(c.Order)); err != nil {
		return filter.Setting("order", err)
	}
	for _, x := range []struct {
		key      string
		value    *time.Duration
		standard time.Duration
	}{{"timeout", &c.Timeout, 2 * time.Second}, {"total", &c.Total, 5 * time.Second}} {
		if *x.value < 0 || *x.value > time.Minute {
			return filter.Setting(x.key, fmt.Errorf("%v is not between 0 and 1m", *x.value))
		}
		if *x.value == 0 {
			*x.value = x.standard
		}
	}
	for _, x := range []struct {
		key            string
		value          *int
		standard, most int
	}{{"race", &c.Race, 3, mostRace}, {"in-flight", &c.InFlight, 1000, mostInFlight}} {
		if *x.value < 0 || *x.value > x.most {
			return filter.Setting(x.key, fmt.Errorf("%d is not between 1 and %d", *x.value, x.most))
		}
		if *x.value == 0 {
			*x.value = x.standard
		}
	}
	return nil
}

// New makes a forwarder. Nothing is connected to before the first question.
func New(cfg Config) (*Forwarder, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	f := &Forwarder{
		cfg:    cfg,
		routes: map[string]*group{},
		wake:   make(chan struct{}, 1),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coredns_proxy_request_duration_seconds",
			Help:    "Time to an answer of an upstream.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}, []string{"proxy_name", "to", "rcode"}),
	}
	f.life, f.stop = context.WithCancel(context.Background())
	var err error
	if f.roots, err = readRoots(cfg.CA); err != nil {
		f.stop()
		return nil, filter.Setting("ca", err)
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

// build makes bootstrap, routes and upstreams of the settings.
func (f *Forwarder) build() error {
	known := map[string]*upstream{}
	system := systemServers(f.cfg.Own)
	var err error
	if f.boot, err = f.group(known, "bootstrap", orElse(f.cfg.Bootstrap, system)); err != nil {
		return err
	}
	for i, u := range f.boot.upstreams {
		if len(u.addr.fixed) == 0 {
			return filter.Setting(fmt.Sprintf("bootstrap[%d]", i), fmt.Errorf("%s has to be looked up itself: give an IP address", u.to))
		}
	}
	servers := orElse(f.cfg.Upstreams, system)
	if len(servers) == 0 {
		return filter.Setting("upstreams", errors.New("none is set, and the system names no other server either"))
	}
	if f.routes["\x00"], err = f.group(known, "upstreams", servers); err != nil {
		return err
	}
	for domain, servers := range f.cfg.Routes {
		key := "routes." + domain
		names, err := routeNames(domain)
		if err != nil {
			return filter.Setting(key, err)
		}
		g, err := f.group(known, key, servers)
		if err != nil {
			return err
		}
		for _, n := range names {
			f.routes[string(n)] = g
		}
	}
	if len(f.upstreams) > mostUpstreams {
		return filter.Setting("upstreams", fmt.Errorf("%d servers are more than %d", len(f.upstreams), mostUpstreams))
	}
	return nil
}

func orElse(a, b []string) []string {
	if len(a) > 0 {
		return a
	}
	return b
}

// group makes upstreams, each once in all groups.
func (f *Forwarder) group(known map[string]*upstream, key string, servers []string) (*group, error) {
	g := &group{order: f.cfg.Order, race: f.cfg.Race}
	for i, s := range servers {
		at := fmt.Sprintf("%s[%d]", key, i)
		u, err := f.upstreamOf(known, s)
		if err != nil {
			return nil, filter.Setting(at, err)
		}
		g.upstreams = append(g.upstreams, u)
	}
	return g, nil
}

// upstreamOf returns the upstream of an address, which may be known from
// another group.
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
		return nil, fmt.Errorf("upstream %q is named before with another address, name or pin", s)
	}
	return u, nil
}

// newUpstream makes an upstream with the transport of its scheme.
func (f *Forwarder) newUpstream(a address) *upstream {
	u := &upstream{addr: a, to: a.String(), slots: make(chan struct{}, f.cfg.InFlight)}
	u.stats.seconds, u.stats.to = f.seconds, u.to
	where := &locator{host: a.host, port: a.port, addrs: a.fixed, one: make(chan struct{}, 1)}
	if len(a.fixed) == 0 {
		where.look = f.locate
	}
	lane := &stream{life: f.life, stats: &u.stats, wait: f.cfg.Timeout, dial: func(ctx context.Context) (net.Conn, error) {
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

// newTransport makes what speaks to an upstream; lane connects over TCP.
func (f *Forwarder) newTransport(a address, where *locator, lane *stream, st *stats) transport {
	quicTo := quicDialler(where, f.cfg.Timeout)
	switch a.scheme {
	case "tcp":
		return lane
	case "tls":
		lane.dial, lane.pad = overTLS(lane.dial, tlsConfig(a, f.roots, "dot")), true
		return lane
	case "https":
		return newHTTPS(a.url, tlsConfig(a, f.roots), st, lane.dial)
	case "h3":
		return newHTTP3(a.url, tlsConfig(a, f.roots, "h3"), st, func(ctx context.Context, cfg *tls.Config) (*quic.Conn, error) {
			st.dials.Add(1)
			return quicTo(ctx, cfg)
		})
	case "quic":
		cfg := tlsConfig(a, f.roots, "doq")
		dial := func(ctx context.Context) (*quic.Conn, error) { return quicTo(ctx, cfg) }
		return &doq{life: f.life, stats: st, dial: dial, wait: f.cfg.Timeout}
	}
	return &udp{life: f.life, where: where, stats: st, tcp: lane, open: map[*socket]struct{}{}}
}
