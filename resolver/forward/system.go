package forward

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

const resolvConf = "/etc/resolv.conf"

// systemServers returns the name servers of the system except ourselves; resolv.conf(5).
func systemServers(own []netip.AddrPort) []string {
	text, err := os.ReadFile(resolvConf)
	if err != nil {
		return nil
	}
	return serversIn(string(text), own)
}

func serversIn(text string, own []netip.AddrPort) []string {
	var servers []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		ip, err := netip.ParseAddr(f[1])
		if err != nil || isOwn(own, netip.AddrPortFrom(ip.Unmap(), 53)) || slices.Contains(servers, f[1]) {
			continue
		}
		servers = append(servers, f[1])
	}
	return servers
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
