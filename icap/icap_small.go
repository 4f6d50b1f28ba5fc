//go:build small

package icap

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
	"shuultuur/release"
)

// A Server is never made in the small build.
type Server struct{}

// New refuses.
func New(Config, *exchange.Inspector, func(*filter.Transaction), *slog.Logger) (*Server, error) {
	return nil, release.Lacks("the ICAP server")
}

// The methods mirror those of the full build.

func (s *Server) Use(*Engine) error { return nil }

func (s *Server) Serve(_ context.Context, ln net.Listener) error { return ln.Close() }

func (s *Server) ServeTLS(_ context.Context, ln net.Listener, _ *tls.Config) error { return ln.Close() }
