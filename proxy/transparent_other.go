//go:build !linux && !freebsd

package proxy

import (
	"net"
	"net/netip"
	"syscall"
)

// originalDestination returns the accepting address, because nothing is known about firewalls
// of this system.
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	local, ok := endpoint(c.LocalAddr())
	if !ok {
		return local, errNotRedirected
	}
	return local, nil
}

// anyAddress does nothing.
func anyAddress(string, string, syscall.RawConn) error { return nil }
