package forward

import (
	"net"
	"net/netip"
	"slices"
)

// systemServers returns the name servers of the system except ourselves.
func systemServers(own []netip.AddrPort) []string { return others(configured(), own) }

func others(servers []string, own []netip.AddrPort) []string {
	return slices.DeleteFunc(servers, func(server string) bool {
		ip, err := netip.ParseAddr(server)
		return err != nil || isOwn(own, netip.AddrPortFrom(ip.Unmap(), 53))
	})
}

// isOwn reports whether a query to an address would come back to us.
func isOwn(own []netip.AddrPort, to netip.AddrPort) bool {
	for _, o := range own {
		if o.Port() != to.Port() {
			continue
		}
		a := o.Addr().Unmap()
		if a == to.Addr() || a.IsUnspecified() && isLocal(to.Addr()) {
			return true
		}
	}
	return false
}

// isLocal reports whether an address belongs to this machine.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addrs, func(x net.Addr) bool {
		n, ok := x.(*net.IPNet)
		return ok && n.IP.Equal(net.IP(a.AsSlice()))
	})
}
