//go:build small

package helper

import (
	"log/slog"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
)

// A Server is never made in the small build.
type Server struct{}

// New returns nil.
func New(string, *exchange.Inspector, func(*filter.Transaction), *slog.Logger) *Server { return nil }

// Use mirrors the full build.
func (s *Server) Use(*Engine) error { return nil }
