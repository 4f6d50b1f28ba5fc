//go:build small

package accounting

import (
	"log/slog"

	"shuultuur/release"
	"shuultuur/setting"
)

// A Server is what the small build does not have: there is never one.
type Server struct{}

// New refuses.
func New(*Config, []setting.Address, Sessions, *slog.Logger) (*Server, error) {
	return nil, release.Lacks("RADIUS accounting")
}

// Addr is that of the full build.
func (s *Server) Addr() string { return "" }
