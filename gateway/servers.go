package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"shuultuur/admin"
	"shuultuur/metric"
	"shuultuur/proxy"
	"shuultuur/setting"
)

// A door is an address that the gateway listens on, and what serves there.
type door struct {
	key      string // below listen
	addrs    []setting.Address
	keepDest bool // TPROXY
	serve    func(context.Context, net.Listener) error
	open     []net.Listener
}

// servers are the doors of the proxy and the admin address.
type servers struct {
	doors []*door
	proxy *proxy.Proxy
	admin *admin.Server // nil in a trial
}

// Collect implements [metric.Collector].
func (s *servers) Collect(ch chan<- metric.Metric) { s.admin.Collect(ch) }

// addresses are the settings of the doors.
func (s *Settings) addresses() any {
	l := &s.Listen
	return []any{l.Proxy, l.Transparent, l.TPROXY, l.Sinkhole, l.ICAP, l.ICAPS, l.Portal, l.PortalTLS, l.Admin, l.Token, l.Monitors}
}

func newServers(_ context.Context, b *builder) (*servers, error) {
	l := &b.settings.Listen
	if n := len(l.Token); n > 0 && n < 16 {
		return nil, setting.At("token", fmt.Errorf("%d bytes can be guessed; give 16 or more", n))
	}
	for i, a := range l.Admin {
		if at := a.AddrPort().Addr(); !at.IsLoopback() && l.TLS == nil {
			return nil, setting.At(fmt.Sprintf("admin[%d]", i), fmt.Errorf("%q is reachable from other machines, which needs a certificate: name it at listen.tls, or listen on 127.0.0.1", a))
		}
	}
	if len(l.ICAPS) > 0 && l.TLS == nil {
		return nil, setting.At("icaps", errors.New("TLS needs a certificate: name it at listen.tls"))
	}
	if len(l.PortalTLS) > 0 && l.TLS == nil {
		return nil, setting.At("portal-tls", errors.New("TLS needs a certificate: name it at listen.tls"))
	}
	p := b.proxy
	s := &servers{proxy: p}
	if !b.trial() {
		var err error
		if s.admin, err = b.newAdmin(); err != nil {
			return nil, setting.At("admin", err)
		}
	}
	s.doors = []*door{
		{key: "proxy", addrs: l.Proxy, serve: p.Serve},
		{key: "transparent", addrs: l.Transparent, serve: p.ServeTransparent},
		{key: "tproxy", addrs: l.TPROXY, keepDest: true, serve: p.ServeTransparent},
		{key: "sinkhole", addrs: l.Sinkhole, serve: p.ServeSinkhole},
		{key: "icap", addrs: l.ICAP, serve: b.icap.Serve},
		{key: "icaps", addrs: l.ICAPS, serve: b.g.serveICAPS(b.icap)},
		{key: "portal", addrs: l.Portal, serve: b.welcome.Serve},
		{key: "portal-tls", addrs: l.PortalTLS, serve: b.g.servePortalTLS(b.welcome)},
		{key: "admin", addrs: l.Admin, serve: func(ctx context.Context, l net.Listener) error { return admin.Serve(ctx, l, b.g.adminTLS(), s.admin) }},
	}
	return s, nil
}

// A use is an address that a server of the settings listens on.
type use struct {
	key   string
	at    netip.AddrPort
	proto string
	dual  bool // an unspecified address is that of both families
}

// conflicts says whether only one of two servers can listen.
func (u use) conflicts(with use) bool {
	a, b := u.at.Addr(), with.at.Addr()
	if u.proto != with.proto || u.at.Port() != with.at.Port() || u.at.Port() == 0 {
		return false
	}
	one := a.Is4() == b.Is4()
	return a == b || a.IsUnspecified() && (one || u.dual) || b.IsUnspecified() && (one || with.dual)
}

// distinct says which servers have the same address.
func (s *Settings) distinct() error {
	var all []use
	l := &s.Listen
	for _, d := range []struct {
		key   string
		addrs []setting.Address
	}{{"proxy", l.Proxy}, {"transparent", l.Transparent}, {"tproxy", l.TPROXY}, {"sinkhole", l.Sinkhole}, {"icap", l.ICAP}, {"icaps", l.ICAPS}, {"portal", l.Portal}, {"portal-tls", l.PortalTLS}, {"admin", l.Admin}} {
		for i, a := range d.addrs {
			all = append(all, use{fmt.Sprintf("listen.%s[%d]", d.key, i), a.AddrPort(), "TCP", true})
		}
	}
	for i, a := range l.RADIUS {
		all = append(all, use{fmt.Sprintf("listen.radius[%d]", i), a.AddrPort(), "UDP", true})
	}
	if s.DNS != nil {
		all = append(all, s.DNS.uses()...)
	}
	var errs []error
	for i, u := range all {
		for _, before := range all[:i] {
			if u.conflicts(before) {
				errs = append(errs, setting.At(u.key, fmt.Errorf("%s of %v is taken by %s: give each its own address or port", u.proto, u.at, before.key)))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Listen opens every door, or none.
func (s *servers) Listen(ctx context.Context) error {
	var own []netip.AddrPort
	for _, d := range s.doors {
		for _, a := range d.addrs {
			on, err := proxy.Listen(ctx, string(a), d.keepDest)
			if err != nil {
				return errors.Join(setting.At(d.key, fmt.Errorf("cannot listen on %q: %w", a, err)), s.Close())
			}
			d.open = append(d.open, on)
			if a, ok := on.Addr().(*net.TCPAddr); ok {
				own = append(own, a.AddrPort())
			}
		}
	}
	s.proxy.SetOwn(own)
	return nil
}

// Run serves until ctx ends, or a door fails.
func (s *servers) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, d := range s.doors {
		for _, l := range d.open {
			wg.Go(func() {
				defer stop() // one that ends ends all
				if err := d.serve(ctx, l); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
	}
	<-ctx.Done()
	wg.Wait()
	return errors.Join(errs...)
}

// Close closes the doors.
func (s *servers) Close() error {
	var errs []error
	for _, d := range s.doors {
		for _, l := range d.open {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// at is where the first door with a key is, "" when it is not open.
func (s *servers) at(key string) string {
	for _, d := range s.doors {
		if d.key == key && len(d.open) > 0 {
			return d.open[0].Addr().String()
		}
	}
	return ""
}
