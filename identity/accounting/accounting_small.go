//go:build small

package accounting

import (
	"log/slog"

	"shuultuur/release"
	"shuultuur/setting"
)

// A Server is never made in the small build.
type Server struct{}

// New refuses.
func New(*Config, []setting.Address, Sessions, *slog.Logger) (*Server, error) {
	return nil, release.Lacks("RADIUS accounting")
}

// Addr mirrors the full build.
func (s *Server) Addr() string { return "" }
