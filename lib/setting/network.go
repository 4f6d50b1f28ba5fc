package setting

import (
	"fmt"
	"net/netip"
	"strings"
)

// A Network is an address range in the settings: CIDR, or one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads a network or an address.
func (n *Network) UnmarshalText(text []byte) error {
	s := string(text)
	if a, err := Client(s); err == nil {
		n.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf(`%q is not an address or a network; write it like "10.1.0.0/16" or "2001:db8::/32"`, s)
	}
	if p != p.Masked() {
		return fmt.Errorf("network %q has bits beyond its mask; did you mean %q or %q?", s, p.Masked(), p.Addr())
	}
	n.Prefix = unmapped(p)
	return nil
}

// unmapped returns the IPv4 network that an IPv6 network of such addresses means (RFC 4291 section 2.5.5.2).
func unmapped(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// Client reads the address of a client as all that is known of clients has it: an IPv4 address inside an
// IPv6 address as itself (RFC 4291 section 2.5.5.2), and without the zone of a link, which is another one
// on each machine.
func Client(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || strings.Contains(a.Zone(), "/") { // a network with a zone is not one address
		return netip.Addr{}, fmt.Errorf("%.60q is not an address", text)
	}
	return a.Unmap().WithZone(""), nil
}

// A looseNetwork is a Network whose address may have bits beyond its mask; they are ignored.
type looseNetwork struct{ Network }

// UnmarshalText reads a network or an address.
func (n *looseNetwork) UnmarshalText(text []byte) error {
	if p, err := netip.ParsePrefix(string(text)); err == nil {
		n.Prefix = unmapped(p.Masked())
		return nil
	}
	return n.Network.UnmarshalText(text)
}

// Networks are address ranges in the settings: one, or a list.
type Networks []netip.Prefix

// UnmarshalYAML reads networks and addresses.
func (n *Networks) UnmarshalYAML(read func(any) error) error {
	var all OneOrMore[looseNetwork]
	if err := read(&all); err != nil {
		return err
	}
	*n = make(Networks, len(all))
	for i := range all {
		(*n)[i] = all[i].Prefix
	}
	return nil
}
