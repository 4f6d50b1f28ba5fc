//go:build !linux && !freebsd

package proxy

import (
	"net"
	"net/netip"
	"syscall"
)

// originalDestination returns the address a connection was accepted on: what
// firewalls of this system do is not known.
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	local, ok := endpoint(c.LocalAddr())
	if !ok {
		return local, errNotRedirected
	}
	return local, nil
}

// anyAddress has nothing to do.
func anyAddress(string, string, syscall.RawConn) error { return nil }
