package forward

import (
	"errors"
	"net"
	"net/netip"
	"slices"
)

// errNone is why a group without upstreams cannot be queried.
var errNone = errors.New("no upstream is set, and the system names no other name server")

// Problems returns which names cannot be looked up because neither settings nor system name
// an upstream.
func (f *Forwarder) Problems() (all []string) {
	if f.routes["\x00"].missing {
		all = append(all, "dns.forward.upstreams: none is set, and the system names no name server but this one: names that are not answered from here get SERVFAIL; set it to the address of one, such as 9.9.9.9")
	}
	named := slices.ContainsFunc(f.upstreams, func(u *upstream) bool { return len(u.addr.fixed) == 0 })
	if named && len(f.boot.upstreams) == 0 {
		all = append(all, "dns.forward.bootstrap: none is set, and the system names no name server but this one: upstreams with a name cannot be looked up; set it to the address of one, such as 9.9.9.9")
	}
	return all
}

// AwaitedFiles returns the files of the system that may name a server later, if one is needed.
func (f *Forwarder) AwaitedFiles() []string {
	if len(f.Problems()) == 0 {
		return nil
	}
	return systemFiles
}

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
