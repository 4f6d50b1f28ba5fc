package forward

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"shuultuur/lib/dns"
)

// errNone is why a group without upstreams cannot be queried.
var errNone = errors.New("no upstream is set, and the system names no other name server")

// Problems returns which names cannot be looked up, because neither settings nor system name an
// upstream, or none answers.
func (f *Forwarder) Problems() []string { return append(f.lacking(), f.dead()...) }

// dead names the routes of which no upstream answers.
func (f *Forwarder) dead() (all []string) {
	for _, domain := range slices.Sorted(maps.Keys(f.routes)) {
		g, key := f.routes[domain], "dns.forward.upstreams"
		if domain != "\x00" {
			key = "dns.forward.routes: " + dns.Text([]byte(domain))
		}
		var names []string
		var why error
		for _, u := range g.upstreams {
			u.mu.Lock()
			if u.down {
				names, why = append(names, u.to), u.why
			}
			u.mu.Unlock()
		}
		if len(names) > 0 && len(names) == len(g.upstreams) {
			all = append(all, fmt.Sprintf("%s: %s does not answer, and names of that route get SERVFAIL: %v", key, strings.Join(names, ", "), why))
		}
	}
	return all
}

// lacking says which servers neither the settings nor the system name.
func (f *Forwarder) lacking() (all []string) {
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
	if len(f.lacking()) == 0 {
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
