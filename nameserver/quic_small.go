//go:build small

package nameserver

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"shuultuur/lib/dns"
	"shuultuur/lib/release"
)

// A quicListener is never made in the small build.
type quicListener struct {
	transport dns.Transport
	udp       *net.UDPConn
}

func (q *quicListener) close() {}

// web replaces that of the full build; it has no listeners.
type web struct{ accepting sync.WaitGroup }

func (s *Server) newWeb() *web { return new(web) }

func (w *web) stop() {}

func (s *Server) leaveQUIC(context.Context, *web) {}

// listenQUIC refuses DNS over QUIC, and leaves out HTTP/3 of DNS over HTTPS.
func (s *Server) listenQUIC(_ context.Context, _ netip.AddrPort, t dns.Transport) error {
	if t == dns.QUIC {
		return release.Lacks("DNS over QUIC")
	}
	return nil
}

func (s *Server) acceptQUIC(quicListener, *web) {}
