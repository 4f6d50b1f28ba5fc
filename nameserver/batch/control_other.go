//go:build !linux && !freebsd

package batch

import (
	"net"
	"net/netip"
	"syscall"
)

// Here the system chooses the source address of a reply: listen on each address
// instead of a wildcard.
const (
	controlSize = 1
	canSpread   = false
	truncated   = 0
)

func reusePort(syscall.RawConn, bool) error        { return nil }
func askDestination(*net.UDPConn, bool) error      { return nil }
func destination(control []byte) (netip.Addr, int) { return netip.Addr{}, 0 }
