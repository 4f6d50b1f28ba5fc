//go:build !linux

package proxy

import (
	"net"
	"net/netip"
	"syscall"
)

// originalDestination returns where a connection was meant to go: the address
// it was accepted on, which FreeBSD's "ipfw fwd" leaves as it was.
func originalDestination(c net.Conn) (netip.AddrPort, error) {
	local, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errNotRedirected
	}
	a := local.AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()), nil
}

// anyAddress has nothing to do: ipfw fwd brings any address to a socket.
func anyAddress(string, string, syscall.RawConn) error { return nil }
