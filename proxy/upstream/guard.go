package upstream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"shuultuur/lib/dns"
)

// A RefusedError says that requests must not reach an address. Why is for the client.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// A guard decides which addresses may be reached.
type guard struct {
	private []netip.Prefix
	own     []netip.AddrPort
	nat64   netip.Prefix // of a translator, besides the well-known one
}

func (c *Config) guard() guard { return guard{private: c.Private, own: c.Own, nat64: c.NAT64} }

var (
	shared    = netip.MustParsePrefix("100.64.0.0/10")  // RFC 6598
	thisNet   = netip.MustParsePrefix("0.0.0.0/8")      // RFC 1122: "this network"; Linux connects to itself
	reserved  = netip.MustParsePrefix("240.0.0.0/4")    // RFC 1112, broadcast with it
	ietf      = netip.MustParsePrefix("192.0.0.0/24")   // RFC 6890
	bench     = netip.MustParsePrefix("198.18.0.0/15")  // RFC 2544
	nat64     = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	nat64own  = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	sixToFour = netip.MustParsePrefix("2002::/16")      // RFC 3056
	siteLocal = netip.MustParsePrefix("fec0::/10")      // RFC 3879
	compat    = netip.MustParsePrefix("::/96")          // RFC 4291: IPv4-compatible
)

// embeddedIPv4 returns the IPv4 address in an IPv6 address, or the address itself: 64:ff9b::7f00:1
// means 127.0.0.1 if there is a translator.
func embeddedIPv4(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	b := a.As16()
	switch {
	case a.Is4():
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case compat.Contains(a) && a != netip.IPv6Unspecified() && a != netip.IPv6Loopback():
		return netip.AddrFrom4([4]byte(b[12:16]))
	}
	return a
}

// public reports whether an address is on the public internet.
func public(a netip.Addr) bool {
	if a = embeddedIPv4(a); !a.IsGlobalUnicast() || a.IsPrivate() {
		return false // global unicast excludes loopback, link-local, multicast, unspecified
	}
	for _, p := range [...]netip.Prefix{shared, thisNet, reserved, ietf, bench, nat64own, siteLocal} {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// allowed returns an error for the client if requests must not reach to.
func (g *guard) allowed(to netip.AddrPort) error {
	a := to.Addr().Unmap().WithZone("")
	if v4 := dns.TranslatedIPv4(g.nat64, a); v4 != a {
		return g.allowed(netip.AddrPortFrom(v4, to.Port()))
	}
	for _, own := range g.own {
		if own.Port() != to.Port() {
			continue
		}
		if o := own.Addr().Unmap(); o == a || o == embeddedIPv4(a) || o.IsUnspecified() && (embeddedIPv4(a).IsLoopback() || embeddedIPv4(a).IsUnspecified()) {
			return &RefusedError{"this address belongs to the gateway itself"}
		}
	}
	if a.IsUnspecified() || a.IsMulticast() {
		return &RefusedError{fmt.Sprintf("%s is not an address of a host", a)}
	}
	if public(a) {
		return nil
	}
	for _, p := range g.private {
		if p.Contains(a) || p.Contains(embeddedIPv4(a)) {
			return nil
		}
	}
	return &RefusedError{fmt.Sprintf("%s is in a private network", a)}
}

// control is a net.Dialer's Control. It gets the resolved address directly before the
// connection is made, so a name server that answers differently the second time gains
// nothing.
func (g *guard) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial to %q: %w", address, err)
	}
	return g.allowed(to)
}

// DialPublic connects to an address named by others, such as the issuer's in a certificate. It
// refuses addresses that requests must not reach.
func (c *Config) DialPublic(ctx context.Context, network, addr string) (net.Conn, error) {
	g := c.guard()
	d := net.Dialer{Timeout: c.Dial.Or(defaultDial), Control: g.control}
	return d.DialContext(ctx, network, addr)
}

// Reachable returns an error for the client if no connections to an address are made.
func (c *Config) Reachable(to netip.AddrPort) error {
	g := c.guard()
	return g.allowed(to)
}

// ownPort returns an error if a new connection ends at one of the gateway's own ports on
// this machine, which is how a listener on all addresses is recognised.
func (g *guard) ownPort(n net.Conn) error {
	to, ok := n.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	from, ok := n.LocalAddr().(*net.TCPAddr)
	if !ok || !to.IP.Equal(from.IP) {
		return nil
	}
	for _, own := range g.own {
		if int(own.Port()) == to.Port && own.Addr().IsUnspecified() {
			return &RefusedError{"this address belongs to the gateway itself"}
		}
	}
	return nil
}
