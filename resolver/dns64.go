package resolver

import (
	"fmt"
	"net/netip"
	"slices"

	"shuultuur/lib/dns"
)

// DNS64 is the prefix of IPv6 addresses that a translator (NAT64) maps to IPv4 (RFC 6147); the
// zero value means none. In the settings it is true for the well-known prefix 64:ff9b::/96, or
// a prefix of 32, 40, 48, 56, 64 or 96 bits (RFC 6052 section 2.2).
type DNS64 struct{ netip.Prefix }

// UnmarshalYAML reads true, false or a prefix.
func (d *DNS64) UnmarshalYAML(read func(any) error) error {
	var on bool
	if read(&on) == nil {
		*d = DNS64{}
		if on {
			d.Prefix = nat64
		}
		return nil
	}
	var s string
	if err := read(&s); err != nil {
		return err
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return fmt.Errorf("%q is neither true nor a prefix such as %v", s, nat64)
	}
	d.Prefix = p
	return nil
}

// check returns why d is invalid.
func (d DNS64) check() error {
	if !d.IsValid() {
		return nil
	}
	b := d.Addr().As16()
	switch {
	case !d.Addr().Is6() || d.Addr().Is4In6():
		return fmt.Errorf("%v is not a prefix of IPv6", d)
	case !slices.Contains([]int{32, 40, 48, 56, 64, 96}, d.Bits()):
		return fmt.Errorf("%v: the length is none of 32, 40, 48, 56, 64 and 96", d)
	case d.Masked() != d.Prefix:
		return fmt.Errorf("%v has bits set beyond its length; write %v", d, d.Masked())
	case b[8] != 0:
		return fmt.Errorf("%v: bits 64 to 71 have to be zero (RFC 6052 section 2.2)", d)
	}
	return nil
}

// embed returns the IPv6 address that embeds an IPv4 address.
func (d DNS64) embed(v4 [4]byte) netip.Addr {
	return dns.TranslatedIPv6(d.Prefix, netip.AddrFrom4(v4))
}

// embeddedIPv4 returns the IPv4 address embedded in a, or else a.
func (d DNS64) embeddedIPv4(a netip.Addr) netip.Addr {
	return dns.TranslatedIPv4(d.Prefix, a)
}

// maps reports whether a may be mapped: the well-known prefix is only for global addresses
// (RFC 6052 section 3.1).
func (d DNS64) maps(a netip.Addr) bool {
	if d.Prefix != nat64 {
		return true
	}
	return !isPrivate(a) && !slices.ContainsFunc(notGlobal, func(p netip.Prefix) bool { return p.Contains(a) })
}

// notGlobal are the networks of RFC 5735 section 3 that are not private.
var notGlobal = []netip.Prefix{
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
}

// ipv4only is the name by which clients discover the prefix (RFC 7050), in wire form. A
// resolver with DNS64 answers it itself (RFC 8880 section 7.1).
const ipv4only = "\x08ipv4only\x04arpa\x00"

// sixth adds mapped IPv6 addresses to local names that have only IPv4 addresses, and adds
// ipv4only.arpa.
func (l *local) sixth(d DNS64) {
	if !d.IsValid() {
		return
	}
	for _, hosts := range []map[string]*host{l.exact, l.below} {
		for _, h := range hosts {
			if len(h.v6) > 0 {
				continue
			}
			for _, b := range h.v4 {
				if v4 := [4]byte(b); d.maps(netip.AddrFrom4(v4)) {
					h.v6 = append(h.v6, d.embed(v4).AsSlice())
				}
			}
		}
	}
	if l.exact[ipv4only] != nil {
		return
	}
	h := new(host)
	for _, v4 := range [][4]byte{{192, 0, 0, 170}, {192, 0, 0, 171}} {
		h.add(netip.AddrFrom4(v4))
		h.add(d.embed(v4)) // the only use of the well-known prefix for these
		l.pointer(netip.AddrFrom4(v4), []byte(ipv4only))
	}
	l.exact[ipv4only] = h
	l.kinds[ipv4only] = empty
}
