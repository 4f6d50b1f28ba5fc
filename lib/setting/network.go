package setting

import (
	"fmt"
	"net/netip"
)

// A Network is an address range in the settings: CIDR, or one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads a network or an address.
func (n *Network) UnmarshalText(text []byte) error {
	s := string(text)
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap().WithZone("")
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
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	n.Prefix = p
	return nil
}

// A looseNetwork is a Network whose address may have bits beyond its mask; they are ignored.
type looseNetwork struct{ Network }

// UnmarshalText reads a network or an address.
func (n *looseNetwork) UnmarshalText(text []byte) error {
	if p, err := netip.ParsePrefix(string(text)); err == nil {
		n.Prefix = p.Masked()
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
