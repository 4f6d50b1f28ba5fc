package dns

import "net/netip"

// TranslatedIPv4 returns the IPv4 address that stands in a below the prefix of a translator (RFC 6052
// section 2.2), or a itself. prefix may be the zero value.
func TranslatedIPv4(prefix netip.Prefix, a netip.Addr) netip.Addr {
	if !prefix.IsValid() || prefix.Bits() > 96 || !prefix.Contains(a) || !a.Is6() {
		return a
	}
	b := a.As16()
	var v4 [4]byte
	i := prefix.Bits() / 8
	for j := range v4 {
		if i == 8 { // bits 64 to 71 are zero
			i++
		}
		v4[j] = b[i]
		i++
	}
	return netip.AddrFrom4(v4)
}

// TranslatedIPv6 returns the address below the prefix of a translator that stands for an IPv4
// address.
func TranslatedIPv6(prefix netip.Prefix, a netip.Addr) netip.Addr {
	b := prefix.Masked().Addr().As16()
	i := min(prefix.Bits(), 96) / 8
	for _, x := range a.As4() {
		if i == 8 { // bits 64 to 71 are zero
			i++
		}
		b[i] = x
		i++
	}
	return netip.AddrFrom16(b)
}
