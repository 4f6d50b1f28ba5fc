package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"shuultuur/engine/configuration"
	"shuultuur/lib/certificate"
	"shuultuur/lib/problem"
	"shuultuur/lib/setting"
	"shuultuur/nameserver"
	"shuultuur/proxy"
)

// acmeOf returns the settings of the certificate that is ordered, nil if none is.
func acmeOf(s *configuration.Settings) any {
	if s.ACME == nil {
		return nil
	}
	http, tls := doors(s)
	return []any{s.ACME, http, tls, s.Proxy.Upstream.Parent, s.Proxy.Upstream.NoParent}
}

// certificateOf returns where the certificate of the listeners comes from, nil if they have none.
func certificateOf(s *configuration.Settings) any {
	switch {
	case s.Listen.TLS != nil || s.ACME != nil:
		return []any{s.Listen.TLS, s.ACME != nil}
	case ownRootOf(s) != nil:
		return []any{s.Access.Names, s.Portal.Name}
	}
	return nil
}

// nameServerOf returns the settings of the name server, nil if there is none.
func nameServerOf(s *configuration.Settings) any {
	if s.DNS == nil {
		return nil
	}
	return []any{s.DNS.Server, orderedName(s)}
}

// doors reports whether an authority finds us on port 80 for http-01, and on port 443 for tls-alpn-01.
func doors(s *configuration.Settings) (http, tls bool) {
	on := func(port uint16, all ...setting.Address) bool {
		return slices.ContainsFunc(all, func(a setting.Address) bool {
			at := a.AddrPort()
			return at.Port() == port && !at.Addr().IsLoopback()
		})
	}
	l := &s.Listen
	http = on(80, l.Portal...)
	tls = l.TLS == nil && on(443, slices.Concat(l.PortalTLS, l.Admin, l.Proxy)...)
	if s.DNS != nil && s.DNS.Server.Cert == "" {
		tls = tls || s.DNS.Server.HasHTTPS(443)
	}
	return http, tls
}

// orderedName returns the first name of the certificate that a server can have, "" if none is ordered.
func orderedName(s *configuration.Settings) string {
	if s.ACME == nil {
		return ""
	}
	for _, name := range s.ACME.Names {
		if _, err := netip.ParseAddr(name); err != nil && !strings.HasPrefix(name, "*.") {
			return name
		}
	}
	return ""
}

func newOrdered(_ context.Context, b *builder) (*certificate.Keeper, error) {
	built, h := b.Engine, b.host
	parts := certificate.Parts{Client: b.Settings.Fetcher(), Log: b.log}
	parts.HTTP, parts.TLS = doors(b.Settings)
	parts.Zones = func() certificate.Zones {
		e := built
		if h != nil {
			e = h.InUse()
		}
		if e == nil || e.Zones == nil {
			return nil
		}
		return e.Zones
	}
	if b.trial() {
		return certificate.New(*b.Settings.ACME, parts)
	}
	parts.Folder, parts.Root = b.Data.Dir, h.byRoot
	parts.InUse = func(k *certificate.Keeper) bool {
		e := h.InUse()
		return e != nil && e.Ordered == k
	}
	if b.old != nil {
		parts.Previous = b.old.Ordered
	}
	return certificate.New(*b.Settings.ACME, parts)
}

// byRoot makes a certificate for a name by the root certificate that clients trust, nil if there is none.
func (h *Host) byRoot(name string) (*tls.Certificate, error) {
	if e := h.InUse(); e != nil && e.Intercept != nil {
		return e.Intercept.Authority.Certificate(name)
	}
	return nil, nil
}

// orderedTLS returns the settings of TLS with the certificate that was ordered.
func orderedTLS(k *certificate.Keeper) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: k.Certificate, NextProtos: []string{"http/1.1", certificate.Protocol}}
}

// nameServer returns the settings of the name server, which has the certificate that was ordered unless
// it has one of its own. The nil host is that of a trial.
func (h *Host) nameServer(s *configuration.Settings) nameserver.Config {
	cfg := s.DNS.Server
	if s.ACME == nil || cfg.Cert != "" {
		return cfg
	}
	if cfg.Name == "" {
		cfg.Name = orderedName(s)
	}
	cfg.Certificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if e := h.InUse(); e != nil && e.Ordered != nil {
			return e.Ordered.Certificate(hello)
		}
		return nil, nil
	}
	return cfg
}

// lookUp returns the addresses of a name, as this machine knows them.
func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// ending says which certificates end soon, or have ended, that nothing renews by itself: that of
// listen.tls, and the root that devices trust. An own root that has ended is a problem of its part.
func ending(s *configuration.Settings, listeners *tls.Config, in *proxy.Interception, now time.Time) (all []problem.Problem) {
	const day = "2006-01-02"
	look := func(c *x509.Certificate, ahead time.Duration, what, mend string) {
		if c == nil || now.Before(c.NotAfter.Add(-min(ahead, c.NotAfter.Sub(c.NotBefore)/10))) {
			return
		}
		said := fmt.Sprintf("%s ends on %s: %s", what, c.NotAfter.UTC().Format(day), mend)
		if now.After(c.NotAfter) {
			said = fmt.Sprintf("%s ended on %s, and browsers refuse it: %s", what, c.NotAfter.UTC().Format(day), mend)
		}
		all = append(all, problem.Problem{Kind: problem.Ending, Text: said})
	}
	if k := s.Listen.TLS; k != nil && listeners != nil && len(listeners.Certificates) > 0 {
		look(listeners.Certificates[0].Leaf, 14*24*time.Hour, fmt.Sprintf("the certificate %q of listen.tls", k.Cert), "write a new one in its place")
	}
	if in != nil {
		if root := in.Authority.Root().Certificate; now.Before(root.NotAfter) {
			look(root, 60*24*time.Hour, fmt.Sprintf("the root certificate %q", root.Subject.CommonName), "make the next one with \"shuultuur ca rotate\", and install it on the devices before that")
		}
	}
	return all
}
