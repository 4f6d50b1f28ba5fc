//go:build small

package helper

import (
	"log/slog"

	"shuultuur/filter"
	"shuultuur/proxy/exchange"
)

// A Server is what the small build does not have: there is never one.
type Server struct{}

// New makes none.
func New(string, *exchange.Inspector, func(*filter.Transaction), *slog.Logger) *Server { return nil }

// Use is that of the full build.
func (s *Server) Use(*Engine) error { return nil }
