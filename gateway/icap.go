package gateway

import (
	"context"
	"crypto/tls"
	"net"

	"shuultuur/icap"
)

// icap are the settings of the ICAP server, nil when it has no address.
func (s *Settings) icap() any {
	if len(s.Listen.ICAP)+len(s.Listen.ICAPS) == 0 {
		return nil
	}
	return s.ICAP
}

func newICAP(_ context.Context, b *builder) (*icap.Server, error) {
	if b.trial() {
		return icap.New(b.settings.ICAP, b.proxy.Inspector(), nil, b.log)
	}
	return icap.New(b.settings.ICAP, b.proxy.Inspector(), b.g.done, b.log)
}

// icapEngine is what the ICAP server decides with. Clients of it ask for the
// services again when the revision changes.
func (e *Engine) icapEngine() *icap.Engine {
	return &icap.Engine{
		Decider: e.policies.Engine, Accept: e.policies.Accept, Balance: e.balance, Pages: e.pages,
		Identify: e.identity.Identify, Named: e.identity.Named, Tag: "shuultuur-" + e.revision,
	}
}

// serveICAPS is what serves ICAP over TLS, with the certificate in use.
func (g *Gateway) serveICAPS(s *icap.Server) func(context.Context, net.Listener) error {
	return func(ctx context.Context, ln net.Listener) error {
		return s.ServeTLS(ctx, ln, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := g.engine.Load().certificate.Clone()
			c.NextProtos = nil
			return c, nil
		}})
	}
}
