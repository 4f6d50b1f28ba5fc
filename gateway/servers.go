package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"

	"shuultuur/admin"
	"shuultuur/metric"
	"shuultuur/proxy"
	"shuultuur/setting"
)

// servers are the doors of the proxy and the admin address.
type servers struct {
	proxy.Doors
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
	s := &servers{}
	if !b.trial() {
		var err error
		if s.admin, err = b.newAdmin(); err != nil {
			return nil, setting.At("admin", err)
		}
	}
	s.Doors = proxy.Doors{Own: p.SetOwn, All: []*proxy.Door{
		{Key: "proxy", Addrs: l.Proxy, Serve: p.Serve},
		{Key: "transparent", Addrs: l.Transparent, Serve: p.ServeTransparent},
		{Key: "tproxy", Addrs: l.TPROXY, KeepDest: true, Serve: p.ServeTransparent},
		{Key: "sinkhole", Addrs: l.Sinkhole, Serve: p.ServeSinkhole},
		{Key: "icap", Addrs: l.ICAP, Serve: b.icap.Serve},
		{Key: "icaps", Addrs: l.ICAPS, Serve: b.g.serveICAPS(b.icap)},
		{Key: "portal", Addrs: l.Portal, Serve: b.welcome.Serve},
		{Key: "portal-tls", Addrs: l.PortalTLS, Serve: b.g.servePortalTLS(b.welcome)},
		{Key: "admin", Addrs: l.Admin, Serve: func(ctx context.Context, l net.Listener) error { return admin.Serve(ctx, l, b.g.adminTLS(), s.admin) }},
	}}
	return s, nil
}

// distinct says which servers have the same address.
func (s *Settings) distinct() error {
	var all []setting.Use
	l := &s.Listen
	for _, d := range []struct {
		key   string
		addrs []setting.Address
	}{{"proxy", l.Proxy}, {"transparent", l.Transparent}, {"tproxy", l.TPROXY}, {"sinkhole", l.Sinkhole}, {"icap", l.ICAP}, {"icaps", l.ICAPS}, {"portal", l.Portal}, {"portal-tls", l.PortalTLS}, {"admin", l.Admin}} {
		for i, a := range d.addrs {
			all = append(all, setting.Use{Key: fmt.Sprintf("listen.%s[%d]", d.key, i), At: a.AddrPort(), Proto: "TCP", Dual: true})
		}
	}
	for i, a := range l.RADIUS {
		all = append(all, setting.Use{Key: fmt.Sprintf("listen.radius[%d]", i), At: a.AddrPort(), Proto: "UDP", Dual: true})
	}
	if s.DNS != nil {
		all = append(all, s.DNS.uses()...)
	}
	return setting.Distinct(all)
}
