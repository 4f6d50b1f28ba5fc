package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"shuultuur/admin/web"
	"shuultuur/engine/configuration"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
	"shuultuur/proxy"
)

// Servers are the listeners of the proxy and of the admin address.
type Servers struct {
	proxy.Doors
	admin *web.Site // nil in a trial
}

// Collect implements [metric.Collector].
func (s *Servers) Collect(ch chan<- metric.Metric) { s.admin.Collect(ch) }

// Site returns the pages of the admin address.
func (s *Servers) Site() *web.Site { return s.admin }

// addressesOf returns the settings of the listeners.
func addressesOf(s *configuration.Settings) any {
	l := &s.Listen
	return []any{l.Proxy, l.Transparent, l.TPROXY, l.Sinkhole, l.ICAP, l.ICAPS, l.Portal, l.PortalTLS, l.Admin, l.Token, l.Monitors}
}

// doorsOf returns the addresses at which the servers listen.
func doorsOf(s *configuration.Settings) (all []netip.AddrPort) {
	l := &s.Listen
	for _, a := range slices.Concat(l.Proxy, l.Transparent, l.TPROXY, l.Sinkhole, l.ICAP, l.ICAPS, l.Portal, l.PortalTLS, l.Admin) {
		all = append(all, a.AddrPort())
	}
	return all
}

func newServers(_ context.Context, b *builder) (*Servers, error) {
	l := &b.Settings.Listen
	if n := len(l.Token); n > 0 && n < 16 {
		return nil, setting.At("token", fmt.Errorf("%d bytes are too few to be safe; give 16 or more", n))
	}
	certified := certificateOf(b.Settings) != nil
	for i, a := range l.Admin {
		if at := a.AddrPort().Addr(); !at.IsLoopback() && !certified {
			return nil, setting.At(fmt.Sprintf("admin[%d]", i), fmt.Errorf("%q is reachable from other machines, which needs a certificate: name it at listen.tls, or a root at intercept.root, or listen on 127.0.0.1", a))
		}
	}
	if len(l.ICAPS) > 0 && !certified {
		return nil, setting.At("icaps", errors.New("TLS needs a certificate: name it at listen.tls"))
	}
	if len(l.PortalTLS) > 0 && !certified {
		return nil, setting.At("portal-tls", errors.New("TLS needs a certificate: name it at listen.tls"))
	}
	p := b.Proxy
	s := &Servers{}
	if !b.trial() {
		var err error
		if s.admin, err = b.host.Admin(b.Engine); err != nil {
			return nil, setting.At("admin", err)
		}
	}
	s.Doors = proxy.Doors{Own: p.SetOwn, All: []*proxy.Door{
		{Key: "proxy", Addrs: l.Proxy, Serve: p.Serve},
		{Key: "transparent", Addrs: l.Transparent, Serve: p.ServeTransparent},
		{Key: "tproxy", Addrs: l.TPROXY, KeepDest: true, Serve: p.ServeTransparent},
		{Key: "sinkhole", Addrs: l.Sinkhole, Serve: p.ServeSinkhole},
		{Key: "icap", Addrs: l.ICAP, Serve: b.ICAP.Serve},
		{Key: "icaps", Addrs: l.ICAPS, Serve: b.host.serveICAPS(b.ICAP)},
		{Key: "portal", Addrs: l.Portal, Serve: b.Welcome.Serve},
		{Key: "portal-tls", Addrs: l.PortalTLS, Serve: b.Welcome.ServeTLS},
		{Key: "admin", Addrs: l.Admin, Serve: func(ctx context.Context, l net.Listener) error {
			return web.Serve(ctx, l, b.host.adminTLS(), s.admin)
		}},
	}}
	return s, nil
}
